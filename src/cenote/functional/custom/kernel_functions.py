"""Functions on arrays that are made of kernels of the user's: `jit_elementwise`, `jit_kernel`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cenote.codegen import jit
from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, OperatorError, ShapeError, shown
from cenote.core.extensions.digests import place_of
from cenote.core.target import Target
from cenote.core.types import PLAIN, Array, TensorType, native_dtype
from cenote.functional.arguments import Operation, Types, given_array, plain
from cenote.functional.callers import Caller
from cenote.functional.custom.difference import difference
from cenote.functional.custom.guards import GuardedArray
from cenote.functional.dispatch import FAILURES, raise_named
from cenote.functional.scalars import held
from cenote.kernels.base import Call, View
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.custom import (
    DTYPES,
    Number,
    UserFormula,
    computing_type,
    custom_call,
    number_type,
    traced,
)
from cenote.ops.base import Arrays, Lowering, Op

Numbers = Mapping[str, Number]
_OWN = ("out", "threads")


class KernelFunction:
    """Function on arrays that runs a kernel of the user's, as `jit_elementwise` and `jit_kernel` make it.

    It takes an array for each parameter of the function that it is made of, by place, and the numbers by name, `out=`
    and `threads=` as the functions of `cenote.functional` do. Arrays are NumPy's, PyTorch's or of any library with
    DLPack, and are copied first where they are not contiguous; the result is of the first one's kind.

    Raises InputError, ShapeError, DTypeError and ArgumentError for arguments that do not fit, CodegenError for a kernel
    that cannot be made, OperatorError where `check` finds a difference.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        reference: Callable[..., Any],
        tolerance: float,
        check: bool,
    ) -> None:
        if not callable(reference):
            raise ArgumentError(f"reference: {shown(reference)} is no function")
        self.function, self.reference = function, reference
        self.tolerance, self.check = tolerance, check
        self.place = place_of(function)
        self.arrays, self.defaults = _parameters(function)
        self._caller, self._tried = Caller(self._parse), set[Any]()
        functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.place})"

    @property
    def name(self) -> str:
        """Name of the function, with which its errors begin."""
        return str(self.function.__name__)

    def __call__(self, *arrays: Any, out: object = None, threads: int | None = None, **numbers: Any) -> Any:
        try:
            self._expect(len(arrays))
            values = tuple(self.numbers(numbers).values())
            if self.check:
                self._try(arrays, values, threads)
            return self._caller.now(arrays, (self.name, *values), out, threads)
        except FAILURES as error:
            raise_named(self.name, error)

    def numbers(self, given: Mapping[str, Any]) -> dict[str, Number]:
        """Return all numbers of a call, in order. Raises ArgumentError for unknown and missing ones, and for others."""
        unknown = [name for name in given if name not in self.defaults]
        if unknown:
            known = ", ".join(self.defaults) or "none"
            raise ArgumentError(f"there is no argument '{unknown[0]}' (numbers: {known})")
        numbers: dict[str, Number] = {}
        for name, default in self.defaults.items():
            value = given.get(name, default)
            value = value.item() if isinstance(value, np.generic) else value
            if value is inspect.Parameter.empty:
                raise ArgumentError(f"argument '{name}' is missing")
            if not isinstance(value, bool | int | float):
                raise ArgumentError(f"argument '{name}' is {shown(value)}, which is no number")
            numbers[name] = value
        return numbers

    def types(self, *inputs: TensorType, **numbers: Any) -> Types:
        """Types of the outputs for inputs of these types: for `Op.types`."""
        raise NotImplementedError

    def lowering(self, inputs: Sequence[TensorType | None], target: Target, **numbers: Any) -> Lowering:
        """The kernel as a way to compute an operator, for `Op.lowerings`: on plain memory, for any sizes."""
        raise NotImplementedError

    def compute(self, *arrays: Array, **numbers: Any) -> Arrays:
        """Return what the reference computes, in the types of the outputs: for `Op.compute`."""
        types = self.types(*(TensorType(native_dtype(x.dtype), x.shape) for x in arrays), **numbers)
        if not any(y.size for y in types):
            return tuple(np.empty(y.shape, y.dtype) for y in types)
        made = self.reference(*arrays, **self.numbers(numbers))
        results = [np.asarray(y) for y in (made if isinstance(made, tuple) else (made,))]
        if [y.shape for y in results] != [y.shape for y in types]:
            shapes = " and ".join(str(list(y.shape)) for y in results)
            wanted = " and ".join(str(list(y.shape)) for y in types)
            raise OperatorError(
                f"the reference {place_of(self.reference)} gives shape {shapes}, the kernel {wanted}"
            )
        with np.errstate(all="ignore"):
            return tuple(y.astype(wanted.dtype) for y, wanted in zip(results, types, strict=True))

    def _expect(self, count: int) -> None:
        if count != len(self.arrays):
            raise ArgumentError(f"takes {len(self.arrays)} arrays ({', '.join(self.arrays)}), got {count}")

    def _parse(self, types: Types, *numbers: Number) -> Operation:
        named = tuple(zip(self.defaults, numbers, strict=True))
        return plain(KernelOperator(self, named), *types)

    def _try(self, arrays: tuple[Any, ...], values: tuple[Number, ...], threads: int | None) -> None:
        """Run a call of a new signature on copies between guards, and compare the results with the reference."""
        given = [given_array(name, x)[0] for name, x in zip(self.arrays, arrays, strict=True)]
        key = (*[(x.dtype, x.shape) for x in given], *map(type, values))
        if key in self._tried:
            return
        types = tuple(TensorType(native_dtype(x.dtype), x.shape) for x in given)
        numbers = dict(zip(self.defaults, values, strict=True))
        outputs = [GuardedArray(type) for type in self.types(*types, **numbers)]
        inputs = [GuardedArray(type, x) for type, x in zip(types, given, strict=True)]
        out = tuple(each.array for each in outputs)
        self._caller.now(
            tuple(each.array for each in inputs),
            (self.name, *values),
            out if len(out) > 1 else out[0],
            threads,
        )
        named = (*zip(self.arrays, inputs, strict=True), *((f"output {n}", y) for n, y in enumerate(outputs)))
        for name, guarded in named:
            if side := guarded.touched():
                raise OperatorError(f"the kernel {self.place} writes {side} {name}, outside of its memory")
        for place, (got, want) in enumerate(zip(out, self.compute(*given, **numbers), strict=True)):
            if found := difference(got, want, self.tolerance):
                which = f" of output {place}" if len(out) > 1 else ""
                raise OperatorError(f"the kernel {self.place} differs from its reference{which}: {found}")
        self._tried.add(key)


class ElementwiseFunction(KernelFunction):
    """KernelFunction of a formula for elements (`jit_elementwise`)."""

    def __init__(
        self, function: Callable[..., Any], reference: Callable[..., Any], tolerance: float, check: bool
    ) -> None:
        super().__init__(function, reference, tolerance, check)
        self.formula = UserFormula(function)

    def types(self, *inputs: TensorType, **numbers: Any) -> Types:
        self._expect(len(inputs))
        for name, x in zip(self.arrays, inputs, strict=True):
            if x.shape != inputs[0].shape:
                raise ShapeError(
                    f"{name} has shape {list(x.shape)}, {self.arrays[0]} {list(inputs[0].shape)}: elementwise kernels "
                    "take arrays of one shape (numpy.broadcast_to makes one of them)"
                )
        scalars = {name: scalar for name, (scalar, _) in self._typed(inputs, numbers).items()}
        found = traced(self.formula, [x.dtype for x in inputs], scalars, jit.host_target())
        return tuple(TensorType(dtype, inputs[0].shape) for dtype in found.outputs)

    def lowering(self, inputs: Sequence[TensorType | None], target: Target, **numbers: Any) -> Lowering:
        given = [x for x in inputs if x is not None]
        outputs, typed = self.types(*given, **numbers), self._typed(given, numbers)
        lines = traced(
            self.formula, [x.dtype for x in given], {n: s for n, (s, _) in typed.items()}, target
        ).lines
        nbytes = sum(each.nbytes for each in (*given, *outputs))

        def call(*views: View) -> Call:
            return custom_call(self.formula, views[: len(given)], views[len(given) :], typed, target)

        return Lowering.of_call(
            self.name,
            (PLAIN,) * len(given),
            (PLAIN,) * len(outputs),
            call,
            pass_seconds(nbytes, lines * given[0].size),
            tolerance=self.tolerance,
            in_place=tuple(n for n, x in enumerate(given) if x.dtype == outputs[0].dtype),
        )

    def _typed(self, inputs: Sequence[TensorType], numbers: Numbers) -> dict[str, Any]:
        """The numbers with their scalar types."""
        first = computing_type(inputs[0].dtype)
        typed = {}
        for name, value in self.numbers(numbers).items():
            scalar = number_type(first, value)
            typed[name] = scalar, held(f"argument '{name}'", value, DTYPES[scalar])
        return typed


class CallFunction(KernelFunction):
    """KernelFunction of a function that makes the calls (`jit_kernel`)."""

    def __init__(
        self,
        function: Callable[..., Any],
        reference: Callable[..., Any],
        types: Callable[..., Any],
        tolerance: float,
        check: bool,
    ) -> None:
        self._types = types
        super().__init__(function, reference, tolerance, check)
        self.views = self.arrays
        self.arrays = tuple(
            name for name, each in inspect.signature(types).parameters.items() if each.kind in _PLACED
        )

    def types(self, *inputs: TensorType, **numbers: Any) -> Types:
        self._expect(len(inputs))
        for x in inputs:
            computing_type(x.dtype)
        made = self._types(*inputs, **self.numbers(numbers))
        types = made if isinstance(made, tuple) else (made,)
        if not types or not all(isinstance(each, TensorType) for each in types):
            raise OperatorError(
                f"types ({place_of(self._types)}) returned {shown(made)}, not types of the outputs"
            )
        if len(self.views) != len(inputs) + len(types):
            raise OperatorError(
                f"{self.place} takes {len(self.views)} views, not one for each of {len(inputs)} inputs and {len(types)}"
                " outputs"
            )
        return types

    def lowering(self, inputs: Sequence[TensorType | None], target: Target, **numbers: Any) -> Lowering:
        given = [x for x in inputs if x is not None]
        outputs, values = self.types(*given, **numbers), self.numbers(numbers)

        def bind(views: Sequence[View | None], made: Sequence[View]) -> tuple[Call, ...]:
            calls = self.function(target, *(view for view in views if view is not None), *made, **values)
            listed = tuple(calls) if isinstance(calls, list | tuple) else (calls,)
            if not all(isinstance(each, Call) for each in listed):
                raise OperatorError(f"{self.place} returned {shown(calls)}, not a Call or a list of them")
            return listed

        nbytes = sum(each.nbytes for each in (*given, *outputs))
        layouts = (PLAIN,) * len(given), (PLAIN,) * len(outputs)
        return Lowering(self.name, *layouts, bind, pass_seconds(nbytes), self.tolerance)


@dataclass(frozen=True)
class KernelOperator(Op):
    """Operator of a call of a KernelFunction: what the dispatcher of functions on arrays runs."""

    function: KernelFunction
    numbers: tuple[tuple[str, Number], ...] = ()

    name = "kernel_function"
    operands = ("x*",)

    def types(self, *inputs: TensorType) -> Types:
        return self.function.types(*inputs, **dict(self.numbers))

    def compute(self, *inputs: Array) -> Arrays:
        return self.function.compute(*inputs, **dict(self.numbers))

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Any:
        yield self.function.lowering(inputs, target, **dict(self.numbers))


_PLACED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _parameters(function: Callable[..., Any]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Names of a function's arrays, behind its first parameter, and its numbers with their defaults."""
    if not inspect.isfunction(function):
        raise ArgumentError(f"{shown(function)} is no function under `def`")
    signature = inspect.signature(function).parameters
    placed = tuple(name for name, each in signature.items() if each.kind in _PLACED)
    numbers = {name: each.default for name, each in signature.items() if each.kind is each.KEYWORD_ONLY}
    if len(placed) + len(numbers) < len(signature) or len(placed) < 2 or any(n in numbers for n in _OWN):
        raise ArgumentError(
            f"{place_of(function)}: its parameters are k (or target), then an array each, then numbers behind a `*`; "
            f"{' and '.join(_OWN)} are arguments of every function"
        )
    return placed[1:], numbers


def jit_elementwise(
    *, reference: Callable[..., Any], tolerance: float = 1e-6, check: bool = False
) -> Callable[[Callable[..., Any]], ElementwiseFunction]:
    """Return a decorator that makes a function on arrays of a formula for their elements.

        @cenote.jit_elementwise(reference=lambda x, threshold: np.sign(x) * np.maximum(abs(x) - threshold, 0))
        def soft_threshold(k, x, *, threshold):
            return k.maximum(x - threshold, 0.0) + k.minimum(x + threshold, 0.0)

        y = soft_threshold(x, threshold=0.5)

    The formula gets the builder `k` (`cenote.kernels.Kernel`), a value for each array and, behind a `*`, numbers. It is
    called when a kernel is made, once per combination of types, and emits instructions for a vector of elements;
    numbers and sizes may change without another kernel. It returns the output's value, or a tuple of them.

    Arrays have one shape. Elements of float16 and bfloat16 arrive as float32, bools as conditions (for `k.select`).
    Numbers arrive in the type in which the first array arrives; a float beside integers as float32. An output has the
    type of its value; float32 of a first array of float16 or bfloat16 becomes that type.

    reference   the same in NumPy: the parameters but `k`; what `check` compares with. It is not called for empty arrays
    tolerance   error that is allowed against the reference, relative to the largest element; 0: equal bits
    check       try the first call of each combination of types and shapes on copies between guards, and compare with
                the reference; OperatorError says where they differ and by how much, and what is written outside

    Raises ArgumentError for a function whose parameters are others.
    """
    return lambda function: ElementwiseFunction(function, reference, tolerance, check)


def jit_kernel(
    *,
    reference: Callable[..., Any],
    types: Callable[..., Any],
    tolerance: float = 1e-6,
    check: bool = False,
) -> Callable[[Callable[..., Any]], CallFunction]:
    """Return a decorator that makes a function on arrays of calls of kernels (`cenote.kernels`).

        @cenote.jit_kernel(types=lambda x: cenote.TensorType(x.dtype, x.shape[:1]), reference=lambda x: x.sum(1))
        def row_sums(target, x, y):
            return RowSums(target.lanes(x.type.dtype)).call(x, y)

    The function gets the target (`cenote.kernels.Target`), a view (`cenote.kernels.View`) of each contiguous input and
    output and, behind a `*`, numbers; it returns a `Call`, or a list of them that run one after the other. It runs once
    per combination of types, shapes and numbers. Nothing checks where a kernel reads and writes: it must stay within
    its views.

    types       function of the inputs' types (`cenote.TensorType`) and the numbers that returns the output's type, or a
                tuple of types; it raises what is wrong with them
    reference, tolerance, check   as of `jit_elementwise`

    Raises ArgumentError for a function whose parameters are others.
    """
    return lambda function: CallFunction(function, reference, types, tolerance, check)
