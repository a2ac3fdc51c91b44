"""The operators Where, Tile and Trilu: choosing, repeating and masking elements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.target import Target
from cenote.core.types import PLAIN, Array, TensorType
from cenote.kernels.base import present
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.layout.copy import can_copy
from cenote.kernels.layout.triangle import triangle_call
from cenote.ops.base import Arrays, Lowering, Op, Sample, Types
from cenote.ops.checks import broadcast_shapes, int64s, known_ints, read, require_kind, require_same_dtype
from cenote.ops.elementwise.pointwise import Pointwise
from cenote.ops.movement.transpose import strided_lowerings
from cenote.ops.values import seeded


@dataclass(frozen=True)
class Where(Pointwise):
    """x where the condition holds, y elsewhere; all three broadcast."""

    name = "where"
    operands = ("condition", "x", "y")
    formula = "where"
    from_onnx = {"Where": lambda node: read(Where, node)}

    def types(self, condition: TensorType, x: TensorType, y: TensorType) -> Types:
        require_kind(self.name, condition, "b", "condition")
        dtype = require_same_dtype(self.name, x, y)
        return (TensorType(dtype, broadcast_shapes(self.name, condition.shape, x.shape, y.shape)),)

    def forwarded(self, inputs: Sequence[TensorType | None]) -> int | None:
        """x or y, where the condition is a constant that holds everywhere or nowhere: a mask that masks nothing."""
        condition = present(inputs[0]).value
        if condition is None or not condition.size or condition.all() != condition.any():
            return None
        chosen = 1 if condition.all() else 2
        return chosen if self.infer(*inputs)[0].bare.key == present(inputs[chosen]).bare.key else None

    def compute(self, condition: Array, x: Array, y: Array) -> Arrays:
        return (np.where(condition, x, y),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        condition = seeded((2, 3), dtype=np.bool_)
        yield Sample(Where(), (condition, seeded((2, 3), 1), seeded((2, 3), 2)))
        yield Sample(Where(), (condition, seeded((4, 1, 1), 1), seeded((), 2)), "broadcast")
        yield Sample(Where(), (condition, seeded((3,), 1, np.int64), seeded((2, 1), 2, np.int64)))
        for dtype in (np.bool_, np.float16, np.float64):
            wide = seeded((2, 1, 3), dtype=np.bool_), seeded((5, 1), 1, dtype), seeded((2, 5, 3), 2, dtype)
            yield Sample(Where(), wide)
        yield Sample(Where(), (np.array(True), seeded((70,), 1), seeded((70,), 2)), "one condition")
        yield Sample(Where(), (seeded((0, 3), dtype=np.bool_), seeded((1, 3), 1), seeded((), 2)))


@dataclass(frozen=True)
class TileArray(Op):
    """The data repeated along each axis."""

    name = "tile"
    unmoved = True
    operands = ("data", "repeats")
    from_onnx = {"Tile": lambda node: read(TileArray, node)}

    def types(self, data: TensorType, repeats: TensorType) -> Types:
        counts = known_ints(self.name, repeats, 1, "repeats")
        if len(counts) != data.rank:
            raise ShapeError(f"tile: {len(counts)} repeats for {data}; one per axis is needed")
        if any(count < 0 for count in counts):  # `min` would ask which is the least
            raise ArgumentError(f"tile: repeats {list(counts)} are negative")
        return (TensorType(data.dtype, tuple(n * e for n, e in zip(counts, data.shape, strict=True))),)

    def compute(self, data: Array, repeats: Array) -> Arrays:
        return (np.tile(data, tuple(repeats.tolist())),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        data, repeats = present(inputs[0]), present(inputs[1])
        (output,) = self.infer(*inputs)
        counts = known_ints(self.name, repeats, 1, "repeats")
        shape = tuple(extent for pair in zip(counts, data.shape, strict=True) for extent in pair)

        def walk(strides: tuple[int, ...]) -> tuple[int, list[int]]:
            return 0, [step for stride in strides for step in (0, stride)]

        yield from strided_lowerings(inputs, output, walk, target, shape)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for shape, repeats in [
            ((2, 3), (2, 2)),
            ((2, 70), (3, 2)),
            ((2, 1, 3), (1, 4, 1)),
            ((3,), (0,)),
            ((), ()),
            ((0, 2), (3, 1)),
        ]:
            yield Sample(TileArray(), (seeded(shape), int64s(repeats)))


@dataclass(frozen=True)
class Trilu(Op):
    """The upper (or lower) triangle of the last two axes, zero elsewhere; k moves the diagonal up."""

    upper: bool = True

    name = "trilu"
    operands = ("data", "k?")
    from_onnx = {"Trilu": lambda node: read(Trilu, node, "upper")}

    def types(self, data: TensorType, k: TensorType | None) -> Types:
        if data.rank < 2:
            raise ShapeError(f"trilu: expects at least two axes, got {data}")
        if k is not None and (require_kind(self.name, k, "i", "k").size != 1):
            raise ShapeError(f"trilu: 'k' must hold one integer, got {k}")
        return (TensorType(data.dtype, data.shape),)

    def compute(self, data: Array, k: Array | None) -> Arrays:
        height, width = data.shape[-2:]
        diagonal = 0 if k is None else min(max(int(k.item()), -height), width)
        keep = np.tri(height, width, diagonal - self.upper, dtype=bool) ^ self.upper
        return (np.where(keep, data, np.zeros((), data.dtype)),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        data, k = present(inputs[0]), inputs[1] if len(inputs) > 1 else None
        if not data.size or not can_copy(data.dtype) or (k is not None and k.value is None):
            return
        far = 2**40  # beyond any matrix
        diagonal = 0 if k is None or k.value is None else min(max(int(k.value.item()), -far), far)

        rest = (None,) * (len(inputs) - 1)
        call = partial(triangle_call, upper=self.upper, diagonal=diagonal, target=target)
        yield Lowering.of_call("rows", (PLAIN, *rest), (PLAIN,), call, pass_seconds(2 * data.nbytes))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for upper in (True, False):
            for k in (None, 0, 1, -2, 9, -(2**62)):
                diagonal = None if k is None else np.array(k, np.int64)
                yield Sample(Trilu(upper), (seeded((3, 4)), diagonal))
            yield Sample(Trilu(upper), (seeded((2, 4, 3), dtype=np.int64), int64s((1,))))
            yield Sample(Trilu(upper), (seeded((2, 0, 3)), None))
            for dtype in (np.float32, np.int8, np.float64):
                yield Sample(Trilu(upper), (seeded((2, 37, 83), dtype=dtype), int64s((3,))))
