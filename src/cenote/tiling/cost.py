"""Bytes that a tile takes in the buffer, and what a plan costs: bytes moved, and cycles of the busiest core.

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
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from cenote.core.types import Array
from cenote.tiling.hardware import Hardware
from cenote.tiling.layer import Layer, Tile
from cenote.tiling.policy import Policy

Run = Callable[[Array], Array]
"""From bytes of a burst to what it costs."""

MOST_TASKS = 1 << 21
"""Steps of plans that are costed one by one; larger plans by their sums, as if all cores had the same."""


@dataclass(frozen=True)
class Footprint:
    """Bytes of a tile's parts in the buffer, once each, and what is there only once."""

    input: int
    weights: int
    output: int
    indices: int
    scratch: int
    copies: int

    @property
    def total(self) -> int:
        """`bytes(t)`: what must fit."""
        return self.copies * (self.input + self.weights + self.output + self.indices) + self.scratch


def footprint(layer: Layer, hardware: Hardware, policy: Policy, tile: Tile) -> Footprint:
    """What a tile takes in the buffer."""
    item = layer.dtype.itemsize
    padded = policy.pad_space == "padded"
    deep, high, wide = (axis.span(o, padded) for axis, o in zip(layer.axes, tile.spatial, strict=True))
    planes, weights, filters = tile_planes(layer, tile)
    rows = filters * tile.d * tile.h
    sums = sum_bytes(layer, policy, tile)
    return Footprint(
        input=planes * deep * high * hardware.aligned(wide * item),
        weights=hardware.aligned(weights * item)
        + (hardware.aligned(filters * item) if layer.has_bias else 0),
        output=rows * hardware.aligned(tile.w * item),
        indices=rows * hardware.aligned(tile.w * layer.indices.itemsize) if layer.indices else 0,
        scratch=policy.scratch + (rows * hardware.aligned(tile.w * sums) if sums else 0),
        copies=policy.copies(hardware),
    )


def tile_planes(layer: Layer, tile: Tile) -> tuple[int, int, int]:
    """Of the largest block: input planes at a time, weights at a time, output planes."""
    conv = layer.conv
    if conv is None:
        return tile.nc, 0, tile.nc
    groups = max(1, tile.nc // conv.group_filters)
    filters = tile.nc if groups == 1 and tile.nc < conv.group_filters else groups * conv.group_filters
    return groups * tile.channels, filters * tile.channels * conv.taps, filters


def sum_bytes(layer: Layer, policy: Policy, tile: Tile) -> int:
    """Bytes of one sum that lies in the buffer; 0 where none does."""
    if layer.channel_parts(tile.channels) > 1:
        return (policy.sum_type or np.dtype(np.float64 if layer.dtype == np.float64 else np.float32)).itemsize
    return policy.sum_type.itemsize if policy.sum_type is not None else 0


def tasks_of(layer: Layer, policy: Policy, tile: Tile) -> tuple[int, int, int, int]:
    """Parts of the planes and of each axis; their product is the number of tasks."""
    blocks = block_count(layer, tile.nc, policy.batch == "apart")
    deep, high, wide = (-(-axis.out // o) for axis, o in zip(layer.axes, tile.spatial, strict=True))
    return blocks, deep, high, wide


def block_count(layer: Layer, nc: int, apart: bool) -> int:
    """Rows of `Layer.bounds`, without making them."""
    if layer.conv is None:
        return layer.images * -(-(layer.planes // layer.images) // nc) if apart else -(-layer.planes // nc)
    per_group = layer.conv.group_filters
    if nc > per_group:
        return layer.images * -(-layer.conv.groups // (nc // per_group))
    return layer.images * layer.conv.groups * -(-per_group // nc)


@dataclass(frozen=True)
class Cost:
    """Of a whole plan. `exact` is False where there are too many tasks to follow one by one."""

    cycles: int
    bytes_in: int
    bytes_out: int
    bursts: int
    exact: bool = True


class Steps(NamedTuple):
    """Cycles of loads, computations and stores of all tasks: (tasks, channel parts)."""

    load: Array
    compute: Array
    store: Array


def cost_of(layer: Layer, hardware: Hardware, policy: Policy, tile: Tile) -> Cost:
    """Cycles of the busiest core, and everything that is moved."""
    cycles, exact = cycles_of(layer, hardware, policy, tile)
    return Cost(cycles, *_traffic(layer, policy, tile), exact=exact)


def cycles_of(layer: Layer, hardware: Hardware, policy: Policy, tile: Tile) -> tuple[int, bool]:
    """Cycles of the busiest core, and whether all tasks were followed."""
    double = policy.copies(hardware) == 2
    blocks = layer.bounds(tile.nc, policy.batch == "apart")
    tasks = math.prod(tasks_of(layer, policy, tile)) * layer.channel_parts(tile.channels)
    if tasks <= MOST_TASKS:
        return busiest(steps_of(layer, hardware, tile, blocks), hardware.cores, double), True
    # From the steps of one block of planes of each size, which repeat for all others.
    sizes, counts = np.unique(blocks[:, 1] - blocks[:, 0], return_counts=True)
    cycles = 0.0
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        steps = steps_of(layer, hardware, tile, np.array([[0, size]]))
        cycles += count * busiest(steps, 1, double) / hardware.cores
    return math.ceil(cycles), False


def steps_of(layer: Layer, hardware: Hardware, tile: Tile, blocks: Array) -> Steps:
    """Every step of every task, tasks in row-major order over blocks of planes, D, H and W."""
    cuts = [axis.cut(o) for axis, o in zip(layer.axes, tile.spatial, strict=True)]
    channels = layer.channels_of(blocks, tile.channels)  # (blocks, parts)
    filters = blocks[:, 1] - blocks[:, 0]
    count, parts = channels.shape
    item, sizes, outs = layer.dtype.itemsize, [a.size for a in layer.axes], [a.out for a in layer.axes]
    run = partial(run_cycles, hardware)
    load = _transfers(run, channels.ravel(), [cut.inputs for cut in cuts], sizes, item)
    outputs = [cut.outputs for cut in cuts]
    store = _transfers(run, filters, outputs, outs, item)
    if layer.indices:
        store = store + _transfers(run, filters, outputs, outs, layer.indices.itemsize)
    if layer.conv:
        load = load + _weights(run, layer, filters, tile).reshape(-1, 1)
    vectors = -(-outputs[2] * item // hardware.vector_bytes)
    work = layer.work / hardware.compute_per_cycle
    boxes = np.multiply.outer(np.multiply.outer(outputs[0], outputs[1]), vectors).ravel() * work
    grid = np.multiply.outer(filters, boxes).reshape(-1, 1)
    if parts > 1:
        grid = grid * (_channel_parts(layer, tile) / layer.conv.group_channels if layer.conv else 1.0)
    stored = np.zeros((store.size, parts))
    stored[:, -1] = store.ravel()
    return Steps(
        load.reshape(count, parts, -1).transpose(0, 2, 1).reshape(-1, parts),
        hardware.compute_startup_cycles + np.ceil(grid - 1e-9),
        stored,
    )


def run_cycles(hardware: Hardware, nbytes: Array) -> Array:
    """Of bursts of so many bytes each; none for none."""
    each = hardware.dma_startup_cycles + np.ceil(nbytes / hardware.dma_bytes_per_cycle)
    cycles: Array = np.where(nbytes > 0, each, 0.0)
    return cycles


def _transfers(run: Run, planes: Array, extents: list[Array], whole: list[int], item: int) -> Array:
    """(planes, boxes): moving boxes of these extents out of maps of the extents `whole`, so many planes each."""
    deep, high, wide = extents
    area, volume = whole[2] * item, whole[1] * whole[2] * item
    rows = np.multiply.outer(np.multiply.outer(deep, high), run(wide * item))
    if wide.max() < whole[2]:
        return np.multiply.outer(planes, rows.ravel())
    solid = run(deep * volume) * (deep < whole[0])
    flat = np.where(high < whole[1], np.multiply.outer(deep, run(high * area)), solid[:, None])
    boxes = np.where(wide < whole[2], rows, flat[:, :, None])
    cycles: Array = np.multiply.outer(planes, boxes.ravel())
    if deep.max() == whole[0] and high.max() == whole[1]:
        are_whole = np.multiply.outer(np.multiply.outer(deep == whole[0], high == whole[1]), wide == whole[2])
        cycles = cycles + np.multiply.outer(run(planes * (whole[0] * volume)), are_whole.ravel())
    return cycles


def _channel_parts(layer: Layer, tile: Tile) -> Array:
    """Input channels of each part."""
    assert layer.conv is not None
    starts = np.arange(0, layer.conv.group_channels, tile.channels)
    parts: Array = np.minimum(starts + tile.channels, layer.conv.group_channels) - starts
    return parts


def _weights(run: Run, layer: Layer, filters: Array, tile: Tile) -> Array:
    """(blocks, parts): loads of weights, and with the first part of the bias."""
    assert layer.conv is not None
    item = layer.dtype.itemsize
    part_bytes = _channel_parts(layer, tile) * layer.conv.taps * item
    if len(part_bytes) == 1:
        cycles = run(np.multiply.outer(filters, part_bytes))
    else:  # filters' parts do not lie side by side
        cycles = np.multiply.outer(filters, run(part_bytes))
    if layer.has_bias:
        cycles[:, 0] += run(filters * item)
    return cycles


def _traffic(layer: Layer, policy: Policy, tile: Tile) -> tuple[int, int, int]:
    """Bytes in, bytes out and bursts of a whole plan."""
    blocks = layer.bounds(tile.nc, policy.batch == "apart")
    cuts = [axis.cut(o) for axis, o in zip(layer.axes, tile.spatial, strict=True)]
    channels = layer.channels_of(blocks, tile.channels)
    filters = blocks[:, 1] - blocks[:, 0]
    item = layer.dtype.itemsize
    sizes, outs = [a.size for a in layer.axes], [a.out for a in layer.axes]

    def runs(planes: Array, extents: list[Array], whole: list[int]) -> int:
        alike, counts = np.unique(planes, return_counts=True)
        return int(counts @ _transfers(_is_any, alike, extents, whole, item).sum(1))

    moved_in = int(channels.sum()) * math.prod(cut.read for cut in cuts) * item
    bursts = runs(channels.ravel(), [cut.inputs for cut in cuts], sizes)
    if layer.conv:
        positions = math.prod(cut.parts for cut in cuts)
        weights = int(filters.sum()) * layer.conv.group_channels * layer.conv.taps
        moved_in += (weights + (int(filters.sum()) if layer.has_bias else 0)) * item * positions
        bursts += int(_weights(_is_any, layer, filters, tile).sum()) * positions
    cell = item + (layer.indices.itemsize if layer.indices else 0)
    stores = runs(filters, [cut.outputs for cut in cuts], outs)
    return moved_in, layer.cells * cell, bursts + stores * (2 if layer.indices else 1)


def _is_any(nbytes: Array) -> Array:
    """One burst where there are bytes."""
    return (nbytes > 0).astype(float)


def busiest(steps: Steps, cores: int, double: bool) -> int:
    """Cycles of the busiest core when task t runs on core t mod cores."""
    tasks, parts = steps.load.shape
    cores = min(cores, tasks)
    rounds = -(-tasks // cores)
    lanes = []
    for array in steps:
        full = np.zeros((rounds * cores, parts))
        full[:tasks] = array
        lanes.append(full.reshape(rounds, cores, parts).transpose(0, 2, 1).reshape(rounds * parts, cores))
    load, compute, store = lanes
    if not double:
        return int((load + compute + store).sum(0).max())
    moved = np.zeros_like(load)
    moved[:-1] += load[1:]
    moved[1:] += store[:-1]
    return int((load[0] + np.maximum(compute, moved).sum(0) + store[-1]).max())
