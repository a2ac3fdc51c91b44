"""Execution of a plan on data: one buffer of real bytes per core, counted copies, the operator's own reference.

The plan is not trusted: each tile must lie within the space that the plan gives it, everything that it reads must
have been loaded, and each output cell must be stored exactly once. `PlanError` says where that is not so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cenote.core.errors import InputError, UnsupportedError
from cenote.core.types import Array, TensorType
from cenote.ops.base import Box
from cenote.ops.conv.conv import Conv
from cenote.ops.pool.window import ExtremePool, convert_indices
from cenote.ops.values import seeded
from cenote.tiling.buffer import BufferSpace, Core, PlanError, Ranges
from cenote.tiling.clock import Event, order
from cenote.tiling.problem import TilingPlan

MOST_TASKS = 1 << 18


@dataclass
class Totals:
    """Bytes and bursts that were moved, over all cores."""

    bytes_in: int = 0
    bytes_out: int = 0
    bursts: int = 0


@dataclass(frozen=True)
class _Task:
    """One tile: output planes (of one tensor with all planes side by side), and ranges of the spatial axes."""

    number: int
    planes: tuple[int, int]
    spatial: Ranges


def simulate(
    plan: TilingPlan, x: Array, weights: Sequence[Array] = (), *, timeline: bool = False
) -> tuple[Any, dict[str, Any]]:
    """Execute a plan on x; return the result and the counts.

    The result is the layer's output, or (values, indices). `weights` are those of a convolution, and its bias where
    it has one; by default seeded noise (`weights_of`). The sum over parts of a convolution's input channels is
    computed part by part, from the first channels to the last, in the policy's accumulator type.

    The counts: "tasks", "cycles" (of the busiest core), "core_cycles" (of each that had a task), "bytes_in",
    "bytes_out", "bursts"; with `timeline` also "events" (core, kind, task, start, end).

    Raises PlanError where the plan is wrong, InputError for an x that is not the layer's.
    """
    x = np.asarray(x)
    expected = plan.layer.inputs[0]
    assert expected is not None
    if x.shape != expected.shape or x.dtype != expected.dtype:
        raise InputError(f"tiling.simulate: the plan is for {expected}, got {x.dtype}{list(x.shape)}")
    if plan.tasks > MOST_TASKS:
        raise UnsupportedError(f"tiling.simulate: {plan.tasks:,} tasks; at most {MOST_TASKS:,} are executed")
    return _Run(plan, x, tuple(weights) or weights_of(plan)).result(timeline)


def weights_of(plan: TilingPlan) -> tuple[Array, ...]:
    """Return seeded weights (and bias) of a convolution; none for a pool. Their sums stay near 1."""
    weights = []
    for number, kind in enumerate(plan.layer.inputs[1:], 1):
        if kind is not None:
            scale = 1 / math.sqrt(max(1, math.prod(kind.shape[1:])))
            weights.append((seeded(kind.shape, number, np.float64) * scale).astype(kind.dtype))
    return tuple(weights)


def reference(plan: TilingPlan, x: Array, weights: Sequence[Array] = ()) -> Any:
    """Return the output of the operator and of the fused elementwise ones, computed on the whole of x in one
    piece."""
    outputs = plan.layer.op.reference(x, *(tuple(weights) or weights_of(plan)))
    y = outputs[0]
    for op in plan.layer.fused:
        (y,) = op.reference(y)
    return y if len(outputs) == 1 else (y, outputs[1].astype(plan.layer.indices))


class _Run:
    """The state of one execution."""

    def __init__(self, plan: TilingPlan, x: Array, weights: tuple[Array, ...]) -> None:
        layer = plan.layer
        self.plan, self.layer, self.weights = plan, layer, weights
        for given, kind in zip(weights, (t for t in layer.inputs[1:] if t is not None), strict=True):
            if given.shape != kind.shape or given.dtype != kind.dtype:
                raise InputError(
                    f"tiling.simulate: weights must be {kind}, got {given.dtype}{list(given.shape)}"
                )
        self.x = x if layer.conv else x.reshape(1, -1, *x.shape[2:])
        self.types = (TensorType(x.dtype, self.x.shape), *layer.inputs[1:])
        self.rank = x.ndim - 2
        out = tuple(axis.out for axis in layer.axes)[3 - self.rank :]
        self.y = np.empty((layer.planes, *out), layer.dtype)
        self.places = np.empty(self.y.shape, layer.indices) if layer.indices else None
        self.written = np.zeros(self.y.shape, np.uint8)
        self.totals = Totals()
        self.parts = layer.channel_parts(plan.tile.channels)

    def result(self, timeline: bool) -> tuple[Any, dict[str, Any]]:
        tasks = list(self._tasks())
        count = min(self.plan.hardware.cores, len(tasks))
        events: list[Event] = []
        ends = []
        for number in range(count):
            core = Core(number, self.plan)
            self._run_core(core, tasks[number::count])
            ends.append(round(core.clock.now))
            if timeline:
                events += core.clock.events
        self._check_written()
        counts: dict[str, Any] = {
            "tasks": len(tasks),
            "cycles": max(ends),
            "core_cycles": ends,
            "bytes_in": self.totals.bytes_in,
            "bytes_out": self.totals.bytes_out,
            "bursts": self.totals.bursts,
        }
        if timeline:
            counts["events"] = events
        y = self.y.reshape(self.layer.outputs[0].shape)
        if self.places is None:
            return y, counts
        places = self.places.reshape(y.shape)
        assert isinstance(self.layer.op, ExtremePool)  # no other has indices
        rule = self.layer.op.index
        shape = self.layer.inputs[0].shape  # type: ignore[union-attr]  # a pool has an input
        return (y, convert_indices(places, shape, rule).astype(self.layer.indices)), counts

    def _tasks(self) -> Iterator[_Task]:
        tile = self.plan.tile
        blocks = self.layer.bounds(tile.nc, self.plan.policy.batch == "apart")
        columns = [
            [(start, min(start + o, axis.out)) for start in range(0, axis.out, o)]
            for axis, o in zip(self.layer.axes, tile.spatial, strict=True)
        ]
        number = 0
        for first, last in blocks.tolist():
            for deep in columns[0]:
                for high in columns[1]:
                    for wide in columns[2]:
                        yield _Task(number, (first, last), (deep, high, wide)[3 - self.rank :])
                        number += 1

    def _check_written(self) -> None:
        if (self.written != 1).any():
            never, twice = int((self.written == 0).sum()), int((self.written > 1).sum())
            raise PlanError(f"tiling: {never} output cells are never written, {twice} more than once")

    def _run_core(self, core: Core, tasks: list[_Task]) -> None:
        clock, parts = core.clock, self.parts
        for kind, step in order(len(tasks) * parts, parts, core.copies):
            task, place, part = tasks[step // parts], step // parts, step % parts
            if kind == "load":
                clock.load(step, task.number, self._load(core, step % core.copies, task, part))
            elif kind == "compute":
                cycles = self._compute(core, step % core.copies, place % core.copies, task, part)
                clock.compute(step, place, task.number, cycles)
            else:
                clock.store(step, place, task.number, self._store(core, place % core.copies, task))

    # ---- loads and stores

    def _channels(self, task: _Task, part: int) -> tuple[int, int]:
        """Return the input planes that a part of a task reads: a pool's side by side, a convolution's within the
        image."""
        conv = self.layer.conv
        if conv is None:
            return task.planes
        first, last = task.planes[0] % conv.filters, (task.planes[1] - 1) % conv.filters
        low = first // conv.group_filters * conv.group_channels
        if self.parts == 1:
            return low, (last // conv.group_filters + 1) * conv.group_channels
        channels = self.plan.tile.channels
        return low + part * channels, min(low + (part + 1) * channels, low + conv.group_channels)

    def _image(self, task: _Task) -> int:
        return task.planes[0] // self.layer.conv.filters if self.layer.conv else 0

    def _load(self, core: Core, slot: int, task: _Task, part: int) -> float:
        """Load the input (and weights) of a step: the range that the planner says the tile reads. Return the
        cycles."""
        axes = self.layer.axes[3 - self.rank :]
        spatial = tuple(axis.reads(*bounds) for axis, bounds in zip(axes, task.spatial, strict=True))
        planes = self._channels(task, part)
        source = self.x[self._image(task)]
        space = core.inputs[slot]
        widest = axes[-1].span(self.plan.tile.w, self.plan.policy.pad_space == "padded")
        pitch = self.plan.hardware.aligned(widest * source.itemsize)
        space.place((planes, *spatial), source.dtype, pitch)
        box = tuple(slice(*bounds) for bounds in (planes, *spatial))
        space.write(source[box])
        cycles = self._moved((planes, *spatial), source.shape, source.itemsize, reading=True)
        return cycles + (self._load_weights(core.weights[slot], task, part) if self.layer.conv else 0.0)

    def _load_weights(self, space: BufferSpace, task: _Task, part: int) -> float:
        conv = self.layer.conv
        assert conv is not None
        w = self.weights[0].reshape(conv.filters, -1)
        first = task.planes[0] % conv.filters
        filters = (first, first + task.planes[1] - task.planes[0])
        low = self._channels(task, part)[0] % conv.group_channels
        count = min(self.plan.tile.channels, conv.group_channels - low)
        columns = (low * conv.taps, (low + count) * conv.taps)
        flat = w[slice(*filters), slice(*columns)]
        self._place_flat(space, flat, part)
        cycles = self._moved((filters, columns), w.shape, w.itemsize, reading=True)
        if self.layer.has_bias and part == 0:
            cycles += self._moved((filters,), (conv.filters,), w.itemsize, reading=True)
        return cycles

    def _place_flat(self, space: BufferSpace, flat: Array, part: int) -> None:
        """Place weights one behind the other, without gaps."""
        space.place(((0, 1), (0, flat.size)), flat.dtype, space.size)
        space.write(flat.reshape(1, -1))

    def _moved(self, ranges: Ranges, shape: tuple[int, ...], item: int, reading: bool) -> float:
        """Count one copy of a box out of, or into, a tensor of this shape; return the cycles of its contiguous
        runs."""
        run, elements, growing = 1, 1, True
        for (start, stop), extent in reversed(list(zip(ranges, shape, strict=True))):
            elements *= stop - start
            if growing:
                run *= stop - start
            growing = growing and stop - start == extent
        if not elements:
            return 0.0
        bursts = elements // run
        hardware = self.plan.hardware
        self.totals.bursts += bursts
        if reading:
            self.totals.bytes_in += elements * item
        else:
            self.totals.bytes_out += elements * item
        each = math.ceil(run * item / hardware.dma_bytes_per_cycle)
        return float(bursts * (hardware.dma_startup_cycles + each))

    def _store(self, core: Core, slot: int, task: _Task) -> float:
        box = tuple(slice(*bounds) for bounds in (task.planes, *task.spatial))
        ranges = (task.planes, *task.spatial)
        whole = self.y.shape if self.layer.conv is None else (self.layer.planes, *self.y.shape[1:])
        self.y[box] = core.outputs[slot].read()
        self.written[box] += 1
        cycles = self._moved(ranges, whole, self.y.itemsize, reading=False)
        core.outputs[slot].poison()
        if self.places is not None:
            self.places[box] = core.indices[slot].read()
            cycles += self._moved(ranges, whole, self.places.itemsize, reading=False)
            core.indices[slot].poison()
        return cycles

    # ---- the computation

    def _compute(self, core: Core, slot: int, place: int, task: _Task, part: int) -> float:
        planes = task.planes
        if self.layer.conv:
            first = planes[0] % self.layer.conv.filters
            box = Box(((0, 1), (first, first + planes[1] - planes[0]), *task.spatial))
            values, indices = self._convolved(core, slot, box, task, part), None
        else:
            box = Box(((0, 1), planes, *task.spatial))
            values, indices = self._pooled(core.inputs[slot], box)
        core.inputs[slot].poison()
        core.weights[slot].poison()
        if values is not None:
            for op in self.layer.fused:
                (values,) = op.reference(values)
            ranges = (planes, *task.spatial)
            aligned = self.plan.hardware.aligned
            core.outputs[place].place(ranges, values.dtype, aligned(self.plan.tile.w * values.itemsize))
            core.outputs[place].write(values[0])
            if indices is not None:
                dtype = self.places.dtype  # type: ignore[union-attr]  # there where indices are
                pitch = aligned(self.plan.tile.w * dtype.itemsize)
                core.indices[place].place(ranges, dtype, pitch)
                core.indices[place].write(indices[0])
        return self._work(task, part)

    def _pooled(self, space: BufferSpace, box: Box) -> tuple[Array, Array | None]:
        (region,) = self.layer.op.region(box, self.types)
        assert region is not None
        x = space.read(region.ranges[1:])[None]
        outputs = self.layer.op.part(box, self.types).reference(x)
        if len(outputs) == 1:
            return outputs[0], None
        spatial = tuple(stop - start for start, stop in region.ranges[2:])
        places = np.unravel_index(outputs[1], spatial)
        shifted = [at + start for at, (start, _) in zip(places, region.ranges[2:], strict=True)]
        plane: Array = np.ravel_multi_index(shifted, self.x.shape[2:])
        return outputs[0], plane

    def _convolved(self, core: Core, slot: int, box: Box, task: _Task, part: int) -> Array | None:
        """Return the tile's outputs; None while channels are still to come."""
        layer, conv = self.layer, self.layer.conv
        assert conv is not None
        types = (TensorType(self.x.dtype, (1, *self.x.shape[1:])), *self.types[1:])
        region = layer.op.region(box, types)[0]
        assert region is not None
        op = layer.op.part(box, types)
        assert isinstance(op, Conv)
        planes = self._channels(task, part)
        x = core.inputs[slot].read((planes, *region.ranges[2:]))[None]
        filters = task.planes[1] - task.planes[0]
        w = core.weights[slot].read().reshape(filters, -1, *conv.window)
        first = task.planes[0] % conv.filters
        bias = self.weights[1][first : first + filters] if layer.has_bias else None
        if self.parts == 1:
            return op.reference(x, w, bias)[0]
        partial = op.reference(x.astype(np.float64), w.astype(np.float64))[0]
        total = self._added(core.sums, partial, task, part)
        if part < self.parts - 1:
            return None
        core.sums.poison()
        if bias is not None:
            total = total + bias.reshape(1, -1, *(1,) * self.rank)
        return total.astype(layer.dtype)

    def _added(self, space: BufferSpace, partial: Array, task: _Task, part: int) -> Array:
        """Add a part to the sum that is kept in the buffer; return the sum so far."""
        policy, dtype = self.plan.policy, self.layer.dtype
        kind = policy.sum_type or np.dtype(np.float64 if dtype == np.float64 else np.float32)
        ranges = (task.planes, *task.spatial)
        if part == 0:
            space.place(ranges, kind, self.plan.hardware.aligned(self.plan.tile.w * kind.itemsize))
            space.write(partial[0].astype(kind))
        else:
            space.write((space.read() + partial[0]).astype(kind))
        return space.read()[None]

    def _work(self, task: _Task, part: int) -> float:
        """Return the cycles of a step's computation, from the outputs that it really has."""
        hardware, conv = self.plan.hardware, self.layer.conv
        extents = [stop - start for start, stop in (task.planes, *task.spatial)]
        row = -(-extents[-1] * self.layer.dtype.itemsize // hardware.vector_bytes)
        vectors = math.prod(extents[:-1]) * row
        share = 1.0
        if conv and self.parts > 1:
            low, high = self._channels(task, part)
            share = (high - low) / conv.group_channels
        work = vectors * self.layer.work * share / hardware.compute_per_cycle
        return hardware.compute_startup_cycles + math.ceil(work - 1e-9)
