"""Elementwise functions of arrays are recorded before they run: each is written once, on `Traced` values, and a
function of the user's that is made of them (`fused`) is recorded the same way and becomes one kernel.

Types are PyTorch's: operands of several types are converted to the one that their kinds (bool, integer, float) promote
to, in which arrays without axes and plain numbers count only by their kind.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Annotated, Any

import numpy as np

from cenote.core.errors import ArgumentError, CenoteError, DTypeError, InputError, shown
from cenote.core.exact import exact_key
from cenote.core.types import BFLOAT16, FLOAT32, INT64, TensorType, is_float
from cenote.functional.arguments import Operation, Types
from cenote.functional.callers import Caller, are_arrays, called
from cenote.functional.dispatch import Prepared, call, raise_named
from cenote.functional.kinds import Kind
from cenote.functional.record import ALGORITHM, OUT, THREADS, keys_of, parameters_of, public, written
from cenote.functional.scalars import held
from cenote.ops.elementwise.cast import Cast
from cenote.ops.elementwise.chain import Chain, Link
from cenote.ops.elementwise.pointwise import Pointwise

BOOL = np.dtype(np.bool_)
Number = bool | int | float


class OperandKind(Kind):
    """A value of the function: an array, or a number beside one."""


class FormulaRecorder:
    """One function while it is being recorded: its inputs, numbers, and the operators so far."""

    def __init__(self, inputs: Sequence[TensorType]) -> None:
        for x in inputs:
            if x.dtype.kind not in "biuf" and not is_float(x.dtype):
                raise DTypeError(f"type {x.dtype} is not supported")
            if x.dtype.kind == "f" and x.dtype.itemsize > 8:
                raise DTypeError(f"type {x.dtype} is not supported; cast the input to float64")
        self.inputs = inputs
        self.scalars: list[tuple[Number, np.dtype[Any]]] = []
        self._places: dict[Hashable, int] = {}  # of scalars
        self.links: list[tuple[Pointwise, tuple[tuple[str, int], ...]]] = []

    def given(self) -> list[Traced]:
        """The inputs."""
        return [Traced(self, x, ("input", index)) for index, x in enumerate(self.inputs)]

    def scalar(self, value: Number, dtype: np.dtype[Any]) -> Traced:
        """A number as a value of a type (bool: its truth); DTypeError for one that the type does not hold."""
        value = bool(value) if dtype == BOOL else held("a number", value, dtype)
        place = self._places.setdefault((exact_key(value), dtype), len(self.scalars))
        if place == len(self.scalars):
            self.scalars.append((value, dtype))
        return Traced(self, TensorType(dtype, ()), ("scalar", place))

    def apply(self, op: Pointwise, *operands: Traced) -> Traced:
        """The value of an operator."""
        (made,) = op.infer(*(x.type for x in operands))
        self.links.append((op, tuple(x.place for x in operands)))
        return Traced(self, made, ("link", len(self.links) - 1))

    def chain(self, result: Traced) -> Chain:
        """All that is recorded as one operator, of which `result` is the last."""
        if result.place != ("link", len(self.links) - 1):
            result = self.apply(Cast(result.type.dtype), result)
        first = {"input": 0, "scalar": len(self.inputs)}
        first["link"] = first["scalar"] + len(self.scalars)
        links = [Link(op, tuple(first[kind] + index for kind, index in places)) for op, places in self.links]
        return Chain(len(self.inputs), tuple(links), tuple(self.scalars))


def _operator(name: str, reflected: bool = False) -> Callable[[Traced, object], Traced]:
    """One of Python's operators; `reflected`: for a recorded array on its right side."""

    def operator(self: Traced, other: object) -> Traced:
        return record(name, other, self) if reflected else record(name, self, other)

    return operator


@public
class Traced:
    """An array of a function that is being recorded. It has operators and the functions of this module, no elements."""

    __array_ufunc__ = None  # NumPy's arrays leave their operators to this class, which says what is wrong

    def __init__(self, recorder: FormulaRecorder, type: TensorType, place: tuple[str, int]) -> None:
        self.recorder, self.type, self.place = recorder, type, place

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type."""
        return self.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self.type.shape

    def number(self, value: Number) -> Traced:
        """A number as a value of this one's type."""
        return self.recorder.scalar(value, self.dtype)

    def __bool__(self) -> bool:
        raise InputError("fused: a recorded array has no truth value; use where() instead of if")

    def __iter__(self) -> Any:
        raise InputError("fused: a recorded array has no elements to go through")

    __add__, __radd__ = _operator("add"), _operator("add", reflected=True)
    __sub__, __rsub__ = _operator("sub"), _operator("sub", reflected=True)
    __mul__, __rmul__ = _operator("mul"), _operator("mul", reflected=True)
    __truediv__, __rtruediv__ = _operator("div"), _operator("div", reflected=True)
    __floordiv__, __rfloordiv__ = _operator("floor_divide"), _operator("floor_divide", reflected=True)
    __mod__, __rmod__ = _operator("remainder"), _operator("remainder", reflected=True)
    __pow__, __rpow__ = _operator("pow"), _operator("pow", reflected=True)
    __and__, __or__ = _operator("bitwise_and"), _operator("bitwise_or")
    __xor__ = _operator("bitwise_xor")
    __lt__, __le__ = _operator("lt"), _operator("le")
    __gt__, __ge__ = _operator("gt"), _operator("ge")

    def __eq__(self, other: object) -> Traced:  # type: ignore[override]  # elementwise, as arrays have it
        return record("eq", self, other)

    def __ne__(self, other: object) -> Traced:  # type: ignore[override]  # elementwise, as arrays have it
        return record("ne", self, other)

    def __invert__(self) -> Traced:
        return record("bitwise_not", self)

    def __neg__(self) -> Traced:
        return record("neg", self)

    def __abs__(self) -> Traced:
        return record("abs", self)

    __hash__ = object.__hash__


Operand = Traced | Number


class RecordedFunction:
    """A function of recorded operands, of which one at least is no number, and of other arguments, which are read by
    their kinds."""

    def __init__(self, body: Callable[..., Traced]) -> None:
        parameters = tuple(parameters_of(body))
        self.body = body
        self.rest = [each for each in parameters if not isinstance(each.kind, OperandKind)]
        self.count = len(parameters) - len(self.rest)
        self.caller = OperandCaller(self)

    def value(self, *values: Any) -> Traced:
        """The value of operands, followed by the other arguments."""
        rest = zip(self.rest, values[self.count :], strict=False)
        return self.body(*values[: self.count], **{each.name: each.read(value) for each, value in rest})

    @staticmethod
    def split(operands: Sequence[Any]) -> tuple[tuple[Number | None, ...], tuple[Any, ...]]:
        """The operands that are numbers, None for each array, and the arrays. Raises InputError where there is none."""
        template = tuple(_number(x) for x in operands)
        arrays = tuple(x for x, number in zip(operands, template, strict=True) if number is None)
        if not arrays:
            raise InputError("all operands are numbers; at least one must be an array")
        return template, arrays

    def __call__(self, types: Types, template: tuple[Any, ...], *arguments: Any) -> Operation:
        """The operation for inputs of these types: `template` has the operands, None for each array."""
        recorder = FormulaRecorder(types)
        arrays = iter(recorder.given())
        operands = [next(arrays) if x is None else x for x in template]
        return operation_of(recorder, self.value(*operands, *arguments))


class OperandCaller(Caller):
    """Caller of a function whose operands may be numbers, too, or recorded values."""

    def slow(self, arrays: tuple[Any, ...], arguments: tuple[Any, ...], out: object, threads: object) -> Any:
        if are_arrays(arrays):
            return super().slow(arrays, arguments, out, threads)
        name, _, *others = arguments
        return run(name, arrays, others, out, threads)


FORMULAS: dict[str, RecordedFunction] = {}
"""The functions of recorded operands by their names. Of two for one function, one is NAME__VARIANT."""

Value = Annotated[Traced, OperandKind("A")]
"""The only operand."""
Left = Annotated[Operand, OperandKind("A")]
Right = Annotated[Operand, OperandKind("Any")]


def formula(body: Callable[..., Traced]) -> Callable[..., Any]:
    """Enter a body into the table, under its name without the underscore."""
    FORMULAS[body.__name__.strip("_")] = RecordedFunction(body)
    return body


def elementwise(body: Callable[..., Traced]) -> Callable[..., Any]:
    """Make the function of a body that says what becomes of recorded operands; calls of it within others record too.

    The body is run once per signature, with Traced values and numbers as operands and checked values as other
    arguments. The function that callers see has `out` and `threads` besides.
    """
    formula(body)
    own = tuple(parameters_of(body))
    signature = (*own, OUT, THREADS, ALGORITHM)
    operands = "".join(f"{each.name}, " for each in own if isinstance(each.kind, OperandKind))
    names: dict[str, Any] = {"call": FORMULAS[body.__name__].caller}
    keys = keys_of([each for each in own if not isinstance(each.kind, OperandKind)], names)
    template = "None, " * FORMULAS[body.__name__].count
    line = called(f"({operands})", body.__name__, [f"({template})", *keys], "out")
    return public(written(body.__name__, signature, "A", line, names, body, body.__doc__))


def of_operator(
    module: str, name: str, op: Pointwise, doc: str, of: Callable[[Traced], Traced] | None = None
) -> Callable[..., Any]:
    """Make a function of one operand that is one operator. `of`: makes the operator's operand of the function's."""

    def body(input: Value) -> Traced:
        return apply(op, input if of is None else of(input))

    body.__module__, body.__name__, body.__doc__ = module, name, doc
    return elementwise(body)


Pairing = Callable[[Operand, Operand], Sequence[Traced]]


def of_two(
    module: str, name: str, op: Pointwise, doc: str, of: Pairing | None = None, bools: Pointwise | None = None
) -> Callable[..., Any]:
    """Make a function of two operands that is one operator, or `bools` where both are bool. `of`: makes the operator's
    operands of the function's; by default these are promoted."""

    def body(input: Left, other: Right) -> Traced:
        a, b = promoted(input, other) if of is None else of(input, other)
        return apply(bools if bools is not None and a.dtype == BOOL else op, a, b)

    body.__module__, body.__name__, body.__doc__ = module, name, doc
    return elementwise(body)


def floats(x: Traced) -> Traced:
    """The operand of a function that takes floats only."""
    if not is_float(x.dtype):
        raise DTypeError(f"type {x.dtype} is not a float type; cast the input to float32 first")
    return x


def as_floats(x: Traced) -> Traced:
    """Integers and bool as float32."""
    return x if is_float(x.dtype) else as_type(x, FLOAT32)


def recorder_of(operands: Sequence[object]) -> FormulaRecorder:
    """The recorder of operands of which at least one is recorded."""
    return next(x.recorder for x in operands if isinstance(x, Traced))


def apply(op: Pointwise, *operands: Traced) -> Traced:
    """The value of an operator."""
    return operands[0].recorder.apply(op, *operands)


def record(name: str, *operands: object, arguments: Sequence[Any] = ()) -> Traced:
    """The value of a function on operands of which at least one is recorded."""
    try:
        recorder = recorder_of(operands)
        for x in operands:
            if isinstance(x, Traced):
                if x.recorder is not recorder:
                    raise InputError("the operands are recorded by different calls of fused")
            elif not isinstance(x, bool | int | float):
                raise InputError(
                    f"an operand is {shown(x)} ({type(x).__name__}); in a fused function operands are its arguments, "
                    "what is made of them, and numbers"
                )
        return FORMULAS[name].value(*operands, *arguments)
    except CenoteError as error:
        raise_named(name, error)


def operation_of(recorder: FormulaRecorder, result: Traced) -> Operation:
    """A recorded function, ready to be run."""
    return Operation(recorder.chain(result), tuple(x.shape for x in recorder.inputs), (result.shape,))


def run(
    name: str | tuple[str, str],
    operands: Sequence[Any],
    arguments: Sequence[Any],
    out: object,
    threads: object,
) -> Any:
    """A function of FORMULAS on arrays and numbers, at least one of them an array, or on recorded values. `name`:
    that of the function, or that and its algorithm's."""
    title, algorithm = (name, None) if isinstance(name, str) else name
    formula, nothing = FORMULAS[title], (None,) * len(operands)
    given = tuple(operands)
    if are_arrays(given):
        return formula.caller.now(given, (name, nothing, *arguments), out, threads)
    for x in operands:
        if isinstance(x, Traced):
            if out is not None or threads is not None or algorithm is not None:
                raise ArgumentError(
                    "out, threads and algorithm are arguments of the fused function, not of its parts"
                )
            return record(title, *operands, arguments=arguments)
    template, arrays = formula.split(operands)

    def learn(prepared: Prepared, *_: Any) -> None:
        if all(x is None or type(x) in (bool, int, float) for x in template):
            formula.caller.learn(prepared, given, (name, nothing, *arguments), threads)

    return call(formula, arrays, (name, template, *arguments), out, threads, learn)


def _number(x: object) -> Number | None:
    if isinstance(x, bool | int | float):
        return x
    if isinstance(x, np.generic) and x.dtype.kind in "biuf":
        value: Number = x.item()
        return value
    return None


# ---- types ----------------------------------------------------------------------------------------------------------


def _kind(dtype: np.dtype[Any]) -> int:
    return 2 if is_float(dtype) else 0 if dtype == BOOL else 1


def _type_of_number(x: Number) -> np.dtype[Any]:
    return BOOL if isinstance(x, bool) else INT64 if isinstance(x, int) else FLOAT32


def _pair_type(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    if a == b or _kind(a) != _kind(b):
        return a if _kind(a) >= _kind(b) else b
    if is_float(a):
        if BFLOAT16 in (a, b) and a.itemsize == b.itemsize:
            return FLOAT32
        return a if a.itemsize > b.itemsize else b
    joined = np.promote_types(a, b)
    if joined.kind == "f":
        raise DTypeError(f"there is no integer type for both {a} and {b}; cast one")
    return joined


def result_type(operands: Sequence[Operand]) -> np.dtype[Any]:
    """The type that operands promote to, by torch.result_type's rule."""
    found: np.dtype[Any] | None = None
    arrays = [x.type for x in operands if isinstance(x, Traced)]
    numbers = [_type_of_number(x) for x in operands if not isinstance(x, Traced)]
    for group in ([x.dtype for x in arrays if x.rank], [x.dtype for x in arrays if not x.rank], numbers):
        joined: np.dtype[Any] | None = None
        for dtype in group:
            joined = dtype if joined is None else _pair_type(joined, dtype)
        if joined is not None and (found is None or _kind(joined) > _kind(found)):
            found = joined
    assert found is not None, "operands"
    return found


def as_type(x: Operand, dtype: np.dtype[Any], beside: Operand | None = None) -> Traced:
    """An operand as a value of a type; a number is recorded where the operand `beside` is."""
    if not isinstance(x, Traced):
        return recorder_of((beside,)).scalar(x, dtype)
    return x if x.dtype == dtype else apply(Cast(dtype), x)


def promoted(*operands: Operand, floats: bool = False, beside: Operand | None = None) -> list[Traced]:
    """The operands in their common type; with `floats` integers and bool become float32. Numbers are recorded where
    `beside`, or one of the operands, is."""
    dtype = result_type(operands)
    if floats and not is_float(dtype):
        dtype = FLOAT32
    some = beside if isinstance(beside, Traced) else next(x for x in operands if isinstance(x, Traced))
    return [as_type(x, dtype, some) for x in operands]
