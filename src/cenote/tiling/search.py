"""Exact search for the tile of the fewest cycles.

For every combination of candidate sizes a lower bound of its cycles is computed from sums along each axis, which is
what makes it cheap: bytes, bursts and vector operations of a plan are products of such sums. Then candidates are costed
exactly in the order of their bounds, until the next bound is not below the best cost: that bound proves that nothing
cheaper is left.

Candidates: every size of planes, D, H and W, where that makes at most `MOST_SIZES` tiles; else the smallest size of
each number of parts (at most 2 sqrt(O) of them), as larger tiles in as many tasks rarely are better, and the tile of
the three stages. Input channels of a convolution are taken whole, or in 2, 4, 8, ... parts.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from cenote.core.dataclass import dataclass
from cenote.core.errors import CapacityError
from cenote.core.types import Array
from cenote.tiling.axis import Axis
from cenote.tiling.cost import Cost, sum_bytes
from cenote.tiling.layer import Layer, Tile
from cenote.tiling.problem import Problem, TilingPlan
from cenote.tiling.three_stage import three_stage

MOST_SIZES = 10_000
MOST_COSTED = 400
"""Candidates that are costed exactly. Where that many do not close the gap, the plan says what the bound is."""


@dataclass(frozen=True)
class _Sizes:
    """Candidate sizes of one axis, and what the axis comes to with each, as float arrays."""

    size: Array
    parts: Array
    full: Array  # tiles that have all of `size`
    span: Array  # inputs that the largest tile reads, as the buffer holds them
    least: Array  # inputs that a full tile reads at least
    read: Array  # inputs that all tiles read together
    partial: Array  # tiles that do not read all of the axis
    whole: Array  # 1 where the tile is the axis
    outputs: int


def search(problem: Problem) -> TilingPlan:
    """The plan of the fewest cycles. Raises CapacityError when not even one output fits."""
    first = three_stage(problem)
    best, cost, trace = first.tile, first.cost, [f"three stages: {first.cost.cycles:,} cycles"]
    tiles, bounds = _candidates(problem)
    order = np.argsort(bounds, kind="stable")
    costed, bound = 0, math.inf
    for position in order.tolist():
        bound = float(bounds[position])
        if bound >= cost.cycles or costed == MOST_COSTED:
            break
        tile = _tile(tiles[:, position])
        found = problem.cost(tile)
        costed += 1
        if _key(found, tile) < _key(cost, best):
            best, cost = tile, found
    else:
        bound = math.inf
    lower = min(cost.cycles, math.ceil(bound - 1e-6) if math.isfinite(bound) else cost.cycles)
    trace.append(
        f"search: {len(bounds):,} candidates fit, {costed} of them costed, best {cost.cycles:,} cycles"
    )
    if lower == cost.cycles:
        trace.append(f"proof: no other has a lower bound below {cost.cycles:,}, so this is the optimum")
    else:
        gap = cost.cycles / max(1, lower) - 1
        trace.append(
            f"no proof: the lowest bound of what was not costed is {lower:,}, {gap:.1%} below the best"
        )
    return TilingPlan(problem, "search", "search", best, cost, lower, tuple(trace))


def _key(cost: Cost, tile: Tile) -> tuple[int, int]:
    """Fewest cycles, then fewest bytes."""
    return cost.cycles, cost.bytes_in + cost.bytes_out


def _tile(column: Array) -> Tile:
    nc, d, h, w, channels = (int(size) for size in column)
    return Tile(nc, d, h, w, channels)


def _candidates(problem: Problem) -> tuple[Array, Array]:
    """Sizes (5, count) of all tiles that fit, and their lower bounds (count)."""
    layer = problem.layer
    every = layer.most_planes * math.prod(axis.out for axis in layer.axes) <= MOST_SIZES
    axes = [_axis_sizes(problem, axis, every) for axis in layer.axes]
    planes = _plane_sizes(problem, every)
    found = [_bounded(problem, planes, axes, channels) for channels in _channel_sizes(layer)]
    found = [item for item in found if item[0].size]
    if not found:
        raise CapacityError("no tile fits")  # three_stage has found one that does
    return np.concatenate([item[0] for item in found], 1), np.concatenate([item[1] for item in found])


def _channel_sizes(layer: Layer) -> list[int]:
    if layer.conv is None:
        return [0]
    found = [layer.conv.group_channels]
    while found[-1] > 1:
        found.append(-(-found[-1] // 2))
    return found


def _axis_sizes(problem: Problem, axis: Axis, every: bool) -> _Sizes:
    sizes = list(range(1, axis.out + 1)) if every else axis.sizes()
    cuts = [axis.cut(size) for size in sizes]
    padded = problem.policy.pad_space == "padded"
    size = np.array(sizes, float)
    return _Sizes(
        size,
        np.array([cut.parts for cut in cuts], float),
        axis.out // size,
        np.array([axis.span(s, padded) for s in sizes], float),
        np.array([cut.inputs[: axis.out // s].min() for cut, s in zip(cuts, sizes, strict=True)], float),
        np.array([cut.read for cut in cuts], float),
        np.array([cut.partial for cut in cuts], float),
        (size == axis.out).astype(float),
        axis.out,
    )


def _plane_sizes(problem: Problem, every: bool) -> Array:
    """Candidate numbers of planes in a tile."""
    layer, most = problem.layer, problem.layer.most_planes
    if every:
        return np.arange(1, most + 1)
    if layer.conv is None:
        unit = most // layer.images if problem.policy.batch == "apart" else most
        return np.array(_representatives(unit))
    inside = _representatives(layer.conv.group_filters)
    groups = _representatives(layer.conv.groups)
    return np.array(sorted({*inside, *(count * layer.conv.group_filters for count in groups)}))


def _representatives(count: int) -> list[int]:
    """The smallest size of each number of parts."""
    return sorted({-(-count // parts) for parts in {-(-count // size) for size in _spread(count)}})


def _spread(count: int) -> set[int]:
    root = math.isqrt(count) + 1
    return {*range(1, min(count, root) + 1), *(max(1, count // k) for k in range(1, root + 1))}


def _bounded(problem: Problem, planes: Array, axes: list[_Sizes], channels: int) -> tuple[Array, Array]:
    """Tiles with this many input channels that fit, and their bounds."""
    layer, hardware = problem.layer, problem.hardware
    if layer.conv and channels < layer.conv.group_channels:
        planes = planes[planes <= layer.conv.group_filters]
    deep, high, wide = (_spaced(axis, place) for place, axis in enumerate(axes, 1))
    block = _blocks(problem, planes, channels)
    item = layer.dtype.itemsize
    row = np.ceil(wide.span * item / hardware.block_bytes) * hardware.block_bytes
    out_row = np.ceil(wide.size * item / hardware.block_bytes) * hardware.block_bytes
    if layer.indices:
        q = layer.indices.itemsize
        out_row = out_row + np.ceil(wide.size * q / hardware.block_bytes) * hardware.block_bytes
    copies = problem.policy.copies(hardware)
    taken = copies * (block.planes * deep.span * high.span * row + block.weights)
    outputs = block.filters * deep.size * high.size
    taken = taken + copies * outputs * out_row + problem.policy.scratch
    sums = sum_bytes(layer, problem.policy, Tile(1, 1, 1, 1, channels))
    if sums:
        taken = taken + outputs * np.ceil(wide.size * sums / hardware.block_bytes) * hardware.block_bytes
    fits = taken <= hardware.ub_bytes
    where = np.nonzero(fits)
    if not where[0].size:
        return np.empty((5, 0)), np.empty(0)
    flat = [_taken(axis, where[place]) for place, axis in enumerate(axes, 1)]
    bounds = _bounds(problem, block.at(where[0]), flat, channels)
    sizes = np.stack((planes[where[0]], *(axis.size for axis in flat), np.full(len(where[0]), channels)), 0)
    return sizes, bounds


@dataclass(frozen=True)
class _Blocks:
    """Per candidate number of planes: what the largest block takes, and all blocks together."""

    planes: Array  # input planes at a time
    weights: Array  # bytes of weights and bias in the buffer
    filters: Array  # output planes
    count: Array  # blocks
    full: Array  # blocks that have all of `filters`
    read: Array  # input planes of all blocks and parts together

    def at(self, where: Array) -> _Blocks:
        return _Blocks(*(getattr(self, name).ravel()[where] for name in _BLOCK_FIELDS))


_BLOCK_FIELDS = ("planes", "weights", "filters", "count", "full", "read")


def _blocks(problem: Problem, planes: Array, channels: int) -> _Blocks:
    layer = problem.layer
    apart = problem.policy.batch == "apart"
    from_cost = [problem.footprint(Tile(int(nc), 1, 1, 1, channels)) for nc in planes] if layer.conv else []
    rows = []
    for place, nc in enumerate(planes.tolist()):
        blocks = layer.bounds(nc, apart)
        filters = blocks[:, 1] - blocks[:, 0]
        most = int(filters.max())
        if layer.conv is None:
            rows.append((most, 0, most, len(blocks), int((filters == most).sum()), layer.planes))
            continue
        groups = max(1, most // layer.conv.group_filters)
        read = np.maximum(1, filters // layer.conv.group_filters).sum() * layer.conv.group_channels
        weights = from_cost[place].weights
        rows.append((groups * channels, weights, most, len(blocks), int((filters == most).sum()), int(read)))
    columns = np.array(rows, float).T
    return _Blocks(*(column[:, None, None, None] for column in columns))


def _spaced(axis: _Sizes, place: int) -> _Sizes:
    """With the arrays along their own axis of four."""
    shape = [1, 1, 1, 1]
    shape[place] = -1
    return _mapped(axis, lambda array: array.reshape(shape))


def _taken(axis: _Sizes, where: Array) -> _Sizes:
    return _mapped(axis, lambda array: array[where])


def _mapped(axis: _Sizes, change: Any) -> _Sizes:
    names = ("size", "parts", "full", "span", "least", "read", "partial", "whole")
    return replace(axis, **{name: change(getattr(axis, name)) for name in names})


def _bounds(problem: Problem, block: _Blocks, axes: list[_Sizes], channels: int) -> Array:
    """Lower bounds of the cycles: the mean over cores of all DMA or of all computation, and what the core with the most
    full tiles has to do (by counting, one has at least full tiles / cores of them, rounded up)."""
    layer, hardware = problem.layer, problem.hardware
    deep, high, wide = axes
    item, start, rate = layer.dtype.itemsize, hardware.dma_startup_cycles, hardware.dma_bytes_per_cycle
    cell = item + (layer.indices.itemsize if layer.indices else 0)
    passes = layer.channel_parts(channels)
    tiles = deep.parts * high.parts * wide.parts
    tasks = block.count * tiles
    loads = _bursts(block.read, block.count * passes, deep, high, wide, [a.read for a in axes], reading=True)
    moved = block.read * deep.read * high.read * wide.read * item
    ones = [np.full_like(a.size, a.outputs) for a in axes]
    stores = _bursts(
        np.full_like(block.read, layer.planes), block.count, deep, high, wide, ones, reading=False
    )
    stores = stores * (2 if layer.indices else 1)
    if layer.conv:
        weights = layer.planes * layer.conv.group_channels * layer.conv.taps * item
        moved = moved + tiles * weights
        loads = loads + tiles * block.count * passes
    dma = start * (loads + stores)  # each burst takes a cycle at least
    dma = dma + np.maximum(moved / rate, loads) + np.maximum(layer.cells * cell / rate, stores)
    full_parts = wide.full
    vectors = np.ceil(wide.size * item / hardware.vector_bytes)
    tail = np.ceil((wide.outputs - wide.full * wide.size) * item / hardware.vector_bytes)
    rows = layer.planes * deep.outputs * high.outputs
    speed = layer.work / hardware.compute_per_cycle
    compute = tasks * passes * hardware.compute_startup_cycles + rows * (full_parts * vectors + tail) * speed
    most = np.ceil(block.full * deep.full * high.full * wide.full / min(hardware.cores, layer.cells))
    one_compute = (
        passes * hardware.compute_startup_cycles + block.filters * deep.size * high.size * vectors * speed
    )
    share = layer.conv.group_channels / channels if layer.conv else 1.0
    one_read = block.planes * share * deep.least * high.least * wide.least * item
    if layer.conv:
        one_read = one_read + block.filters * layer.conv.group_channels * layer.conv.taps * item
    one_stored = block.filters * deep.size * high.size * wide.size * cell
    one_dma = _one_transfer(problem, one_read, _least_bursts(block.planes * share, axes, reading=True))
    stored_bursts = _least_bursts(block.filters, axes, reading=False) * (2 if layer.indices else 1)
    one_dma = one_dma + _one_transfer(problem, one_stored, stored_bursts)
    if problem.policy.copies(hardware) == 1:
        bound = np.maximum((dma + compute) / hardware.cores, most * (one_dma + one_compute))
    else:
        bound = np.maximum(np.maximum(dma, compute) / hardware.cores, most * np.maximum(one_dma, one_compute))
        if passes == 1:  # the first load and the last store hide behind nothing
            bound = np.maximum(bound, one_dma + most * one_compute)
    result: Array = bound * (1 - 1e-9)
    return result


def _one_transfer(problem: Problem, nbytes: Array, bursts: Array) -> Array:
    """Cycles that so many bytes in so many bursts take at least."""
    hardware = problem.hardware
    result: Array = bursts * hardware.dma_startup_cycles + np.maximum(
        nbytes / hardware.dma_bytes_per_cycle, bursts
    )
    return result


def _least_bursts(planes: Array, axes: list[_Sizes], reading: bool) -> Array:
    """Contiguous runs of a full tile, at least: 1 where some tiles have all of an axis and others have not."""
    deep, high, _ = axes
    partial = [axis.partial == axis.parts if reading else axis.whole == 0 for axis in axes]
    whole = [axis.partial == 0 if reading else axis.whole == 1 for axis in axes]
    first, second = (deep.least, high.least) if reading else (deep.size, high.size)
    volumes = np.where(whole[1] & partial[0], planes, 1.0)
    flat = np.where(partial[1], planes * first, volumes)
    return np.where(partial[2], planes * first * second, np.where(whole[2], flat, 1.0))


def _bursts(
    planes: Array,
    count: Array,
    deep: _Sizes,
    high: _Sizes,
    wide: _Sizes,
    sums: list[Array],
    reading: bool,
) -> Array:
    """Contiguous runs of all tiles: rows of those that do not have all of W, else planes of those that do not have all
    of H, else volumes of those that do not have all of D, else one."""
    partial = [axis.partial if reading else axis.parts * (1 - axis.whole) for axis in (deep, high, wide)]
    solid = [axis.parts - cut for axis, cut in zip((deep, high, wide), partial, strict=True)]
    rows = planes * sums[0] * sums[1] * partial[2]
    flat = planes * sums[0] * partial[1]
    volumes = planes * partial[0] + count * solid[0]
    total: Array = rows + solid[2] * (flat + solid[1] * volumes)
    return total
