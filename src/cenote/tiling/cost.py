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

import numpy as np

from cenote.core.dataclass import dataclass
from cenote.core.types import Array
from cenote.tiling.hardware import Hardware
from cenote.tiling.layer import Layer, Tile
from cenote.tiling.policy import Policy

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


@dataclass(frozen=True)
class Steps:
    """Cycles of loads, computations and stores of all tasks: (tasks, channel parts); and what they move."""

    load: Array
    compute: Array
    store: Array
    bytes_in: int
    bytes_out: int
    bursts: int


def cost_of(layer: Layer, hardware: Hardware, policy: Policy, tile: Tile) -> Cost:
    """Cycles of the busiest core, and everything that is moved."""
    tasks = math.prod(tasks_of(layer, policy, tile)) * layer.channel_parts(tile.channels)
    if tasks > MOST_TASKS:
        return _rough(layer, hardware, policy, tile)
    steps = steps_of(layer, hardware, policy, tile)
    cycles = busiest(steps, hardware.cores, policy.copies(hardware) == 2)
    return Cost(cycles, steps.bytes_in, steps.bytes_out, steps.bursts)


def _rough(layer: Layer, hardware: Hardware, policy: Policy, tile: Tile) -> Cost:
    """From the steps of one block of planes of each size; they repeat for all others."""
    blocks = layer.bounds(tile.nc, policy.batch == "apart")
    sizes, counts = np.unique(blocks[:, 1] - blocks[:, 0], return_counts=True)
    cycles, moved = 0.0, np.zeros(3, np.int64)
    double = policy.copies(hardware) == 2
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        steps = steps_of(layer, hardware, policy, tile, np.array([[0, size]]))
        cycles += count * busiest(steps, 1, double) / hardware.cores
        moved += count * np.array((steps.bytes_in, steps.bytes_out, steps.bursts))
    return Cost(math.ceil(cycles), int(moved[0]), int(moved[1]), int(moved[2]), exact=False)


def steps_of(
    layer: Layer, hardware: Hardware, policy: Policy, tile: Tile, blocks: Array | None = None
) -> Steps:
    """Every step of every task, tasks in row-major order over blocks of planes, D, H and W."""
    if blocks is None:
        blocks = layer.bounds(tile.nc, policy.batch == "apart")
    cuts = [axis.cut(o) for axis, o in zip(layer.axes, tile.spatial, strict=True)]
    channels = layer.channels_of(blocks, tile.channels)  # (blocks, parts)
    filters = blocks[:, 1] - blocks[:, 0]
    item = layer.dtype.itemsize
    ins = [cut.inputs for cut in cuts]
    outs = [cut.outputs for cut in cuts]
    load = _Transfer(
        hardware, channels[:, None, None, None, :], ins, [axis.size for axis in layer.axes], item
    )
    store = _Transfer(
        hardware, filters[:, None, None, None, None], outs, [axis.out for axis in layer.axes], item
    )
    stored, moved_out, bursts_out = store.cycles, store.bytes, store.bursts
    if layer.indices:
        second = _Transfer(
            hardware,
            filters[:, None, None, None, None],
            outs,
            [axis.out for axis in layer.axes],
            layer.indices.itemsize,
        )
        stored, moved_out, bursts_out = (
            stored + second.cycles,
            moved_out + second.bytes,
            bursts_out + second.bursts,
        )
    loaded, moved_in, bursts_in = load.cycles, load.bytes, load.bursts
    shape = (*(len(filters),), *(cut.parts for cut in cuts), channels.shape[1])
    share = np.ones((1, 1))
    if layer.conv:
        extra, extra_bytes, extra_bursts = _weights(layer, hardware, filters, tile)
        positions = math.prod(shape[1:4])
        loaded = loaded + extra[:, None, None, None, :]
        moved_in, bursts_in = moved_in + extra_bytes * positions, bursts_in + extra_bursts * positions
        starts = np.arange(0, layer.conv.group_channels, tile.channels)
        share = (np.minimum(starts + tile.channels, layer.conv.group_channels) - starts)[
            None
        ] / layer.conv.group_channels
    vectors = -(-outs[2] * item // hardware.vector_bytes)
    grid = _grid(filters[:, None, None, None, None], [outs[0], outs[1], vectors])
    work = grid * (layer.work / hardware.compute_per_cycle) * share[:, None, None, None, :]
    compute = hardware.compute_startup_cycles + np.ceil(work - 1e-9)
    tasks = math.prod(shape[:4])
    last = np.zeros((tasks, shape[4]))
    last[:, -1] = np.broadcast_to(stored, (*shape[:4], 1)).reshape(tasks)
    return Steps(
        np.broadcast_to(loaded, shape).reshape(tasks, -1),
        np.broadcast_to(compute, shape).reshape(tasks, -1),
        last,
        moved_in,
        moved_out,
        bursts_in + bursts_out,
    )


def _grid(planes: Array, extents: list[Array]) -> Array:
    deep, high, wide = extents
    return (
        planes
        * deep[None, :, None, None, None]
        * high[None, None, :, None, None]
        * wide[None, None, None, :, None]
    )


class _Transfer:
    """Moving boxes of these planes and extents out of maps of the extents `whole`: cycles of each, and totals."""

    def __init__(
        self, hardware: Hardware, planes: Array, extents: list[Array], whole: list[int], item: int
    ) -> None:
        deep, high, wide = (
            extent.reshape([-1 if axis == place else 1 for place in range(5)])
            for axis, extent in enumerate(extents, 1)
        )
        elements = planes * deep * high * wide
        rows = np.where(wide < whole[2], planes * deep * high, 0)
        flat = np.where((wide == whole[2]) & (high < whole[1]), planes * deep, 0)
        solid = np.where((wide == whole[2]) & (high == whole[1]), np.where(deep < whole[0], planes, 1), 0)
        bursts = np.where(elements == 0, 0, rows + flat + solid)
        self.cycles = transfer_cycles(hardware, bursts, elements * item)
        self.bytes = int(elements.sum()) * item
        self.bursts = int(bursts.sum())


def transfer_cycles(hardware: Hardware, bursts: Array, nbytes: Array) -> Array:
    """Of so many equal bursts that move so many bytes together."""
    each = np.ceil(nbytes / np.maximum(bursts, 1) / hardware.dma_bytes_per_cycle)
    cycles: Array = bursts * (hardware.dma_startup_cycles + each)
    return cycles


def _weights(layer: Layer, hardware: Hardware, filters: Array, tile: Tile) -> tuple[Array, int, int]:
    """Loads of weights, and with the first part of the bias: cycles (blocks, parts), bytes and bursts per position."""
    conv = layer.conv
    assert conv is not None
    item = layer.dtype.itemsize
    starts = np.arange(0, conv.group_channels, tile.channels)
    parts = np.minimum(starts + tile.channels, conv.group_channels) - starts
    elements = filters[:, None] * parts[None] * conv.taps
    bursts = np.broadcast_to(filters[:, None] if len(parts) > 1 else 1, elements.shape)
    cycles = transfer_cycles(hardware, bursts, elements * item)
    moved, count = int(elements.sum()) * item, int(bursts.sum())
    if layer.has_bias:
        cycles[:, 0] += transfer_cycles(hardware, np.ones_like(filters), filters * item)
        moved, count = moved + int(filters.sum()) * item, count + len(filters)
    return cycles, moved, count


def busiest(steps: Steps, cores: int, double: bool) -> int:
    """Cycles of the busiest core when task t runs on core t mod cores."""
    tasks, parts = steps.load.shape
    cores = min(cores, tasks)
    rounds = -(-tasks // cores)
    lanes = []
    for array in (steps.load, steps.compute, steps.store):
        full = np.zeros((rounds * cores, parts))
        full[:tasks] = array
        lanes.append(full.reshape(rounds, cores, parts).transpose(1, 0, 2).reshape(cores, rounds * parts))
    load, compute, store = lanes
    if not double:
        return int((load + compute + store).sum(1).max())
    moved = np.zeros_like(load)
    moved[:, :-1] += load[:, 1:]
    moved[:, 1:] += store[:, :-1]
    return int((load[:, 0] + np.maximum(compute, moved).sum(1) + store[:, -1]).max())
