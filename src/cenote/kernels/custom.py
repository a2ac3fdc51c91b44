"""Elementwise kernels whose formula is a function of the user's, over contiguous arrays of one shape.

for piece of BLOCK elements:           emitted; the pieces are what threads share
  for vector:                          emitted; the last one is masked
    load the inputs, call the function, which emits, store what it returns
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.emission import KernelOrigin, told
from cenote.codegen.values import BOOL, F32, F64, I64, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.errors import CodegenError, DTypeError, shown
from cenote.core.extensions.digests import digest_of, place_of
from cenote.core.extensions.modules import source_digest
from cenote.core.target import Target
from cenote.core.types import BFLOAT16
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to

BLOCK = 16384  # elements of a piece: some 10 us of float32
Number = bool | int | float
_serials = itertools.count(1)
DTYPES = {
    Scalar.of(dtype): np.dtype(dtype)
    for dtype in (
        *(np.float64, np.float32, np.float16, BFLOAT16, np.int64, np.int32, np.int16, np.int8),
        *(np.uint64, np.uint32, np.uint16, np.uint8),
    )
} | {BOOL: np.dtype(np.bool_)}


class UserFormula:
    """Function that emits the formula of a kernel, as a value by which kernels are told apart: by its source, by what
    its closure holds, and by the source of its module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.place = function, place_of(function)
        digest, self.untold = digest_of(function)
        module, unknown = source_digest(function.__module__)
        # Without a source the values that the function finds in its module may change: each definition is another.
        self.untold = self.untold or unknown
        self.kernel_digest = f"{digest} {next(_serials) if unknown else module}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UserFormula) and self.kernel_digest == other.kernel_digest

    def __hash__(self) -> int:
        return hash(self.kernel_digest)

    def __str__(self) -> str:
        return str(self.function.__name__)

    def __repr__(self) -> str:
        return self.place

    def values(self, k: Kernel, arrays: Sequence[Value], numbers: Mapping[str, Value]) -> tuple[Value, ...]:
        """Emit the formula. Raises CodegenError that names the function where it fails, or returns no values."""
        try:
            made = self.function(k, *arrays, **numbers)
        except Exception as error:  # whatever code of users raises
            raise CodegenError(f"{self.place}: {told(error)}") from error
        values = made if isinstance(made, tuple) else (made,)
        if not values or not all(isinstance(value, Value) and value.kernel is k for value in values):
            raise CodegenError(
                f"{self.place}: returned {shown(made)}; return the value of an output made of its arguments, or a "
                "tuple of them"
            )
        return values


@dataclass(frozen=True)
class CustomSpec(KernelSpec):
    """Kernel of a formula for arrays of these types, and numbers of these scalar types, by name."""

    formula: UserFormula
    inputs: tuple[np.dtype[Any], ...]
    numbers: tuple[tuple[str, Scalar], ...]
    outputs: tuple[np.dtype[Any], ...]
    lanes: int

    @property
    def origin(self) -> KernelOrigin | None:
        return KernelOrigin(self.formula.kernel_digest, self.formula.untold)

    @property
    def words(self) -> tuple[Parameter, ...]:
        pointers = [
            pointers_to(Scalar.of(dtype), f"{letter}{place}", may_alias=True)
            for letter, dtypes in (("x", self.inputs), ("y", self.outputs))
            for place, dtype in enumerate(dtypes)
        ]
        numbers = tuple(
            Parameter(f"n_{name}", F64 if scalar.is_float else I64) for name, scalar in self.numbers
        )
        return (*(word for each in pointers for word in each), *numbers_named(["size"]), *numbers)

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        size, lanes = k.number("size"), self.lanes
        for piece in k.range(k.begin, k.end):
            first = piece * BLOCK
            last = k.minimum(size, first + BLOCK)
            whole = last - (last - first) % lanes
            for i in k.range(first, whole, lanes):
                self._vector(k, i, None)
            with k.when(whole < last):
                self._vector(k, whole, k.tail_mask(last - whole, lanes))
        return k

    def _vector(self, k: Kernel, i: Value, mask: Value | None) -> None:
        loaded = [k.pointer(f"x{place}").load(i, self.lanes, mask) for place in range(len(self.inputs))]
        arrays = [_computed(value, dtype) for value, dtype in zip(loaded, self.inputs, strict=True)]
        for place, value in enumerate(self.formula.values(k, arrays, self._numbers(k))):
            pointer = k.pointer(f"y{place}")
            if value.type is BOOL:
                one, zero = (
                    k.constant(pointer.element, 1, value.lanes),
                    k.constant(pointer.element, 0, value.lanes),
                )
                value = k.select(value, one, zero)
            pointer.store(k.splat(value.to(pointer.element), self.lanes), i, mask)

    def _numbers(self, k: Kernel) -> dict[str, Value]:
        return {name: k.number(f"n_{name}").to(scalar) for name, scalar in self.numbers}


def _computed(value: Value, dtype: np.dtype[Any]) -> Value:
    """An element in the type in which a formula gets it: halves as float32, bools as conditions."""
    if dtype == np.bool_:
        return value.differs(0)
    return value.to(F32) if value.type.is_float and value.type.bits == 16 else value


def computing_type(dtype: np.dtype[Any]) -> Scalar:
    """Type in which a formula gets elements of a dtype. Raises DTypeError for those that kernels do not have."""
    try:
        scalar = BOOL if dtype == np.bool_ else Scalar.of(dtype)
    except KeyError:
        raise DTypeError(f"kernels have no elements of type {dtype}") from None
    return F32 if scalar.is_float and scalar.bits == 16 else scalar


def number_type(first: Scalar, number: Number) -> Scalar:
    """Type of a number beside arrays, the first of which is computed in `first`: that type; for a float beside
    integers float32."""
    if first.is_float:
        return first
    if isinstance(number, float):
        return F32
    return I64 if first is BOOL else first


@dataclass(frozen=True)
class TracedFormula:
    """Types of a formula's outputs, and how many lines of LLVM IR it takes."""

    outputs: tuple[np.dtype[Any], ...]
    lines: int


def traced(
    formula: UserFormula, inputs: Sequence[np.dtype[Any]], numbers: Mapping[str, Scalar], target: Target
) -> TracedFormula:
    """Call a formula on values of a kernel that is thrown away. An output has the type of its value; float32 computed
    of halves, which come first, becomes their type again."""
    k = Kernel("traced", target, ())
    arrays = [Value(k, computing_type(dtype), 4, f"%x{place}") for place, dtype in enumerate(inputs)]
    given = {name: Value(k, scalar, 1, f"%n{place}") for place, (name, scalar) in enumerate(numbers.items())}
    before = k.module().count("\n")
    values = formula.values(k, arrays, given)
    half = (
        inputs[0] if computing_type(inputs[0]) is not Scalar.of(inputs[0]) and inputs[0] != np.bool_ else None
    )
    outputs = tuple(half if half is not None and each.type is F32 else DTYPES[each.type] for each in values)
    return TracedFormula(outputs, k.module().count("\n") - before)


def custom_call(
    formula: UserFormula,
    inputs: Sequence[View],
    outputs: Sequence[View],
    numbers: Mapping[str, tuple[Scalar, Number]],
    target: Target,
) -> Call:
    """The launch for plain tensors of one shape."""
    dtypes = [tuple(each.type.dtype for each in views) for views in (inputs, outputs)]
    widest = max(computing_type(dtype).nbytes for dtype in (*dtypes[0], *dtypes[1]))
    scalars = tuple((name, scalar) for name, (scalar, _) in numbers.items())
    spec = CustomSpec(formula, dtypes[0], scalars, dtypes[1], target.vector_bytes // widest)
    words: dict[str, Argument] = {"size": inputs[0].type.size}
    words |= {f"x{place}": view for place, view in enumerate(inputs)}
    words |= {f"y{place}": view for place, view in enumerate(outputs)}
    words |= {f"n_{name}": number for name, (_, number) in numbers.items()}
    return Call.named(spec, words, items=-(-inputs[0].type.size // BLOCK))
