"""Channels moved to space and back (pixel shuffle), and CenterCropPad."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.target import Target
from cenote.core.types import Array, TensorType
from cenote.kernels.base import present
from cenote.ops.base import Arrays, Lowering, Op, Sample, Types
from cenote.ops.checks import int64s, known_ints, one_of, read, unique_axes
from cenote.ops.movement.transpose import strided_lowerings
from cenote.ops.values import seeded

MODES = ("DCR", "CRD")


@dataclass(frozen=True)
class DepthToSpace(Op):
    """(N, C, H, W) to (N, C/b^2, H*b, W*b): each b*b channels become a block of pixels.

    Mode "DCR" takes the block's place as the slow part of the channel (TensorFlow), "CRD" as the fast one (PyTorch's
    pixel shuffle).
    """

    block: int
    mode: str = "DCR"

    name = "depth_to_space"
    unmoved = True
    operands = ("x",)
    from_onnx = {"DepthToSpace": lambda node: read(DepthToSpace, node, "mode", block="blocksize")}

    def types(self, x: TensorType) -> Types:
        n, c, h, w = _checked(self.name, self.block, self.mode, x)
        if c % self.block**2:
            raise ShapeError(f"depth_to_space: {c} channels of {x} are no multiple of {self.block}^2")
        return (TensorType(x.dtype, (n, c // self.block**2, h * self.block, w * self.block)),)

    def compute(self, x: Array) -> Arrays:
        (result,) = self.declared(x)
        n, c, h, w = x.shape
        b, depth = self.block, c // self.block**2
        if self.mode == "DCR":
            blocks = x.reshape(n, b, b, depth, h, w).transpose(0, 3, 4, 1, 5, 2)
        else:
            blocks = x.reshape(n, depth, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
        return (blocks.reshape(result.shape),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x, (output,) = present(inputs[0]), self.infer(*inputs)
        b, depth = self.block, output.shape[1]

        def walk(strides: tuple[int, ...]) -> tuple[int, list[int]]:
            image, channel, row, column = strides
            apart, across, down = (1, depth, depth * b) if self.mode == "DCR" else (b * b, 1, b)
            return 0, [image, apart * channel, row, down * channel, column, across * channel]

        shape = (x.shape[0], depth, x.shape[2], b, x.shape[3], b)
        yield from strided_lowerings(inputs, output, walk, target, shape)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for mode in MODES:
            yield Sample(DepthToSpace(2, mode), (seeded((1, 12, 3, 37)),))
            yield Sample(DepthToSpace(2, mode), (seeded((2, 8, 2, 3)),))
            yield Sample(DepthToSpace(3, mode), (seeded((1, 9, 1, 4), dtype=np.int8),))
            yield Sample(DepthToSpace(1, mode), (seeded((1, 3, 2, 2)),))
            yield Sample(DepthToSpace(2, mode), (seeded((0, 4, 2, 3)),))


@dataclass(frozen=True)
class SpaceToDepth(Op):
    """(N, C, H, W) to (N, C*b^2, H/b, W/b): the inverse of DepthToSpace in the same mode."""

    block: int
    mode: str = "DCR"

    name = "space_to_depth"
    unmoved = True
    operands = ("x",)
    from_onnx = {"SpaceToDepth": lambda node: read(SpaceToDepth, node, "mode", block="blocksize")}

    def types(self, x: TensorType) -> Types:
        n, c, h, w = _checked(self.name, self.block, self.mode, x)
        if h % self.block or w % self.block:
            raise ShapeError(f"space_to_depth: {h} by {w} pixels of {x} are no multiple of {self.block}")
        return (TensorType(x.dtype, (n, c * self.block**2, h // self.block, w // self.block)),)

    def compute(self, x: Array) -> Arrays:
        (result,) = self.declared(x)
        n, c, h, w = x.shape
        b = self.block
        blocks = x.reshape(n, c, h // b, b, w // b, b)
        order = (0, 3, 5, 1, 2, 4) if self.mode == "DCR" else (0, 1, 3, 5, 2, 4)
        return (blocks.transpose(order).reshape(result.shape),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x, (output,) = present(inputs[0]), self.infer(*inputs)
        (n, c, h, w), b = x.shape, self.block
        order = (0, 3, 5, 1, 2, 4) if self.mode == "DCR" else (0, 1, 3, 5, 2, 4)
        extents = (n, c, h // b, b, w // b, b)

        def walk(strides: tuple[int, ...]) -> tuple[int, list[int]]:
            image, channel, row, column = strides
            moves = (image, channel, row * b, row, column * b, column)
            return 0, [moves[axis] for axis in order]

        shape = tuple(extents[axis] for axis in order)
        yield from strided_lowerings(inputs, output, walk, target, shape)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for mode in MODES:
            yield Sample(SpaceToDepth(2, mode), (seeded((2, 3, 4, 6)),))
            yield Sample(SpaceToDepth(3, mode), (seeded((1, 1, 3, 9), dtype=np.uint8),))
            yield Sample(SpaceToDepth(2, mode), (seeded((1, 2, 0, 2)),))
            yield Sample(SpaceToDepth(2, mode), (seeded((1, 3, 4, 74)),))


@dataclass(frozen=True)
class CenterCropPad(Op):
    """The middle part of the wanted extents, or the data in the middle of zeros. An odd rest goes to the end."""

    axes: tuple[int, ...] | None = None

    name = "center_crop_pad"
    operands = ("data", "shape")
    from_onnx = {"CenterCropPad": lambda node: read(CenterCropPad, node, "axes")}

    def types(self, data: TensorType, shape: TensorType) -> Types:
        axes = range(data.rank) if self.axes is None else unique_axes(self.name, self.axes, data.rank)
        wanted = known_ints(self.name, shape, 1, "shape")
        if len(wanted) != len(axes) or min(wanted, default=0) < 0:
            raise ShapeError(f"center_crop_pad: shape {list(wanted)} does not give {len(axes)} extents")
        extents = list(data.shape)
        for axis, extent in zip(axes, wanted, strict=True):
            extents[axis] = extent
        return (TensorType(data.dtype, tuple(extents)),)

    def compute(self, data: Array, shape: Array) -> Arrays:
        (result,) = self.declared(data, shape)
        y = np.zeros(result.shape, data.dtype)
        taken, written = [], []
        for had, wanted in zip(data.shape, result.shape, strict=True):
            common = min(had, wanted)
            first_taken, first_written = (had - common) // 2, (wanted - common) // 2
            taken.append(slice(first_taken, first_taken + common))
            written.append(slice(first_written, first_written + common))
        y[tuple(written)] = data[tuple(taken)]
        return (y,)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(CenterCropPad(), (seeded((7, 4)), int64s((4, 7))))
        yield Sample(CenterCropPad((-1, 0)), (seeded((5, 3, 5)), int64s((2, 6))))
        yield Sample(CenterCropPad((1,)), (seeded((2, 5), dtype=np.int8), int64s((0,))))
        yield Sample(CenterCropPad(), (seeded((0, 2)), int64s((3, 2))))


def _checked(op: str, block: int, mode: str, x: TensorType) -> tuple[int, int, int, int]:
    one_of(op, "mode", mode, MODES)
    if block < 1:
        raise ArgumentError(f"{op}: block {block} must be positive")
    if x.rank != 4:
        raise ShapeError(f"{op}: expects (N, C, H, W), got {x}")
    n, c, h, w = x.shape
    return n, c, h, w
