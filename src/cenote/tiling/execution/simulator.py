"""Execution of a plan on data: one buffer of real bytes per core, counted copies, the operator's own reference.

The plan is not trusted: each tile must lie within the space that the plan gives it, everything that it reads must
have been loaded, and each output cell must be stored exactly once. `PlanError` says where that is not so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import InputError, UnsupportedError
from cenote.core.types import Array
from cenote.tiling.cost import wide_type
from cenote.tiling.execution.buffer import BufferSpace, Core, PlanError
from cenote.tiling.execution.clock import Event, order
from cenote.tiling.kinds.computation import Ranges, TileData
from cenote.tiling.problem import TilingPlan
from cenote.tiling.reduction import ReductionPlan

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

    The result is the layer's output, or (values, indices). `weights` are the layer's other inputs: the weights of a
    convolution and its bias where it has one, the second matrix of a product, the indices of the gradient of a maximum,
    scale and bias of a normalisation; by default seeded (`weights_of`). The sum over parts of a convolution's or
    product's input channels is computed part by part, from the first channels to the last, in the policy's accumulator
    type.

    The counts: "tasks", "cycles" (of the busiest core), "core_cycles" (of each that had a task), "bytes_in",
    "bytes_out", "bursts"; with `timeline` also "events" (core, kind, task, start, end).

    Raises PlanError where the plan is wrong, InputError for an x that is not the layer's.
    """
    x = np.asarray(x)
    expected = plan.layer.inputs[0]
    if x.shape != expected.shape or x.dtype != expected.dtype:
        raise InputError(f"tiling.simulate: the plan is for {expected}, got {x.dtype}{list(x.shape)}")
    if isinstance(plan, ReductionPlan):
        return _passes(plan, x, timeline)
    if plan.tasks > MOST_TASKS:
        raise UnsupportedError(f"tiling.simulate: {plan.tasks:,} tasks; at most {MOST_TASKS:,} are executed")
    return _Run(plan, (x, *(tuple(weights) or weights_of(plan)))).result(timeline)


def _passes(plan: ReductionPlan, x: Array, timeline: bool) -> tuple[Any, dict[str, Any]]:
    """Execute the passes one after the other: each begins when the one before has ended."""
    totals: dict[str, Any] = {"events": []} if timeline else {}
    busy = [0] * plan.hardware.cores
    for each in plan.passes:
        x, counts = simulate(each, x, timeline=timeline)
        before = totals.get("cycles", 0)
        for name in ("tasks", "cycles", "bytes_in", "bytes_out", "bursts"):
            totals[name] = totals.get(name, 0) + counts[name]
        for core, cycles in enumerate(counts["core_cycles"]):
            busy[core] += cycles
        for event in counts.get("events", ()):
            core, kind, task, start, end = event
            totals["events"].append(Event(core, kind, task, start + before, end + before))
    return x, {**totals, "core_cycles": [cycles for cycles in busy if cycles]}


def weights_of(plan: TilingPlan) -> tuple[Array, ...]:
    """Return seeded content of a layer's inputs after the first; none for a pool. Sums of products stay near 1."""
    return plan.layer.computation.examples()


def reference(plan: TilingPlan, x: Array, weights: Sequence[Array] = ()) -> Any:
    """Return the output of the operator and of the fused elementwise ones, computed on the whole of x in one
    piece."""
    y, *places = plan.layer.computation.reference((x, *(tuple(weights) or weights_of(plan))))
    for op in plan.layer.fused:
        (y,) = op.reference(y)
    return (y, *places) if places else y


class _Run:
    """The state of one execution."""

    def __init__(self, plan: TilingPlan, arrays: tuple[Array, ...]) -> None:
        layer = plan.layer
        self.plan, self.layer, self.arrays = plan, layer, arrays
        for given, kind in zip(arrays, layer.inputs, strict=True):
            if given.shape != kind.shape or given.dtype != kind.dtype:
                raise InputError(
                    f"tiling.simulate: weights must be {kind}, got {given.dtype}{list(given.shape)}"
                )
        self.sources = layer.computation.sources(arrays)
        self.rank = self.sources[0].ndim - 2
        out = tuple(axis.out for axis in layer.axes)[3 - self.rank :]
        self.results = [np.empty((layer.planes, *out), kind) for kind in layer.writes]
        self.written = np.zeros(self.results[0].shape, np.uint8)
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
        shape = self.layer.outputs[0].shape
        results = self.layer.computation.delivered(tuple(each.reshape(shape) for each in self.results))
        return (results[0] if len(results) == 1 else results), counts

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
        ranges = (self._channels(task, part), *spatial)
        widest = axes[-1].span(self.plan.tile.w, self.plan.policy.pad_space == "padded")
        cycles = 0.0
        for whole, spaces in zip(self.sources, core.inputs, strict=True):
            source = whole[self._image(task)]
            spaces[slot].place(ranges, source.dtype, self.plan.hardware.aligned(widest * source.itemsize))
            spaces[slot].write(source[tuple(slice(*bounds) for bounds in ranges)])
            cycles += self._moved(ranges, source.shape, source.itemsize, reading=True)
        return cycles + self._load_weights(core.weights[slot], task, part)

    def _load_weights(self, space: BufferSpace, task: _Task, part: int) -> float:
        """Load the weights of a step; with the first one the bias and the row parameters. Return the cycles."""
        conv, item, cycles = self.layer.conv, self.layer.weight_item, 0.0
        if conv is not None:
            first = task.planes[0] % conv.filters
            filters = (first, first + task.planes[1] - task.planes[0])
            box, shape = self.layer.weight_box(filters, self._channels(task, part))
            weights = self.arrays[self.layer.computation.weights_at].reshape(shape)
            flat = weights[tuple(slice(*bounds) for bounds in box)].reshape(1, -1)
            # One behind the other, without gaps.
            space.place(((0, 1), (0, flat.size)), flat.dtype, space.size)
            space.write(flat)
            cycles += self._moved(box, shape, item, reading=True)
            if self.layer.has_bias and part == 0:
                cycles += self._moved((filters,), (conv.filters,), item, reading=True)
        for _ in range(self.layer.row_parameters if part == 0 else 0):
            cycles += self._moved(task.spatial[-1:], (self.layer.axes[2].out,), item, reading=True)
        return cycles

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
        ranges = (task.planes, *task.spatial)
        box = tuple(slice(*bounds) for bounds in ranges)
        self.written[box] += 1
        cycles = 0.0
        for result, spaces in zip(self.results, core.outputs, strict=True):
            result[box] = spaces[slot].read()
            cycles += self._moved(ranges, result.shape, result.itemsize, reading=False)
            spaces[slot].poison()
        return cycles

    # ---- the computation

    def _compute(self, core: Core, slot: int, place: int, task: _Task, part: int) -> float:
        data = TileData(
            task.planes,
            task.spatial,
            self._channels(task, part),
            lambda number, ranges: core.inputs[number][slot].read(ranges),
            core.weights[slot].read,
        )
        outputs = self._values(core, data, part)
        for spaces in (*core.inputs, core.weights):
            spaces[slot].poison()
        if outputs is not None:
            y, *places = outputs
            for op in self.layer.fused:
                (y,) = op.reference(y[None])
                y = y[0]
            ranges = (task.planes, *task.spatial)
            for values, kind, spaces in zip((y, *places), self.layer.writes, core.outputs, strict=True):
                pitch = self.plan.hardware.aligned(self.plan.tile.w * kind.itemsize)
                spaces[place].place(ranges, kind, pitch)
                spaces[place].write(values)
        return self._work(task, part)

    def _values(self, core: Core, data: TileData, part: int) -> tuple[Array, ...] | None:
        """Return the tile's outputs; None while channels are still to come."""
        computation = self.layer.computation
        if self.parts == 1:
            return computation.values(self.arrays, data)
        total = self._added(core.sums, computation.partial(data), data, part)
        if part < self.parts - 1:
            return None
        core.sums.poison()
        return (computation.finished(total, self.arrays, data),)

    def _added(self, space: BufferSpace, partial: Array, data: TileData, part: int) -> Array:
        """Add a part to the sum that is kept in the buffer; return the sum so far."""
        kind = self.plan.policy.sum_type or wide_type(self.layer.dtype)
        if part == 0:
            ranges = (data.planes, *data.spatial)
            space.place(ranges, kind, self.plan.hardware.aligned(self.plan.tile.w * kind.itemsize))
            space.write(partial.astype(kind))
        else:
            space.write((space.read() + partial).astype(kind))
        return space.read()

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
