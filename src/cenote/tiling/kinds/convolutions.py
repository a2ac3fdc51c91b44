"""Convolutions and transposed convolutions: tiles of filters, which take all input channels of their group, or some at
a time and add up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError
from cenote.core.types import Array, TensorType
from cenote.ops.base import Box, Op
from cenote.ops.conv.conv import Conv
from cenote.ops.conv.conv_transpose import ConvTranspose
from cenote.ops.values import seeded
from cenote.tiling.axis import range_axis, window_axis
from cenote.tiling.kinds.arguments import LayerArguments, LayerFamily
from cenote.tiling.kinds.computation import Computation, Range, TileData
from cenote.tiling.layer import Layer, check_outputs, three_axes, work_of

_CONVOLUTION = ("kernel", "stride", "padding", "dilation", "auto_pad", "filters", "groups", "bias")


@dataclass(frozen=True)
class FilterTiles(Computation):
    """Base of the convolutions. `shape`: the sizes."""

    shape: ConvShape

    def examples(self) -> tuple[Array, ...]:
        return scaled_examples(self.given)

    def sources(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        return (arrays[0],)

    def filters(self, data: TileData) -> Range:
        """Return a tile's filters, within their image."""
        first = data.planes[0] % self.shape.filters
        return first, first + data.planes[1] - data.planes[0]

    def finished(self, total: Array, arrays: Sequence[Array], data: TileData) -> Array:
        if len(arrays) > 2:
            total = total + arrays[2][slice(*self.filters(data))].reshape(-1, *(1,) * (total.ndim - 1))
        return total.astype(arrays[0].dtype)


@dataclass(frozen=True)
class ConvolutionTiles(FilterTiles):
    """A convolution."""

    def values(self, arrays: Sequence[Array], data: TileData) -> tuple[Array, ...]:
        x, w, op = self._loaded(data)
        bias = arrays[2][slice(*self.filters(data))] if len(arrays) > 2 else None
        return (op.reference(x, w, bias)[0][0],)

    def partial(self, data: TileData) -> Array:
        x, w, op = self._loaded(data)
        y: Array = op.reference(x.astype(np.float64), w.astype(np.float64))[0][0]
        return y

    def _loaded(self, data: TileData) -> tuple[Array, Array, Op]:
        x, *others = self.given
        types = (TensorType(x.dtype, (1, *x.shape[1:])), *others)
        box = Box(((0, 1), self.filters(data), *data.spatial))
        region = self.op.region(box, types)[0]
        assert region is not None
        filters = data.planes[1] - data.planes[0]
        w = data.weights().reshape(filters, -1, *self.shape.window)
        return data.read(0, (data.channels, *region.ranges[2:]))[None], w, self.op.part(box, types)


@dataclass(frozen=True)
class TransposedTiles(FilterTiles):
    """A transposed convolution: the inputs that reach a tile are spread, and what lies outside of it is cropped."""

    def values(self, arrays: Sequence[Array], data: TileData) -> tuple[Array, ...]:
        return (self.finished(self.partial(data), arrays, data),)

    def partial(self, data: TileData) -> Array:
        shape = self.shape
        x, *others = self.given
        types = (TensorType(x.dtype, (1, *x.shape[1:])), *others)
        region = self.op.region(Box(((0, 1), self.filters(data), *data.spatial)), types)[0]
        assert region is not None
        read = region.ranges[2:]
        filters = data.planes[1] - data.planes[0]
        total = np.zeros((filters, *(stop - start for start, stop in data.spatial)))
        pixels = data.read(0, (data.channels, *read)).astype(np.float64)
        if not pixels.size:
            return total
        groups = max(1, filters // shape.group_filters)
        w = data.weights().reshape(len(pixels), filters // groups, *shape.window).astype(np.float64)
        spread = ConvTranspose(shape.strides, (), shape.dilations, groups).reference(pixels[None], w)[0][0]
        inner, outer = [slice(None)], [slice(None)]
        sizes = zip(data.spatial, read, shape.strides, shape.pads, spread.shape[1:], strict=True)
        for (start, stop), (low, _), stride, (pad, _), extent in sizes:
            offset = low * stride - pad  # where the spread inputs begin
            first, last = max(start, offset), min(stop, offset + extent)
            inner.append(slice(first - offset, max(first, last) - offset))
            outer.append(slice(first - start, max(first, last) - start))
        total[tuple(outer)] = spread[tuple(inner)]
        return total


def scaled_examples(given: Sequence[TensorType]) -> tuple[Array, ...]:
    """Return seeded weights (and bias), scaled so that sums stay near 1."""
    examples = []
    for number, kind in enumerate(given[1:], 1):
        scale = 1 / math.sqrt(max(1, math.prod(kind.shape[1:])))
        examples.append((seeded(kind.shape, number, np.float64) * scale).astype(kind.dtype))
    return tuple(examples)


def convolution_layer(
    op: Conv | ConvTranspose, inputs: Sequence[TensorType], title: str = "", fused: tuple[Op, ...] = ()
) -> Layer:
    """Return the layer of a convolution, or of a transposed one, on inputs of these types."""
    (y,) = op.infer(*inputs)
    x, w = inputs[0], inputs[1]
    shape = op.shape(x, w)
    planes = math.prod(y.shape[:2])
    check_outputs(op, y, planes, fused)
    transposed = isinstance(op, ConvTranspose)
    tiles = TransposedTiles if transposed else ConvolutionTiles
    axes = (
        [range_axis(shape.size[place], _reads(op, inputs, place)) for place in range(shape.rank)]
        if transposed
        else [window_axis(windows) for windows in shape.axes]
    )
    return Layer(
        title or op.name,
        tiles(op, tuple(inputs), shape),
        tuple(inputs),
        (y,),
        y.shape[0],
        planes,
        three_axes(axes, op),
        work_of(op, inputs, y, fused),
        reads=(x.dtype,),
        writes=(y.dtype,),
        conv=shape,
        channels_first=transposed,
        has_bias=len(inputs) > 2,
        fused=fused,
    )


def _reads(op: Conv | ConvTranspose, inputs: Sequence[TensorType], place: int) -> list[Range]:
    """Return the inputs along one axis that reach each output."""
    (y,) = op.infer(*inputs)
    found = []
    for o in range(y.shape[2 + place]):
        ranges = [*Box.whole(y.shape).ranges]
        ranges[2 + place] = (o, o + 1)
        region = op.region(Box(tuple(ranges)), inputs)[0]
        assert region is not None
        found.append(region.ranges[2 + place])
    # Where no input reaches an output its range is empty; they stay in order all the same.
    highest = np.maximum.accumulate([high for _, high in found]).tolist()
    lowest = np.minimum.accumulate([low for low, _ in reversed(found)])[::-1].tolist()
    return [(low, max(low, high)) for low, high in zip(lowest, highest, strict=True)]


def _build(given: LayerArguments) -> Layer:
    x, transposed = given.x, given.kind == "convtranspose"
    given.required("kernel", "its window")
    channels = x.shape[1]
    groups = given.number("groups")
    filters = channels if given["filters"] is None else given.number("filters")
    if groups < 1 or filters < 1 or channels % groups or filters % groups:
        raise ArgumentError(
            f"tiling.plan: groups {groups} must divide {channels} input channels and {filters} filters"
        )
    window = given.numbers("kernel")
    if min(window) < 1:
        raise ArgumentError(f"tiling.plan: kernel must be 1 or more, got {window}")
    sliding: dict[str, Any] = {
        "strides": given.numbers("stride", 1),
        "pads": given.pads(),
        "dilations": given.numbers("dilation"),
        "groups": groups,
        "auto_pad": given["auto_pad"],
    }
    op: Conv | ConvTranspose
    if transposed:
        more = given.numbers("output_padding", 0)
        op = ConvTranspose(**sliding, output_padding=more)
        w = TensorType(x.dtype, (channels, filters // groups, *window))
    else:
        op = Conv(**sliding)
        w = TensorType(x.dtype, (filters, channels // groups, *window))
    bias = (TensorType(x.dtype, (filters,)),) if given["bias"] else ()
    return convolution_layer(op, (x, w, *bias), given.kind, given.fused)


def _match(op: Op, inputs: tuple[TensorType | None, ...], title: str, fused: tuple[Op, ...]) -> Layer | None:
    if not isinstance(op, Conv | ConvTranspose) or not op.is_bare or getattr(op, "channels_last", False):
        return None
    return convolution_layer(op, [each for each in inputs if each is not None], title, fused)


CONVOLUTIONS = LayerFamily(
    {"conv": _CONVOLUTION, "convtranspose": (*_CONVOLUTION, "output_padding")}, _build, _match
)
