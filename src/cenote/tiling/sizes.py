"""All candidate sizes of tiles as arrays: the numbers of an axis, and of a layer's planes, for each size.

Everything that a plan moves and computes is a sum of products of such numbers, one per axis. Sizes that cut an axis
into equally many parts stand side by side and form a group, whose least numbers bound all of its members.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, Self

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.types import Array
from cenote.tiling.axis import Axis
from cenote.tiling.cost import run_cycles, sum_bytes, sum_of, weight_cycles
from cenote.tiling.layer import Layer, Tile
from cenote.tiling.problem import Problem

MOST_PARTS = 1 << 16
"""Most parts of an axis. Longer axes are searched from tiles of that many parts on, one size for each number of
parts."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """Arrays of one element per size."""

    def change(self, function: Any) -> Self:
        """Return the numbers with a function applied to each array."""
        return type(self)(**{item.name: function(getattr(self, item.name)) for item in fields(self)})

    def at(self, where: Array) -> Self:
        """Return the numbers of some sizes only."""
        return self.change(lambda array: array[where])

    def along(self, place: int) -> Self:
        """Return the numbers with the sizes along one of four axes, to be combined with those of the other axes."""
        shape = [1, 1, 1, 1]
        shape[place] = -1
        return self.change(lambda array: array.reshape(shape))

    def least(self, starts: Array) -> Self:
        """Return the least number of each group."""
        return self.change(lambda array: np.minimum.reduceat(array, starts))


@dataclass(frozen=True, eq=False)
class AxisNumbers(Numbers):
    """Numbers of an axis. A run is what is contiguous in memory when this axis is the first that a tile does not have
    whole.

    size, parts    outputs of a tile; tiles
    full           tiles of all `size` outputs
    span           inputs that the largest tile reads, as the buffer holds them
    row, out_row, sum_row   bytes of a row of inputs, of outputs with indices, and of sums in the buffer (used of W)
    read           inputs that all tiles read together
    loads, stores  cycles of a run of each tile that does not have all of the axis, added up
    solid, whole   tiles that read all of the axis; tiles that write all of it
    vectors, one_vectors    vectors of all tiles' outputs; of one full tile's outputs (used of W)
    dear, dearest  the most inputs that a full tile reads; how many full tiles read that many
    dear_load      cycles of a run of such a tile
    low, low_load  the same for the fewest inputs that a full tile reads
    open           1 if no tile reads all of the axis
    store          cycles of a run that a full tile writes
    parameters     bytes of the row parameters in the buffer (used of W)
    rows_loads, rows_load   cycles of loading row parameters, of all tiles and of a full one (used of W)
    """

    size: Array
    parts: Array
    full: Array
    span: Array
    row: Array
    out_row: Array
    sum_row: Array
    read: Array
    loads: Array
    stores: Array
    solid: Array
    whole: Array
    vectors: Array
    one_vectors: Array
    dear: Array
    dearest: Array
    dear_load: Array
    low: Array
    low_load: Array
    open: Array
    store: Array
    parameters: Array
    rows_loads: Array
    rows_load: Array


@dataclass(frozen=True, eq=False)
class PlaneNumbers(Numbers):
    """Numbers of the planes, and of the input channels that a convolution's tile takes at a time.

    size, channels  as in `Tile`
    filters        output planes of a full block
    planes, weights   input planes and bytes of weights that the buffer has at a time
    sums           1 where sums lie in the buffer
    count, full    number of blocks; of those that have all of `filters`
    passes, last   number of parts of the channels; the last part's share of them
    read           input planes of all blocks and parts together
    one            input planes of a full block in all parts
    solid_loads, solid_load     cycles where a tile reads whole volumes, of all blocks and of a full one, all parts
    solid_stores, solid_store   the same for writing
    weight_loads, weight_load   cycles of loading weights, of all blocks and of a full one, all parts
    """

    size: Array
    channels: Array
    filters: Array
    planes: Array
    weights: Array
    sums: Array
    count: Array
    full: Array
    passes: Array
    last: Array
    read: Array
    one: Array
    solid_loads: Array
    solid_load: Array
    solid_stores: Array
    solid_store: Array
    weight_loads: Array
    weight_load: Array


def axis_numbers(problem: Problem, place: int) -> AxisNumbers:
    """Return the numbers of D, H or W (`place` 0 to 2)."""
    layer, hardware = problem.layer, problem.hardware
    axis = layer.axes[place]
    inner = layer.axes[place + 1 :]
    load_run = _runs(problem, layer.reads, math.prod(other.size for other in inner))
    store_run = _runs(problem, layer.writes, math.prod(other.out for other in inner))
    row_run = _runs(problem, layer.reads[:1] * layer.row_parameters, 1)
    size = _sizes(axis)
    parts = -(-axis.out // size)
    first = np.cumsum(parts) - parts
    each = np.repeat(size, parts)
    start = (np.arange(int(parts.sum())) - np.repeat(first, parts)) * each
    stop = np.minimum(start + each, axis.out)
    outputs, inputs = stop - start, axis.high[stop - 1] - axis.low[start]
    full = outputs == each
    dear = np.maximum.reduceat(np.where(full, inputs, 0), first)
    low = np.minimum.reduceat(np.where(full, inputs, axis.size), first)
    padded = problem.policy.pad_space == "padded"
    span = axis.spans(size, padded)
    block, item = hardware.block_bytes, layer.dtype.itemsize
    sums = sum_bytes(layer, problem.policy, Tile(1, 1, 1, 1, 1))
    return AxisNumbers(
        size=size.astype(float),
        parts=parts.astype(float),
        full=(axis.out // size).astype(float),
        span=span.astype(float),
        row=_row_bytes(span, layer.reads, block),
        out_row=_row_bytes(size, layer.writes, block),
        sum_row=np.ceil(size * sums / block) * block,
        read=np.add.reduceat(inputs, first).astype(float),
        loads=np.add.reduceat(np.where(inputs < axis.size, load_run(inputs), 0.0), first),
        stores=np.add.reduceat(np.where(outputs < axis.out, store_run(outputs), 0.0), first),
        solid=np.add.reduceat((inputs == axis.size).astype(float), first),
        whole=(size == axis.out).astype(float),
        vectors=np.add.reduceat(np.ceil(outputs * item / hardware.vector_bytes), first),
        one_vectors=np.ceil(size * item / hardware.vector_bytes),
        dear=dear.astype(float),
        dearest=np.add.reduceat((full & (inputs == np.repeat(dear, parts))).astype(float), first),
        dear_load=load_run(dear),
        low=low.astype(float),
        low_load=load_run(low),
        open=(dear < axis.size).astype(float),
        store=store_run(size),
        parameters=_row_bytes(size, layer.reads[:1] * layer.row_parameters, block),
        rows_loads=np.add.reduceat(row_run(outputs), first),
        rows_load=row_run(size),
    )


def _runs(problem: Problem, types: Sequence[np.dtype[Any]], cells: int) -> Callable[[Array], Array]:
    """Return the function from numbers of `cells` that are contiguous to the cycles of moving them, of each type."""

    def run(count: Array) -> Array:
        cycles: Array = np.zeros(count.shape)
        for each in types:
            cycles += run_cycles(problem.hardware, count * (cells * each.itemsize))
        return cycles

    return run


def _row_bytes(count: Array, types: Sequence[np.dtype[Any]], block: int) -> Array:
    """Return the bytes in the buffer of rows of so many elements, one of each type."""
    total: Array = np.zeros(count.shape)
    for each in types:
        total += np.ceil(count * each.itemsize / block) * block
    return total


def _sizes(axis: Axis) -> Array:
    if axis.out <= MOST_PARTS:
        return np.arange(1, axis.out + 1)
    fewest = -(-axis.out // MOST_PARTS)
    return np.array([size for size in axis.sizes() if size >= fewest])


def plane_numbers(problem: Problem) -> PlaneNumbers:
    """Return the numbers of all sizes of blocks of planes, for each number of input channels."""
    layer, conv = problem.layer, problem.layer.conv
    if conv is None:
        unit = layer.planes // layer.images if problem.policy.batch == "apart" else layer.planes
        size = np.arange(1, unit + 1) if unit <= MOST_PARTS else np.array(_representatives(unit))
        return _plane_numbers(problem, size, np.full_like(size, unit), 0)
    groups = []
    for channels in channel_sizes(layer):
        inside = np.arange(1, conv.group_filters + 1)
        several = np.arange(2, conv.groups + 1 if channels == conv.group_channels else 2)
        size = np.concatenate((inside, several * conv.group_filters))
        unit_of = np.where(size <= conv.group_filters, conv.group_filters, conv.filters)
        groups.append(_plane_numbers(problem, size, unit_of, channels))
    return PlaneNumbers(
        **{
            item.name: np.concatenate([getattr(each, item.name) for each in groups])
            for item in fields(PlaneNumbers)
        }
    )


def channel_sizes(layer: Layer) -> list[int]:
    """Return the input channels of a group that a tile may take at a time: all, or in 2, 4, 8, ... parts; 0 for a
    pool."""
    if layer.conv is None:
        return [0]
    sizes = [layer.conv.group_channels]
    while sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // 2))
    return sizes


def _representatives(count: int) -> list[int]:
    """Return the smallest size of each number of parts."""
    root = int(np.sqrt(count)) + 1
    spread = {*range(1, root + 1), *(max(1, count // k) for k in range(1, root + 1))}
    return sorted({-(-count // parts) for parts in {-(-count // size) for size in spread}})


def _plane_numbers(problem: Problem, size: Array, unit: Array, channels: int) -> PlaneNumbers:
    """Return the numbers of blocks of `size` planes that cut units of `unit` planes, of which the layer has
    several."""
    layer, conv = problem.layer, problem.layer.conv
    units = layer.planes // unit
    full, tail = unit // size, unit % size
    parts = layer.parts_of(channels)
    alike, counts = np.unique(parts, return_counts=True)
    per_group, group_channels = (conv.group_filters, conv.group_channels) if conv else (1, 1)
    inputs, outputs = (
        math.prod(extents) for extents in zip(*((a.size, a.out) for a in layer.axes), strict=True)
    )
    run = partial(run_cycles, problem.hardware)

    def groups(filters: Array) -> Array:
        shared: Array = np.maximum(filters > 0, filters // per_group)
        return shared

    def load(filters: Array) -> Array:
        planes = np.multiply.outer(groups(filters), alike) * inputs
        cycles: Array = sum_of(run(planes * each.itemsize) for each in layer.reads) @ counts
        return cycles

    def store(filters: Array) -> Array:
        return sum_of(run(filters * (outputs * each.itemsize)) for each in layer.writes)

    def weight(filters: Array) -> Array:
        none = np.zeros(len(filters))
        return weight_cycles(run, layer, filters, channels).sum(1) if conv else none

    def total(cycles: Callable[[Array], Array]) -> Array:
        both: Array = units * (full * cycles(size) + cycles(tail)).astype(float)
        return both

    return PlaneNumbers(
        size=size.astype(float),
        channels=np.full(len(size), float(channels)),
        filters=size.astype(float),
        planes=(groups(size) * (channels or 1)).astype(float),
        weights=_weight_bytes(problem, size, channels),
        sums=np.full(len(size), float(sum_bytes(layer, problem.policy, Tile(1, 1, 1, 1, channels)) > 0)),
        count=(units * -(-unit // size)).astype(float),
        full=(units * full).astype(float),
        passes=np.full(len(size), float(len(parts))),
        last=np.full(len(size), float(parts[-1] / parts.sum())),
        read=total(lambda filters: groups(filters) * group_channels),
        one=(groups(size) * group_channels).astype(float),
        solid_loads=total(load),
        solid_load=load(size),
        solid_stores=total(store),
        solid_store=store(size),
        weight_loads=total(weight),
        weight_load=weight(size),
    )


def _weight_bytes(problem: Problem, filters: Array, channels: int) -> Array:
    layer, block = problem.layer, problem.hardware.block_bytes
    if layer.conv is None:
        return np.zeros(len(filters))
    item = layer.weight_item
    blocks = np.ceil(filters * channels * layer.conv.taps * item / block)
    if layer.has_bias:
        blocks = blocks + np.ceil(filters * item / block)
    taken: Array = blocks * block
    return taken
