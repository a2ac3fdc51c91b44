"""Split: consecutive parts of a tensor along one axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.target import Target
from cenote.core.types import PLAIN, Array, Layout, TensorType
from cenote.kernels.base import present
from cenote.ops.base import Alias, Arrays, Imported, Lowering, Op, Rewired, Sample, Types
from cenote.ops.checks import as_ints, int64s, known_ints, normalize_axis
from cenote.ops.values import seeded


def _decode_split(node: Imported) -> Op | Rewired:
    """Sizes are an attribute before opset 13, an input after; `num_outputs` came with opset 18."""
    if node.opset < 13:
        node.expect("axis", "split")
    else:
        node.expect("axis", *(("num_outputs",) if node.opset >= 18 else ()))
    listed = node.listed or node.outputs
    wanted = int(node.get("num_outputs", listed))
    if wanted != listed:
        raise ArgumentError(f"split: num_outputs is {wanted}, but the node has {listed} outputs")
    uneven = node.opset >= 18 and "num_outputs" in node.attributes
    op = Split(count=wanted, axis=int(node.get("axis", 0)), uneven=uneven)
    sizes = node.get("split")
    return op if sizes is None else Rewired(op, (0, int64s(as_ints("split", "split", sizes))))


@dataclass(frozen=True)
class Split(Op):
    """`count` consecutive parts along an axis: of the given sizes, or of equal size without them.

    With `uneven` equal parts are rounded up and the last one is smaller where the axis does not divide (ONNX's
    num_outputs); otherwise that is a ShapeError.
    """

    count: int
    axis: int = 0
    uneven: bool = False

    name = "split"
    operands = ("data", "sizes?")
    from_onnx = {"Split": _decode_split}

    def sizes(self, extent: int, given: TensorType | None) -> tuple[int, ...]:
        """Extents of the parts."""
        if given is not None:
            sizes = known_ints("split", given, 1, "split")
            if len(sizes) != self.count or min(sizes, default=0) < 0 or sum(sizes) != extent:
                raise ShapeError(
                    f"split: sizes {list(sizes)} are not {self.count} parts of an axis of {extent}"
                )
            return sizes
        part = -(-extent // self.count)
        if part * self.count != extent and not self.uneven:
            raise ShapeError(f"split: an axis of {extent} is not {self.count} equal parts; give the sizes")
        if part * (self.count - 1) > extent:
            raise ShapeError(
                f"split: an axis of {extent} is too short for {self.count} parts; give the sizes"
            )
        return (part,) * (self.count - 1) + (extent - part * (self.count - 1),)

    def aliases(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x, parts = present(inputs[0]), self.infer(*inputs)
        if not x.size:
            return
        axis, absent, lanes = self.axis % x.rank, (None,) * (len(inputs) - 1), target.lanes()
        aligned = axis == 1 and all(part.shape[1] % lanes == 0 for part in parts[:-1])
        if aligned and x.rank in (3, 4, 5) and x.dtype.itemsize == 4:
            yield Lowering.shared(Alias.PARTS, (Layout(lanes), *absent), (Layout(lanes),) * len(parts))
        if math.prod(x.shape[:axis]) == 1:
            yield Lowering.shared(Alias.PARTS, (PLAIN, *absent), (PLAIN,) * len(parts))

    def types(self, data: TensorType, sizes: TensorType | None) -> Types:
        axis = normalize_axis("split", self.axis, data.rank)
        parts = self.sizes(data.shape[axis], sizes)
        return tuple(TensorType(data.dtype, (*data.shape[:axis], n, *data.shape[axis + 1 :])) for n in parts)

    def compute(self, data: Array, sizes: Array | None) -> Arrays:
        parts = self.sizes(data.shape[self.axis], None if sizes is None else TensorType.known(sizes))
        return tuple(part.copy() for part in np.split(data, np.cumsum(parts)[:-1], self.axis))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(Split(3), (seeded((6, 2)), None))
        yield Sample(Split(2, axis=-1), (seeded((2, 3, 7)), int64s((3, 4))))
        yield Sample(Split(3, axis=1, uneven=True), (seeded((2, 8)),), "last part smaller")
        yield Sample(Split(1, axis=1), (seeded((2, 8)),))
        yield Sample(Split(3), (seeded((4,), dtype=np.int64), int64s((0, 4, 0))), "empty parts")
        yield Sample(Split(2), (seeded((0, 3)), int64s((0, 0))))
