"""The base of operators whose output elements depend on one element of each input, after broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from cenote.core.target import Target
from cenote.core.types import Array, TensorType
from cenote.ops.base import Arrays, Box, Cost, Lowering, Op, Sample, Types
from cenote.ops.checks import broadcast_shapes, require_float, require_number, require_same_dtype
from cenote.ops.elementwise.pointwise_lowerings import Function, pointwise_lowerings
from cenote.ops.values import hostile, narrow, seeded, wide


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
    `tolerance`.
    """

    operands: ClassVar[tuple[str, ...]] = ("a", "b")
    weight: ClassVar[int] = 1
    integers: ClassVar[bool] = True
    formula: ClassVar[str] = ""
    tolerance: ClassVar[float] = 0.0
    elements: ClassVar[Callable[..., Array]]

    def function(self, inputs: Sequence[TensorType | None]) -> Function | None:
        """What the kernels call it on these inputs, if they have it."""
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

    def cost(self, inputs: Sequence[TensorType | None]) -> Cost:
        (output,) = self.infer(*inputs)
        moved = output.nbytes + sum(x.nbytes for x in inputs if x is not None)
        return Cost(operations=self.weight * output.size * max(len(inputs) - 1, 1), bytes=moved)

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        return tuple(broadcast_region(box, x) for x in inputs)


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
