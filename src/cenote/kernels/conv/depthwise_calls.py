"""Calls of convolutions whose groups lie within a vector: weights in blocks, tiles, bands of rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from cenote.core.computed import computed
from cenote.core.conv_geometry import ConvShape
from cenote.core.sizes import maximum, minimum
from cenote.core.target import Target
from cenote.core.types import Array
from cenote.kernels.base import Argument, Call, View
from cenote.kernels.conv.depthwise import AXES, BLOCK, DepthwiseSpec, Groups, widest_group, widest_row
from cenote.kernels.conv.tile_widths import tile_widths
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.layout.reorder import deep_strides
from cenote.kernels.partial_sums import two_level_terms
from cenote.kernels.tables import row_table

PIECE_BYTES = 256 << 10  # of input and output per piece of work: 10 to 20 us


def depthwise_calls(
    shape: ConvShape,
    weights: Array,
    bias: Array | None,
    activation: Activation,
    x: View,
    y: View,
    residual: View | None,
    target: Target,
    exact: bool = False,
) -> Iterator[Call]:
    """Yield the calls for a convolution over three axes whose groups lie within a vector (`suits`), or of one
    channel: one per pattern (`Groups`), each of which writes blocks of its own. Pixels of y may lie several apart;
    those of a residual then do. `exact`: sums are made of shorter chains.
    """
    patterns = Groups(shape.group_channels, shape.group_filters, y.layout.lanes).patterns
    for pattern in range(min(patterns, y.blocks)):
        call = _pattern_call(shape, weights, bias, activation, x, y, residual, target, pattern, exact)
        yield replace(call, independent=pattern > 0)


def _pattern_call(
    shape: ConvShape,
    weights: Array,
    bias: Array | None,
    activation: Activation,
    x: View,
    y: View,
    residual: View | None,
    target: Target,
    pattern: int,
    exact: bool,
) -> Call:
    lanes = y.layout.lanes
    groups = Groups(shape.group_channels, shape.group_filters, lanes, pattern)
    blocks = -(-(y.blocks - pattern) // groups.patterns)
    stride, dilation = shape.strides[2], shape.dilations[2]
    strides = {"x": deep_strides(x), "y": deep_strides(y), "r": deep_strides(residual or y)}
    group, taps = shape.group_channels, shape.taps
    taps_in_row = 1
    if group == 1 and dilation == 1:
        taps_in_row = unrolled_taps(shape.window[2], target.registers, groups.filters)
    window = (*shape.window[:2], shape.window[2] // taps_in_row)
    apart = (*shape.dilations[:2], dilation * taps_in_row)
    steps = tuple(step * d for step, d in zip(strides["x"][2:], apart, strict=True))
    origin = sum(begin * step for (begin, _), step in zip(shape.pads, strides["x"][2:], strict=True))
    widest = widest_group(target.registers, group)
    if group == 1:
        widest = widest_row(taps_in_row, target.registers, groups.filters)
    cut = tile_widths(shape.out[2], widest)
    spread = strides["y"][4] // lanes
    terms = two_level_terms(taps * group, exact)
    long = taps * group > terms
    more = (residual is not None, activation, group, groups.filters, pattern, spread, long)
    specs = tuple(DepthwiseSpec(width, taps_in_row, stride, *more) for width in cut.widths)
    packed = in_blocks(weights.reshape(shape.filters, group, taps), groups).transpose(0, 3, 2, 1)
    packed = np.ascontiguousarray(packed)
    offsets = in_blocks(np.zeros(shape.filters, np.float32) if bias is None else bias, groups).ravel()
    band, bands, row_bytes = _bands(shape, lanes)
    numbers = {"rows": math.prod(window), "wide": cut.wide, "tiles": cut.tiles, "narrow": cut.narrow}
    numbers |= {"blocks": blocks, "out_d": shape.out[0], "out_h": shape.out[1]}
    numbers |= {"band": band, "bands": bands, "slab": taps * group * lanes}
    for side, (n, c, d, h, _) in strides.items():
        scale = shape.strides if side == "x" else (1, 1, 1)
        steps_of = (n, c, d * scale[0], h * scale[1])
        numbers |= {f"{side}_{axis}": step for axis, step in zip(AXES, steps_of, strict=True)}
        if side != "x":
            numbers[f"{side}_block"] = c * groups.patterns
    items = shape.n * blocks * bands
    grain = maximum(1, minimum(PIECE_BYTES // maximum(1, row_bytes * band), items // 16))
    words: dict[str, Argument] = {"x": x, "weights": packed, "bias": offsets, **numbers}
    words["y"] = y.at(pattern * y.strides[1])
    words["residual"] = None if residual is None else residual.at(pattern * residual.strides[1])
    words["table"] = computed(row_table, window, steps, origin)
    if long:
        words[BLOCK] = max(1, terms // (taps_in_row * group))
    executed = 2 * shape.n * shape.pixels * packed.size
    return Call.named(specs[0], words, items, grain, operations=executed).among(specs, cut.chosen)


def unrolled_taps(columns: int, registers: int, filters: int) -> int:
    """Return the taps of a window's row that a tile unrolls: all where at least 4 pixels have room beside them, else
    the part of the row that needs the fewest loads for a product."""
    if widest_row(columns, registers, filters) >= 4:
        return columns

    def loads(taps: int) -> float:
        width = widest_row(taps, registers, filters)
        return (width + 2 * taps - 1) / (width * taps)

    parts = [
        taps
        for taps in range(1, columns)
        if columns % taps == 0 and widest_row(taps, registers, filters) >= 4
    ]
    return min(parts, key=loads, default=1)


def _bands(shape: ConvShape, lanes: int) -> tuple[int, int, int]:
    """Output rows of a band, how many bands there are, and the bytes that a row reads and writes."""
    row_bytes = shape.out[2] * lanes * 4 * (1 + shape.strides[2] * shape.strides[1])
    all_rows = shape.out[0] * shape.out[1]
    band = maximum(1, minimum(all_rows, PIECE_BYTES // maximum(1, row_bytes)))
    bands = -(-all_rows // band)
    band = maximum(1, -(-all_rows // maximum(1, bands)))
    return band, bands, row_bytes


def in_blocks(values: Array, groups: Groups) -> Array:
    """Rows of `values`, one per filter and zeros behind the last, as (block, lane, …): the blocks of one pattern."""
    padded = np.zeros((-(-len(values) // groups.lanes) * groups.lanes, *values.shape[1:]), np.float32)
    padded[: len(values)] = values
    return padded.reshape(-1, groups.lanes, *values.shape[1:])[groups.pattern :: groups.patterns]
