"""The base of operators whose output elements depend on one element of each input, broadcast; their lowerings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.types import FLOAT32, FLOAT64, INT64, PLAIN, Array, Layout, TensorType, is_float
from cenote.kernels.base import Call, View, present
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.elementwise.elementwise import Operand, elementwise_call, operand_of
from cenote.kernels.elementwise.expression import Expression, Step
from cenote.kernels.elementwise.functions import FORMULAS, Number, is_formula_of
from cenote.ops.base import Arrays, Box, Lowering, Op, Sample, Types
from cenote.ops.checks import broadcast_shapes, require_float, require_number, require_same_dtype
from cenote.ops.values import hostile, narrow, seeded, wide


@dataclass(frozen=True)
class Function:
    """Formula of an operator for inputs of given types: one of kernels/elementwise/functions.py on some of the inputs,
    or an expression of several. `exact`: the kernel rounds as the reference does, whatever the type."""

    name: str | Expression
    parameters: tuple[Number, ...] = ()
    operands: tuple[int, ...] = (0,)
    tolerance: float = 0.0  # in float32
    weight: int = 1
    exact: bool = False

    def allowed(self, inputs: Sequence[TensorType | None]) -> bool:
        """Whether the formulas exist for the types."""
        types = [present(inputs[index]).dtype for index in self.operands]
        if isinstance(self.name, str):
            return all(is_formula_of(self.name, dtype) for dtype in types)
        return self.name.is_native(types)

    def as_expression(self, output: TensorType) -> Expression:
        """Expression of the operands that computes this formula."""
        if isinstance(self.name, Expression):
            return self.name
        count = len(self.operands)
        return Expression(count, (Step(self.name, tuple(range(count)), output.dtype, self.parameters),))

    def error(self, dtype: np.dtype[Any]) -> float:
        """The tolerance of a result."""
        return 0.0 if self.exact else error_of(self.tolerance, dtype)


def error_of(tolerance: float, dtype: np.dtype[Any]) -> float:
    """The tolerance in a type, given that of float32: results are rounded to it once more."""
    if not is_float(dtype) or dtype == FLOAT32:
        return tolerance
    if dtype == FLOAT64:
        return tolerance * 1e-8
    return 2.0**-10 if dtype == np.float16 else 2.0**-7


def pointwise_lowerings(
    function: Function,
    inputs: Sequence[TensorType | None],
    output: TensorType,
    target: Target,
    scalars: Sequence[Array] = (),
) -> Iterator[Lowering]:
    """The plain lowering, and the blocked one where the operands' shapes allow it. Operands of the function behind the
    inputs are `scalars`, arrays of one element."""
    places, inputs = inputs, [*inputs, *map(TensorType.known, scalars)]
    if not function.allowed(inputs):
        return
    operands = [inputs[index] for index in function.operands]
    moved = output.nbytes + sum(x.nbytes for x in operands if x is not None)
    seconds = pass_seconds(moved, function.weight * output.size)
    tolerance = function.error(output.dtype)
    reusable = tuple(i for i in dict.fromkeys(function.operands) if _fits(inputs[i], output))

    def bind_plain(views: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
        operands = [
            operand_of(present(views[i]), outputs[0])
            if i < len(views)
            else _scalar(scalars[i - len(views)], outputs[0])
            for i in function.operands
        ]
        call = elementwise_call(
            function.name, function.parameters, operands, outputs[0], target, function.weight
        )
        return [call]

    plain = tuple(PLAIN if i in function.operands else None for i in range(len(places)))
    yield Lowering("elementwise", plain, (PLAIN,), bind_plain, seconds, tolerance, in_place=reusable)

    found = _blocked_layouts(function, inputs, output, target)
    if found is None:
        return
    layouts = found[: len(places)]

    def bind_blocked(views: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
        operands = [
            _blocked_operand(present(views[i]), outputs[0])
            if i < len(views)
            else _scalar(scalars[i - len(views)], outputs[0])
            for i in function.operands
        ]
        call = elementwise_call(
            function.name, function.parameters, operands, outputs[0], target, function.weight
        )
        return [call]

    blocked = Layout(block_lanes(output.dtype, target))
    yield Lowering(
        "elementwise_blocked",
        layouts,
        (blocked,),
        bind_blocked,
        seconds,
        tolerance,
        in_place=tuple(i for i in reusable if layouts[i] == blocked),
    )


def _scalar(value: Array, output: View) -> Operand:
    return Operand(value.reshape(1), (0,) * len(output.strides), is_scalar=True)


def block_lanes(dtype: np.dtype[Any], target: Target) -> int:
    """The channels of a block in a type: bytes and bfloat16 lie as the float32 that they are made of; 0: no blocks."""
    if dtype.name in ("int8", "uint8", "bfloat16"):
        return target.lanes()
    return target.lanes(dtype) if is_float(dtype) else 0


def _fits(x: TensorType | None, output: TensorType) -> bool:
    return x is not None and x.value is None and x == output


def _blocked_layouts(
    function: Function, inputs: Sequence[TensorType | None], output: TensorType, target: Target
) -> tuple[Layout | None, ...] | None:
    """Layouts of the inputs when the output is blocked; None if some operand cannot be read then."""
    lanes = block_lanes(output.dtype, target)
    if not 3 <= output.rank <= 5 or not lanes:
        return None
    used = [present(inputs[index]) for index in function.operands]
    if any(block_lanes(x.dtype, target) != lanes for x in used if x.value is None or x.value.size != 1):
        return None
    blocked = Layout(lanes)
    layouts: list[Layout | None] = [None] * len(inputs)
    for index in function.operands:
        x = inputs[index]
        if x is None:
            return None
        if x.value is None:
            # A tensor that is broadcast over places (a gate per channel) is fine, over channels it is not.
            if x.size == 1 and output.size > 1:
                layouts[index] = PLAIN
            elif x.rank == output.rank and x.shape[1] == output.shape[1]:
                layouts[index] = blocked
            else:
                return None
    if not any(layout == blocked for layout in layouts):
        return None
    return tuple(layouts)


def _blocked_operand(view: View, output: View) -> Operand:
    """The operand for a blocked output; constants are repacked, channel by channel."""
    if view.layout.is_blocked:
        return operand_of(view, output)
    value = view.type.value
    if view.type.size == 1 or value is None:
        return Operand(
            view if value is None else value.reshape(1), (0,) * len(output.strides), is_scalar=True
        )
    lanes = output.layout.lanes
    packed = blocked_constant(value.reshape((1,) * (len(output.shape) - value.ndim) + value.shape), lanes)
    shape = packed.shape[:-1]
    steps = [lanes * int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
    return Operand(packed, tuple(0 if n == 1 else step for n, step in zip(shape, steps, strict=True)))


def blocked_constant(value: Array, lanes: int) -> Array:
    """(n, c, *spatial) as (n, blocks, *spatial, lanes), zeros in junk lanes; one channel fills all lanes."""
    if value.shape[1] == 1:
        return np.ascontiguousarray(np.repeat(value[..., None], lanes, axis=-1))
    blocks = -(-value.shape[1] // lanes)
    wide = np.zeros((value.shape[0], blocks * lanes, *value.shape[2:]), value.dtype)
    wide[:, : value.shape[1]] = value
    return np.ascontiguousarray(
        np.moveaxis(wide.reshape(value.shape[0], blocks, lanes, *value.shape[2:]), 2, -1)
    )


def broadcast_region(box: Box, x: TensorType | None) -> Box | None:
    """The box of a broadcast operand that a box of the output reads."""
    if x is None:
        return None
    last = box.ranges[len(box.ranges) - x.rank :]
    return Box(
        tuple((0, min(extent, 1)) if extent == 1 else ab for extent, ab in zip(x.shape, last, strict=True))
    )


class Pointwise(Op):
    """Base of elementwise operators: `elements` is the formula on arrays (floats come as float64).

    `weight` counts the operations per output element (for estimates), `integers` says whether integer types
    are allowed. `formula` names the instructions in kernels/elementwise/functions.py, right in float32 within
    `tolerance`; `of_formula` gives all of these.
    """

    operands: ClassVar[tuple[str, ...]] = ("a", "b")
    weight: ClassVar[int] = 1
    integers: ClassVar[bool] = True
    formula: ClassVar[str] = ""
    tolerance: ClassVar[float] = 0.0
    elements: ClassVar[Callable[..., Array]]

    def function(self, inputs: Sequence[TensorType | None]) -> Function | None:
        """Formula of the kernels for these inputs; None if there is none."""
        if not self.formula:
            return None
        return Function(self.formula, (), tuple(range(len(inputs))), self.tolerance, self.weight)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        function = self.function(inputs)
        if function is not None:
            yield from pointwise_lowerings(function, inputs, self.infer(*inputs)[0], target)

    def types(self, *inputs: Any, **unused: Any) -> Types:
        dtype = require_same_dtype(self.name, *inputs)
        (require_number if self.integers else require_float)(self.name, dtype)
        return (TensorType(dtype, broadcast_shapes(self.name, *(x.shape for x in inputs))),)

    def compute(self, *inputs: Any, **unused: Any) -> Arrays:
        (output,) = self.declared(*inputs)
        result = self.elements(*map(wide, inputs))
        return (narrow(np.broadcast_to(result, output.shape), output.dtype),)

    def operations(self, outputs: Types, *inputs: Any, **unused: Any) -> int:
        return self.weight * outputs[0].size * max(len(inputs) - 1, 1)

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        return tuple(broadcast_region(box, x) for x in inputs)


def of_formula(name: str) -> dict[str, Any]:
    """The members of an operator that is a formula of kernels/elementwise/functions.py."""
    formula = FORMULAS[name]
    return {
        "formula": name,
        "elements": staticmethod(formula.apply),
        "integers": formula.serves(INT64),
        "weight": formula.weight,
        "tolerance": formula.tolerance,
    }


def unary_samples(op: Op, integers: bool) -> Iterable[Sample]:
    """Shapes that break a kernel of one input: ragged, one element, no element, rank 0, every type."""
    for shape in ((2, 11, 5, 7), (3, 8, 1, 1), (1, 3, 17), (5, 33), (1,), (), (2, 0, 3)):
        yield Sample(op, (seeded(shape),))
    yield Sample(op, (hostile((3, 9, 4, 5)),), f"{op.name} special")
    for dtype in (np.float64, np.float16, "bfloat16", *((np.int32, np.int8, np.int64) if integers else ())):
        yield Sample(op, (seeded((2, 9, 3, 5), 1, np.dtype(dtype)),))


def binary_samples(op: Op, integers: bool = True) -> Iterable[Sample]:
    """Broadcasts that break a kernel of two inputs."""
    pairs: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((2, 11, 5, 7), (2, 11, 5, 7)), ((1, 8, 1, 1), (1, 8, 1, 1)), ((2, 11, 5, 7), (11, 1, 1)),
        ((2, 11, 5, 7), ()), ((1,), (2, 9, 3, 3)), ((2, 9, 3, 4), (2, 9, 1, 1)), ((2, 9, 3, 4), (1, 9, 3, 4)),
        ((2, 9, 3, 4), (3, 1)), ((4, 1, 3), (1, 5, 1)), ((0, 3), (1, 3)), ((33,), (7, 33)), ((2, 9, 4), (4,)),
    ]  # fmt: skip
    for first, second in pairs:
        yield Sample(op, (seeded(first, 1), seeded(second, 2)))
    yield Sample(op, (hostile((3, 9, 4, 5), seed=1), hostile((9, 1, 1), seed=2)), f"{op.name} special")
    for dtype in (np.float64, np.float16, "bfloat16", *((np.int32, np.int8, np.int64) if integers else ())):
        yield Sample(op, (seeded((2, 9, 3, 5), 1, np.dtype(dtype)), seeded((9, 1, 1), 2, np.dtype(dtype))))
