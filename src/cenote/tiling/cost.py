"""Bytes that a tile takes in the buffer, and the cost of a plan: bytes moved, and cycles of the busiest core.

A burst is a run that is contiguous in memory: a row of a tile; a plane where tiles have whole rows; a volume where they
have whole planes; all planes of a tile where they have whole volumes. That is why planners cut W last. It takes the
start-up cycles and its bytes at the DMA's rate, rounded up. A computation takes its start-up cycles and its vector
operations at the unit's rate, rounded up; the last vector of each row of outputs may be ragged.

Task t runs on core t mod cores. With two buffers step j of a core computes tile j while its DMA stores tile j - 1 and
loads tile j + 1, and takes the longer of both; the first load and the last store are not hidden. With one buffer
nothing overlaps. Cores do not wait for each other, and have a DMA engine each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.types import Array
from cenote.tiling.hardware import Hardware
from cenote.tiling.layer import Layer, Tile
from cenote.tiling.policy import Policy

Run = Callable[[Array], Array]
"""Function from the bytes of a burst to its cost."""

MOST_TASKS = 1 << 21
"""Most steps of plans that are costed one by one. The cost of larger plans is their sum, divided evenly among the
cores."""


@dataclass(frozen=True)
class Footprint:
    """Bytes of a tile's parts in the buffer, of one copy each: of each input that is cut along the axes, of weights and
    parameters, and of each output; `scratch` is there only once."""

    inputs: tuple[int, ...]
    weights: int
    outputs: tuple[int, ...]
    scratch: int
    copies: int

    @property
    def input(self) -> int:
        return sum(self.inputs)

    @property
    def output(self) -> int:
        return self.outputs[0]

    @property
    def indices(self) -> int:
        """The bytes of a pool's places of maxima, 0 without."""
        return sum(self.outputs[1:])

    @property
    def total(self) -> int:
        """`bytes(t)`: the bytes that must fit into the buffer."""
        return self.copies * (self.input + self.weights + sum(self.outputs)) + self.scratch


def footprint(layer: Layer, hardware: Hardware, policy: Policy, tile: Tile) -> Footprint:
    """Return the bytes that a tile takes in the buffer."""
    item = layer.weight_item
    padded = policy.pad_space == "padded"
    deep, high, wide = (axis.span(o, padded) for axis, o in zip(layer.axes, tile.spatial, strict=True))
    planes, weights, filters = tile_planes(layer, tile)
    rows = filters * tile.d * tile.h
    sums = sum_bytes(layer, policy, tile)
    return Footprint(
        inputs=tuple(planes * deep * high * hardware.aligned(wide * each.itemsize) for each in layer.reads),
        weights=hardware.aligned(weights * item)
        + (hardware.aligned(filters * item) if layer.has_bias else 0)
        + layer.row_parameters * hardware.aligned(tile.w * item),
        outputs=tuple(rows * hardware.aligned(tile.w * each.itemsize) for each in layer.writes),
        scratch=policy.scratch + (rows * hardware.aligned(tile.w * sums) if sums else 0),
        copies=policy.copies(hardware),
    )


def tile_planes(layer: Layer, tile: Tile) -> tuple[int, int, int]:
    """Return, for the largest block, the input planes at a time, the weights at a time, and the output planes."""
    conv = layer.conv
    if conv is None:
        return tile.nc, 0, tile.nc
    groups = max(1, tile.nc // conv.group_filters)
    filters = tile.nc if groups == 1 and tile.nc < conv.group_filters else groups * conv.group_filters
    return groups * tile.channels, filters * tile.channels * conv.taps, filters


def sum_bytes(layer: Layer, policy: Policy, tile: Tile) -> int:
    """Return the bytes of one sum that is kept in the buffer; 0 where none is."""
    if layer.channel_parts(tile.channels) > 1:
        return (policy.sum_type or wide_type(layer.dtype)).itemsize
    return policy.sum_type.itemsize if policy.sum_type is not None else 0


def wide_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which partial sums are kept where the policy names none."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


def tasks_of(layer: Layer, policy: Policy, tile: Tile) -> tuple[int, int, int, int]:
    """Return the parts of the planes and of each axis; their product is the number of tasks."""
    blocks = block_count(layer, tile.nc, policy.batch == "apart")
    deep, high, wide = (-(-axis.out // o) for axis, o in zip(layer.axes, tile.spatial, strict=True))
    return blocks, deep, high, wide


def block_count(layer: Layer, nc: int, apart: bool) -> int:
    """Return the number of rows of `Layer.bounds`, without making them."""
    if layer.conv is None:
        return layer.images * -(-(layer.planes // layer.images) // nc) if apart else -(-layer.planes // nc)
    per_group = layer.conv.group_filters
    if nc > per_group:
        return layer.images * -(-layer.conv.groups // (nc // per_group))
    return layer.images * layer.conv.groups * -(-per_group // nc)


@dataclass(frozen=True)
class TilingCost:
    """Cost of a whole plan. `exact` is False where there are too many tasks to follow one by one."""

    cycles: int
    bytes_in: int
    bytes_out: int
    bursts: int
    exact: bool = True


class Steps(NamedTuple):
    """Cycles of loads, computations and stores of all tasks: (plans, tasks, channel parts)."""

    load: Array
    compute: Array
    store: Array


def cost_of(layer: Layer, hardware: Hardware, policy: Policy, tile: Tile) -> TilingCost:
    """Return the cycles of the busiest core, and the bytes and bursts that are moved."""
    cycles, exact = cycles_of(layer, hardware, policy, [tile])
    return TilingCost(int(cycles[0]), *_traffic(layer, policy, tile), exact=exact)


def cycles_of(layer: Layer, hardware: Hardware, policy: Policy, tiles: Sequence[Tile]) -> tuple[Array, bool]:
    """Return the cycles of the busiest core with each of the tiles, which cut every axis into equally many parts; and
    whether all tasks were followed."""
    double = policy.copies(hardware) == 2
    tasks = math.prod(tasks_of(layer, policy, tiles[0])) * layer.channel_parts(tiles[0].channels)
    blocks = layer.block_sizes(np.array([tile.nc for tile in tiles]), policy.batch == "apart")
    if tasks <= MOST_TASKS:
        return busiest(steps_of(layer, hardware, tiles, blocks), hardware.cores, double), True
    # Computed from the steps of one block of planes of each size, which repeat for all others.
    cycles = np.zeros(len(tiles))
    for place, tile in enumerate(tiles):
        for size, count in zip(*np.unique(blocks[place], return_counts=True), strict=True):
            steps = steps_of(layer, hardware, [tile], np.array([[size]]))
            cycles[place] += count * float(busiest(steps, 1, double)[0]) / hardware.cores
    return np.ceil(cycles), False


def steps_of(layer: Layer, hardware: Hardware, tiles: Sequence[Tile], blocks: Array) -> Steps:
    """Return every step of every task, tasks in row-major order over blocks of planes, D, H and W. `blocks` has the
    planes of each block, a row per tile."""
    inputs, outputs = _extents(layer, tiles)
    # (plans, blocks, parts)
    channels = layer.channels_of(blocks, tiles[0].channels)
    parts = channels.shape[2]
    sizes, outs = [a.size for a in layer.axes], [a.out for a in layer.axes]
    run = partial(run_cycles, hardware)
    load = sum_of(_transfers(run, channels, inputs, sizes, each.itemsize) for each in layer.reads)
    filters = blocks[:, :, None]
    store = sum_of(_transfers(run, filters, outputs, outs, each.itemsize) for each in layer.writes)
    if layer.conv:
        load = load + weight_cycles(run, layer, blocks, tiles[0].channels)[:, :, None]
    if layer.row_parameters:
        row = layer.row_parameters * run(outputs[2] * layer.weight_item)
        load[..., 0] += _boxes(np.ones_like(outputs[0]), np.ones_like(outputs[1]), row)[:, None, :]
    vectors = -(-outputs[2] * layer.dtype.itemsize // hardware.vector_bytes)
    boxes = _boxes(outputs[0], outputs[1], vectors) * (layer.work / hardware.compute_per_cycle)
    grid = blocks[:, :, None, None] * boxes[:, None, :, None]
    if layer.conv and parts > 1:
        grid = grid * (layer.parts_of(tiles[0].channels) / layer.conv.group_channels)
    compute = hardware.compute_startup_cycles + np.ceil(grid - 1e-9)
    plans = len(tiles)
    stored = np.zeros((plans, store.size // plans, parts))
    stored[:, :, -1] = store.reshape(plans, -1)
    return Steps(load.reshape(plans, -1, parts), compute.reshape(plans, -1, parts), stored)


def sum_of(arrays: Iterable[Array]) -> Array:
    """Return the sum of arrays of one shape, of which there is at least one."""
    first, *rest = arrays
    total: Array = sum(rest, first)
    return total


def run_cycles(hardware: Hardware, nbytes: Array) -> Array:
    """Return the cycles of bursts of so many bytes each; 0 for a burst of 0 bytes."""
    each = hardware.dma_startup_cycles + np.ceil(nbytes / hardware.dma_bytes_per_cycle)
    cycles: Array = np.where(nbytes > 0, each, 0.0)
    return cycles


def _extents(layer: Layer, tiles: Sequence[Tile]) -> tuple[list[Array], list[Array]]:
    """Return the inputs and outputs of the tiles along each axis, a row per plan."""
    inputs, outputs = [], []
    for place, axis in enumerate(layer.axes):
        cuts = [axis.cut(tile.spatial[place]) for tile in tiles]
        inputs.append(np.stack([cut.inputs for cut in cuts]))
        outputs.append(np.stack([cut.outputs for cut in cuts]))
    return inputs, outputs


def _boxes(deep: Array, high: Array, wide: Array) -> Array:
    """Return products over the three axes, (plans, boxes)."""
    boxes: Array = deep[:, :, None, None] * high[:, None, :, None] * wide[:, None, None, :]
    return boxes.reshape(len(deep), -1)


def _transfers(run: Run, planes: Array, extents: list[Array], whole: list[int], item: int) -> Array:
    """Return the cycles of moving boxes of these extents out of maps of the extents `whole`: (plans, blocks, boxes,
    parts). `planes` (plans, blocks, parts) are the planes of each."""
    deep, high, wide = extents
    area, volume = whole[2] * item, whole[1] * whole[2] * item
    spread = planes[:, :, None, :]
    boxes = _boxes(deep, high, run(wide * item))
    if wide.max() < whole[2]:
        return spread * boxes[:, None, :, None]
    shape = len(deep), deep.shape[1], high.shape[1], wide.shape[1]
    solid = (run(deep * volume) * (deep < whole[0]))[:, :, None, None]
    flat = deep[:, :, None, None] * run(high * area)[:, None, :, None]
    is_flat, is_row = (high < whole[1])[:, None, :, None], (wide < whole[2])[:, None, None, :]
    boxes = np.where(is_row, boxes.reshape(shape), np.where(is_flat, flat, solid)).reshape(len(deep), -1)
    cycles: Array = spread * boxes[:, None, :, None]
    if deep.max() == whole[0] and high.max() == whole[1]:
        are_whole = _boxes(deep == whole[0], high == whole[1], wide == whole[2])
        cycles = cycles + run(spread * (whole[0] * volume)) * are_whole[:, None, :, None]
    return cycles


def weight_cycles(run: Run, layer: Layer, filters: Array, channels: int) -> Array:
    """Return the cycles of loading weights, and with the first part the bias: shaped as `filters`, with a last axis for
    the parts."""
    assert layer.conv is not None
    item, taps = layer.weight_item, layer.conv.taps
    part_channels = layer.parts_of(channels)
    if layer.channels_first:
        # Each channel has its filters in one run; all filters of a group's channels are one run.
        each = np.minimum(filters, layer.conv.group_filters)
        whole = np.multiply.outer(filters, part_channels * taps * item)
        apart = part_channels * run(each * taps * item)[..., None]
        cycles: Array = np.where((each == layer.conv.group_filters)[..., None], run(whole), apart)
    elif len(part_channels) == 1:
        cycles = run(np.multiply.outer(filters, part_channels * taps * item))
    else:
        # Parts of several filters are not contiguous in memory.
        cycles = np.multiply.outer(filters, run(part_channels * taps * item))
    if layer.has_bias:
        cycles[..., 0] += run(filters * item)
    return cycles


def _traffic(layer: Layer, policy: Policy, tile: Tile) -> tuple[int, int, int]:
    """Return bytes in, bytes out and bursts of a whole plan."""
    filters = layer.block_sizes(np.array([tile.nc]), policy.batch == "apart")[0]
    inputs, outputs = _extents(layer, [tile])
    channels = layer.channels_of(filters, tile.channels)

    def bursts(planes: Array, extents: list[Array], whole: list[int], item: int) -> int:
        alike, counts = np.unique(planes, return_counts=True)
        moved = _transfers(_is_any, alike[None, :, None], extents, whole, item)
        return int(counts @ moved[0, :, :, 0].sum(1))

    sizes, outs = [a.size for a in layer.axes], [a.out for a in layer.axes]
    read = int(channels.sum()) * math.prod(int(extent.sum()) for extent in inputs)
    moved_in = read * sum(each.itemsize for each in layer.reads)
    count = sum(bursts(channels.ravel(), inputs, sizes, each.itemsize) for each in layer.reads)
    item = layer.weight_item
    positions = math.prod(extent.size for extent in outputs)
    if layer.conv:
        weights = int(filters.sum()) * layer.conv.group_channels * layer.conv.taps
        moved_in += (weights + (int(filters.sum()) if layer.has_bias else 0)) * item * positions
        count += int(weight_cycles(_is_any, layer, filters, tile.channels).sum()) * positions
    rows = layer.row_parameters * filters.size * (positions // outputs[2].size)
    moved_in += rows * int(outputs[2].sum()) * item
    count += rows * outputs[2].size
    stores = sum(bursts(filters, outputs, outs, each.itemsize) for each in layer.writes)
    return moved_in, layer.cells * sum(each.itemsize for each in layer.writes), count + stores


def _is_any(nbytes: Array) -> Array:
    """Return 1 burst where there are bytes."""
    return (nbytes > 0).astype(float)


def busiest(steps: Steps, cores: int, double: bool) -> Array:
    """Return the cycles of the busiest core of each plan, when task t runs on core t mod cores."""
    plans, tasks, parts = steps.load.shape
    cores = min(cores, tasks)
    rounds = -(-tasks // cores)
    lanes = []
    for array in steps:
        full = np.zeros((plans, rounds * cores, parts))
        full[:, :tasks] = array
        steps_of_cores = full.reshape(plans, rounds, cores, parts).transpose(0, 1, 3, 2)
        lanes.append(steps_of_cores.reshape(plans, rounds * parts, cores))
    load, compute, store = lanes
    if not double:
        alone: Array = (load + compute + store).sum(1).max(1)
        return alone
    moved = np.zeros_like(load)
    moved[:, :-1] += load[:, 1:]
    moved[:, 1:] += store[:, :-1]
    cycles: Array = (load[:, 0] + np.maximum(compute, moved).sum(1) + store[:, -1]).max(1)
    return cycles
