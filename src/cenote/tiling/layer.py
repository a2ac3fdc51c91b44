"""A layer as planners see it: planes, three spatial axes and the bytes of an element; and blocks of its planes."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cenote.core import limits
from cenote.core.conv_geometry import ConvShape
from cenote.core.errors import CapacityError, ShapeError, UnsupportedError
from cenote.core.types import Array, TensorType
from cenote.ops.base import Op
from cenote.ops.conv.conv import Conv
from cenote.ops.pool.adaptive import AdaptivePool
from cenote.ops.pool.average import AveragePool
from cenote.ops.pool.lp import LpPool
from cenote.ops.pool.whole_map import GlobalPool
from cenote.ops.pool.window import MaxPool, WindowPool
from cenote.tiling.axis import Axis, range_axis, window_axis

AXES = ("D", "H", "W")


@dataclass(frozen=True)
class Tile:
    """Size of a tile, in outputs: planes (for a convolution, filters), and the three axes. `channels`: input channels
    of a group that a convolution's tile takes at a time; 0 for a pool, whose planes do not mix."""

    nc: int
    d: int
    h: int
    w: int
    channels: int = 0

    @property
    def spatial(self) -> tuple[int, int, int]:
        return self.d, self.h, self.w


@dataclass(frozen=True, eq=False)
class Layer:
    """An operator on inputs of known types, and the elementwise operators that are applied while its tile is in the
    buffer.

    planes     N * C of the output
    images     N
    axes       D, H and W; a layer with fewer has leading axes of extent 1
    conv       sizes of a convolution; None for a pool
    indices    element type of a pool's second output, or None
    work       operations per output element
    """

    title: str
    op: Op
    inputs: tuple[TensorType | None, ...]
    outputs: tuple[TensorType, ...]
    axes: tuple[Axis, Axis, Axis]
    work: float
    conv: ConvShape | None = None
    indices: np.dtype[Any] | None = None
    fused: tuple[Op, ...] = ()

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.outputs[0].dtype

    @property
    def images(self) -> int:
        return self.outputs[0].shape[0]

    @property
    def planes(self) -> int:
        return math.prod(self.outputs[0].shape[:2])

    @property
    def most_planes(self) -> int:
        """The most planes that one tile may have: those of all images for a pool, the filters for a convolution."""
        return self.planes if self.conv is None else self.conv.filters

    @property
    def cells(self) -> int:
        """The number of elements of the output."""
        return self.planes * math.prod(axis.out for axis in self.axes)

    @property
    def is_aligned(self) -> bool:
        """True if there is no padding and no two outputs read the same input."""
        return all(axis.aligned for axis in self.axes)

    @property
    def has_bias(self) -> bool:
        return self.conv is not None and len(self.inputs) > 2 and self.inputs[2] is not None

    def bounds(self, nc: int, apart: bool = False) -> Array:
        """Return half-open ranges of output planes, one row per block, images after each other.

        Blocks of a convolution never mix parts of groups: `nc` beyond a group's filters is rounded down to whole
        groups.
        """
        (sizes,) = self.block_sizes(np.array([nc]), apart)
        stops = np.cumsum(sizes)
        ranges: Array = np.stack((stops - sizes, stops), 1)
        return ranges

    def block_sizes(self, nc: Array, apart: bool = False) -> Array:
        """Return the output planes of each block, one row for each of several `nc` that make equally many blocks."""
        unit, step = np.full_like(nc, self.planes), nc
        if self.conv:
            per_group = self.conv.group_filters
            several = nc > per_group
            unit = np.where(several, self.conv.filters, per_group)
            step = np.where(several, nc // per_group * per_group, nc)
        elif apart:
            unit = unit // self.images
        inside = np.arange(-(-unit[0] // step[0])) * step[:, None]
        one = np.minimum(step[:, None], unit[:, None] - inside)
        blocks: Array = np.tile(one, (1, self.planes // int(unit[0])))
        return blocks

    def channels_of(self, filters: Array, channels: int) -> Array:
        """Return the input planes that blocks of so many output planes take at a time: a last axis for the parts of the
        channels."""
        if self.conv is None:
            return filters[..., None]
        groups = np.maximum(1, filters // self.conv.group_filters)
        planes: Array = groups[..., None] * self.parts_of(channels)
        return planes

    def parts_of(self, channels: int) -> Array:
        """Return the input channels of a group that each part of a convolution has; 1 for a pool, which has one
        part."""
        if self.conv is None:
            return np.ones(1, np.int64)
        starts = np.arange(0, self.conv.group_channels, channels)
        parts: Array = np.minimum(starts + channels, self.conv.group_channels) - starts
        return parts

    def channel_parts(self, channels: int) -> int:
        """Return how many times a tile is loaded and added up."""
        return -(-self.conv.group_channels // channels) if self.conv else 1


def layer_of(
    op: Op,
    inputs: tuple[TensorType | None, ...],
    title: str = "",
    fused: tuple[Op, ...] = (),
    indices: np.dtype[Any] | None = None,
) -> Layer:
    """Return the layer of a pool or convolution on inputs of these types. Raises UnsupportedError for other operators,
    and the errors of their `infer`."""
    if not is_tiled(op):
        raise UnsupportedError(f"tiling: {op.name} is neither a pool nor a convolution that can be tiled")
    if op.channels_last:
        raise UnsupportedError(f"tiling: {op.name} with channels last; tiles are of (N, C, *spatial)")
    outputs = op.infer(*inputs)
    for following in fused:
        (plain,) = following.infer(outputs[0])
        if plain.shape != outputs[0].shape or plain.dtype != outputs[0].dtype:
            raise ShapeError(f"tiling: {following.name} does not keep the type {outputs[0]}")
    y, x = outputs[0], inputs[0]
    assert x is not None
    if not y.size:
        raise ShapeError(f"tiling: {op.name} has an empty output {y}; there is nothing to tile")
    if math.prod(y.shape[:2]) > limits.MOST_POSITIONS:
        raise CapacityError(
            f"tiling: {math.prod(y.shape[:2]):,} planes (N * C) are more than the {limits.MOST_POSITIONS:,} that are "
            "supported; use a smaller input"
        )
    conv = None
    if isinstance(op, Conv):
        w = inputs[1]
        assert w is not None
        conv = op.shape(x, w)
        axes = [window_axis(windows) for windows in conv.axes]
    elif isinstance(op, WindowPool):
        axes = [window_axis(windows) for windows in op.geometry(x.shape)]
    elif isinstance(op, AdaptivePool):
        axes = [
            range_axis(size, ranges) for size, ranges in zip(x.shape[2:], op.bounds(x.shape), strict=True)
        ]
    else:
        axes = [range_axis(size, ((0, size),)) for size in x.shape[2:]]
    if len(axes) > 3:
        raise UnsupportedError(f"tiling: {op.name} over {len(axes)} spatial axes; 1 to 3 are supported")
    missing = [range_axis(1, ((0, 1),)) for _ in range(3 - len(axes))]
    deep: Any = tuple(missing + axes)
    work = op.cost(inputs).operations / y.size + sum(f.cost((y,)).operations / y.size for f in fused)
    if len(outputs) > 1:
        indices = indices or outputs[1].dtype
    return Layer(title or op.name, op, inputs, outputs, deep, work, conv, indices, fused)


def is_tiled(op: Op) -> bool:
    """Return whether an operator can be a layer."""
    pools = (MaxPool, AveragePool, LpPool, AdaptivePool, GlobalPool)
    return isinstance(op, pools) or (isinstance(op, Conv) and op.is_bare)


def renamed(layer: Layer, title: str) -> Layer:
    """Return the same layer under another name."""
    return dataclasses.replace(layer, title=title)
