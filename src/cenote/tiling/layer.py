"""A layer as planners see it: planes, three spatial axes and the bytes of an element; and blocks of its planes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cenote.core import limits
from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import dataclass
from cenote.core.errors import CapacityError, ShapeError, UnsupportedError
from cenote.core.types import Array, TensorType
from cenote.ops.base import Op
from cenote.tiling.axis import Axis, range_axis
from cenote.tiling.kinds.computation import Computation, Range, Ranges

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

    computation   what it computes, whole or a tile at a time
    outputs       types of the results as the operator gives them
    images, planes   N, and N * C of the output
    axes          D, H and W; a layer with fewer has leading axes of extent 1
    work          operations per output element
    reads         element types of the inputs that are cut along the axes: all have the same extents
    writes        element types of the outputs
    conv          sizes of a sum of products over input channels (a convolution, a product); None for other layers
    channels_first   the weights of `conv` are stored (channels, filters, ...), not (filters, channels, ...)
    has_bias      one number per filter is loaded with the weights
    row_parameters   number of vectors along W of which each tile loads its part
    """

    title: str
    computation: Computation
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    images: int
    planes: int
    axes: tuple[Axis, Axis, Axis]
    work: float
    reads: tuple[np.dtype[Any], ...]
    writes: tuple[np.dtype[Any], ...]
    conv: ConvShape | None = None
    channels_first: bool = False
    has_bias: bool = False
    row_parameters: int = 0
    fused: tuple[Op, ...] = ()

    @property
    def op(self) -> Op:
        return self.computation.op

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.writes[0]

    @property
    def weight_item(self) -> int:
        """Bytes of an element of the weights, the bias and the row parameters, which are of the first input's type."""
        return self.reads[0].itemsize

    @property
    def indices(self) -> np.dtype[Any] | None:
        """Element type of a pool's second output, the places of its maxima; None without."""
        return self.writes[1] if len(self.writes) > 1 else None

    @property
    def most_planes(self) -> int:
        """The most planes that one tile may have: those of all images, but of a convolution the filters."""
        return self.planes if self.conv is None else self.conv.filters

    @property
    def cells(self) -> int:
        """The number of elements of the output."""
        return self.planes * math.prod(axis.out for axis in self.axes)

    @property
    def is_aligned(self) -> bool:
        """True if there is no padding and no two outputs read the same input."""
        return all(axis.aligned for axis in self.axes)

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

    def weight_box(self, filters: Range, channels: Range) -> tuple[Ranges, tuple[int, int]]:
        """Return the weights that some filters take of some input channels (both counted in the whole layer), as a box
        of the weights seen as a matrix, and that matrix's extents."""
        assert self.conv is not None
        conv, taps = self.conv, self.conv.taps
        each, width = conv.group_filters, conv.group_channels
        if self.channels_first:
            inside = (filters[0] % each, filters[0] % each + min(filters[1] - filters[0], each))
            columns = (inside[0] * taps, inside[1] * taps)
            return (channels, columns), (conv.channels, each * taps)
        low = channels[0] % width
        columns = (low * taps, (low + min(channels[1] - channels[0], width)) * taps)
        return (filters, columns), (conv.filters, width * taps)


def three_axes(axes: Sequence[Axis], op: Op) -> tuple[Axis, Axis, Axis]:
    """Return the axes of a layer as D, H and W. Raises UnsupportedError where there are more."""
    if len(axes) > 3:
        raise UnsupportedError(f"tiling: {op.name} over {len(axes)} spatial axes; 1 to 3 are supported")
    missing = [range_axis(1, ((0, 1),)) for _ in range(3 - len(axes))]
    deep, high, wide = (*missing, *axes)
    return deep, high, wide


def check_outputs(op: Op, y: TensorType, planes: int, fused: Sequence[Op]) -> None:
    """Refuse an empty output, more planes than are supported, and following operators that change its type."""
    if not y.size:
        raise ShapeError(f"tiling: {op.name} has an empty output {y}; there is nothing to tile")
    if planes > limits.MOST_POSITIONS:
        raise CapacityError(
            f"tiling: {planes:,} planes (N * C) are more than the {limits.MOST_POSITIONS:,} that are supported; use a "
            "smaller input"
        )
    for following in fused:
        (plain,) = following.infer(y)
        if plain.shape != y.shape or plain.dtype != y.dtype:
            raise ShapeError(f"tiling: {following.name} does not keep the type {y}")


def work_of(op: Op, inputs: Sequence[TensorType | None], y: TensorType, fused: Sequence[Op]) -> float:
    """Return the operations per element of the output, with those of the operators that follow."""
    return op.cost(inputs).operations / y.size + sum(each.cost((y,)).operations / y.size for each in fused)


def renamed(layer: Layer, title: str) -> Layer:
    """Return the same layer under another name."""
    return dataclasses.replace(layer, title=title)
