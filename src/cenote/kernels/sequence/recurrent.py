"""Recurrent layers, once the products of the inputs are there: one kernel walks all steps of a sequence.

    for item (a direction, and up to four samples of the batch):     emitted
        for step:                                                    emitted
            for a group of hidden units, a few vectors of them:      emitted
                for a part of their gates, as registers allow:       unrolled
                    for unit of the state before:                    emitted
                        its weights to the part                      unrolled: loads, broadcasts, multiply-adds
                the cell: activations, the new state                 unrolled
            (a GRU that resets before the product does so twice)

The recurrent weights are packed so that a step streams them once, in one run; they stay in the caches from step to
step. States wait in scratch, two of each in turns: all units of a step need the whole state of the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import ClassVar

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, I32, I64, Pointer, Value
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.kernels.base import KernelSpec, numbers_named, pointers_to
from cenote.kernels.elementwise.activations import Activation, clamp
from cenote.kernels.partial_sums import FAST_TERMS
from cenote.kernels.sequence.recurrent_weights import GATES, parts_of, phases_of

STATES = {"rnn": 2, "gru": 4, "gru_after": 2, "lstm": 3}  # vectors of a state's size in scratch, per sample


@dataclass(frozen=True)
class RecurrentSpec(KernelSpec):
    """Kernel of a cell with its activations. `first`: states (and an LSTM's cells) are given; `last`: how many last
    states are wanted; `ragged`: the hidden size is no multiple of the lanes; `lengths`: samples have lengths of their
    own, and `wide_lengths`: as int64, not int32.
    """

    cell: str
    activations: tuple[Activation, ...]
    rows: int
    units: tuple[int, ...]
    ragged: bool
    biased: bool
    first: tuple[bool, bool]
    last: int
    lengths: bool
    coupled: bool
    peepholes: bool
    clip: float
    cell_clip: float
    wide_lengths: bool

    @property
    def words(self) -> tuple[Parameter, ...]:
        names = ("y", "last_h", "last_c", "z", "r", "bias", "first_h", "first_c", "peepholes")
        strides = [f"{name}_{axis}" for name in STATE_NAMES for axis in ("direction", "batch")]
        numbers = (
            "steps",
            "batch",
            "tiles",
            "reverse",
            "hidden",
            "width",
            "r_direction",
            "z_step",
            "z_batch",
            "y_step",
            "y_direction",
            "y_batch",
            *strides,
            *(f"groups_{n}" for n in range(len(self.units))),
        )
        lengths = Parameter("lengths", I64 if self.wide_lengths else I32, pointer=True)
        return (*pointers_to(F32, *names), lengths, *pointers_to(I64, "noted"), *numbers_named(numbers))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        for item in k.range(k.begin, k.end):
            Sweep(self, k, item).emit()
        return k


STATE_NAMES = ("first_h", "first_c", "last_h", "last_c")


class Sweep:
    """Emitter of one item: a direction of a few samples, through all steps. `states`: where they wait, if not in
    scratch."""

    def __init__(self, spec: RecurrentSpec, k: Kernel, item: Value, states: Pointer | None = None) -> None:
        self.spec, self.k, self.lanes = spec, k, k.target.lanes()
        self.hidden, self.width, self.steps = k.number("hidden"), k.number("width"), k.number("steps")
        self.direction, self.tile = item // k.number("tiles"), item % k.number("tiles")
        # The last tile reaches back over samples of the one before: they get the same bits twice.
        begin, end = self.tile * spec.rows, k.number("batch") - spec.rows
        begin = k.select(begin < end, begin, end)
        self.samples = [begin + row for row in range(spec.rows)]
        self.backwards = (self.direction + k.number("reverse")) > 0
        gates = GATES[spec.cell]
        self.weights = k.pointer("r") + self.direction * k.number("r_direction")
        self.inputs = k.pointer("z") + self.direction * self.hidden * gates
        self.biases = k.pointer("bias") + self.direction * self.hidden * (2 * gates)
        self.holes = k.pointer("peepholes") + self.direction * self.hidden * 3
        self.outputs = k.pointer("y") + self.direction * k.number("y_direction")
        self.slot = self.width * spec.rows
        self.states = k.scratch.cast(F32) if states is None else states
        self.extra = [self.states + self.slot * (2 + n) for n in range(STATES[spec.cell] - 2)]
        self.lengths: list[Value] = []

    def emit(self) -> None:
        self.start()
        for step in self.k.range(0, self.steps):
            self.step(step)
        self.finish()

    def step(self, step: Value) -> None:
        """Compute the new states of one step."""
        self.at(step).emit()

    def at(self, step: Value) -> Moment:
        """Return the emitter of one step."""
        times = self.times(step)
        odd = step & 1
        now, new = self.states + self.slot * odd, self.states + self.slot * (1 - odd)
        return self.moment(times, now, new, self.running(step, times))

    def times(self, step: Value) -> list[Value]:
        """Return for each sample the place in its sequence that a step is about."""
        time = self.k.select(self.backwards, self.steps - 1 - step, step)
        return [time] * self.spec.rows

    def running(self, step: Value, times: Sequence[Value]) -> list[Value]:
        """Return for each sample that has a length whether the step is within it."""
        return [time < length for time, length in zip(times, self.lengths, strict=False)]

    def moment(self, times: Sequence[Value], now: Pointer, new: Pointer, running: Sequence[Value]) -> Moment:
        return Moment(self, times, now, new, running)

    def finish(self) -> None:
        """Store the last states."""
        final = self.states + self.slot * (self.steps & 1)
        for name, source in zip(("last_h", "last_c"), (final, *self.extra), strict=False):
            if self.spec.last > STATE_NAMES.index(name) - 2:
                for column, row, mask in self.blocks():
                    value = self.final(name, source, row, column, mask)
                    self.state(name, row).store(value, column, mask)

    def final(self, name: str, source: Pointer, row: int, column: Value, mask: Value | None) -> Value:
        """Return a vector of a sample's last state or cell, which lies in scratch."""
        return (source + self.width * row + column).load(0, self.lanes)

    def state(self, name: str, row: int) -> Pointer:
        """Address of a sample's state in memory of the program."""
        k = self.k
        offset = self.direction * k.number(f"{name}_direction") + self.samples[row] * k.number(
            f"{name}_batch"
        )
        return k.pointer(name) + offset

    def start(self) -> None:
        """Copy first states into scratch; load lengths, which are noted where they are out of range."""
        k, spec = self.k, self.spec
        places = (self.states, self.extra[0]) if spec.cell == "lstm" else (self.states,)
        for is_given, name, place in zip(spec.first, STATE_NAMES, places, strict=False):
            for column, row, mask in self.blocks():
                value = k.constant(F32, 0.0, self.lanes)
                if is_given:
                    value = self.state(name, row).load(column, self.lanes, mask)
                (place + self.width * row + column).store(value)
        self.read_lengths()
        for sample, length in zip(self.samples, self.lengths, strict=False):
            noted = k.pointer("noted") + (self.direction * k.number("batch") + sample) * 2
            bad = (length < 0) | (length > self.steps)
            noted.store(k.select(bad, k.integer(1), k.integer(0)))
            noted.store(length, 1)

    def read_lengths(self) -> None:
        """Load the samples' lengths, where they have some."""
        if self.spec.lengths:
            self.lengths = [self.k.pointer("lengths").load(sample).to(I64) for sample in self.samples]

    def blocks(self) -> Iterator[tuple[Value, int, Value | None]]:
        """Yield for each vector of hidden units (emitted) and sample (unrolled) its start and its mask."""
        for column in self.k.range(0, self.width, self.lanes):
            mask = self.mask(column)
            for row in range(self.spec.rows):
                yield column, row, mask

    def mask(self, column: Value) -> Value | None:
        """Mask of the lanes of hidden units from a column on; None where all are."""
        return self.k.tail_mask(self.hidden - column, self.lanes) if self.spec.ragged else None


class Moment:
    """Emitter of one step of one item. `forgets`: the state of a sample past its end becomes zeros, not its last."""

    forgets: ClassVar[bool] = False

    def __init__(
        self, sweep: Sweep, times: Sequence[Value], now: Pointer, new: Pointer, running: Sequence[Value]
    ) -> None:
        self.sweep, self.k, self.now, self.new = sweep, sweep.k, now, new
        self.running, self.lanes, self.spec = running, sweep.lanes, sweep.spec
        self.inputs, self.outputs = [], []
        for time, sample in zip(times, sweep.samples, strict=True):
            z = time * self.k.number("z_step") + sample * self.k.number("z_batch")
            y = time * self.k.number("y_step") + sample * self.k.number("y_batch")
            self.inputs.append(sweep.inputs + z)
            self.outputs.append(sweep.outputs + y)

    def emit(self) -> None:
        for phase in range(len(self.spec.units)):
            for group in self.k.range(0, self.k.number(f"groups_{phase}")):
                self.group(phase, group)

    def group(self, phase: int, group: Value) -> None:
        """Compute what a phase makes of a group of hidden units."""
        sweep, phases = self.sweep, phases_of(self.spec.cell)
        units, gates, earlier = self.spec.units[phase], len(phases[phase]), sum(map(len, phases[:phase]))
        sums = self._sums(phase, group, sweep.hidden * sweep.width * earlier)
        for unit in range(units):
            column = (group * units + unit) * self.lanes
            mask = sweep.mask(column)
            for row in range(self.spec.rows):
                totals = [sums[n * units + unit][row] for n in range(gates)]
                _Cell(self, column, row, mask).emit(phase, totals)

    def _sums(self, phase: int, group: Value, before: Value) -> list[list[Value]]:
        """Multiply a group's weights by the state; per vector (gates, then units) and sample. `before`: the elements of
        earlier phases."""
        sweep, vectors = self.sweep, len(phases_of(self.spec.cell)[phase]) * self.spec.units[phase]
        source = sweep.extra[1] if phase else self.now
        slab = sweep.hidden * (vectors * self.lanes)
        return self._products(sweep.weights + (group * slab + before), source, vectors)

    def _products(self, weights: Pointer, state: Pointer, vectors: int) -> list[list[Value]]:
        """Sum over the state, per vector of the group and sample, part by part."""
        sums = []
        for part in parts_of(vectors, self.spec.rows, self.k.target.registers):
            before = self.sweep.hidden * (part.start * self.lanes)
            sums += self._part(weights + before, state, len(part))
        return sums

    def _part(self, weights: Pointer, state: Pointer, vectors: int) -> list[list[Value]]:
        """Sum over the state in chains of at most FAST_TERMS."""
        k, rows, hidden = self.k, range(self.spec.rows), self.sweep.hidden
        zero = k.constant(F32, 0.0, self.lanes)
        sums = [[k.variable(zero) for _ in rows] for _ in range(vectors)]
        starts = [state + self.sweep.width * row for row in rows]
        for first in k.range(0, hidden, FAST_TERMS):
            chains = [[k.variable(zero) for _ in rows] for _ in range(vectors)]
            for at in k.range(first, k.min_drop_nan(first + FAST_TERMS, hidden)):
                place = at * (vectors * self.lanes)
                load = [partial(weights.load, place + n * self.lanes, self.lanes) for n in range(vectors)]
                fill = [partial(start.broadcast, at, self.lanes) for start in starts]
                for vector, row, weight, value in _pairs(load, fill):
                    chain = chains[vector][row]
                    chain.value = k.fma(weight, value, chain.value)
            for totals, added in zip(sums, chains, strict=True):
                for total, chain in zip(totals, added, strict=True):
                    total.value = total.value + chain.value
        return [[total.value for total in each] for each in sums]


def _pairs(
    load: Sequence[Callable[[], Value]], fill: Sequence[Callable[[], Value]]
) -> Iterator[tuple[int, int, Value, Value]]:
    """Yield each vector and row with its weight and its value. Those of which there are fewer stay in registers."""
    if len(load) <= len(fill):
        weights = [each() for each in load]
        for row, each in enumerate(fill):
            value = each()
            yield from ((vector, row, weight, value) for vector, weight in enumerate(weights))
    else:
        values = [each() for each in fill]
        for vector, each in enumerate(load):
            weight = each()
            yield from ((vector, row, weight, value) for row, value in enumerate(values))


class _Cell:
    """Emitter of one vector of hidden units of one sample at one step."""

    def __init__(self, moment: Moment, column: Value, row: int, mask: Value | None) -> None:
        self.moment, self.sweep, self.k, self.spec = moment, moment.sweep, moment.k, moment.spec
        self.column, self.row, self.mask, self.lanes = column, row, mask, moment.lanes
        self.hidden = self.sweep.hidden

    def emit(self, phase: int, sums: list[Value]) -> None:
        kind = self.spec.cell
        if kind == "rnn":
            self._finish(self._apply(0, self._input(0) + self._state_bias(sums[0], 0)))
        elif kind == "lstm":
            self._lstm(sums)
        elif kind == "gru_after":
            update, reset = self._gates(sums)
            fresh = self._apply(1, self._input(2) + reset * self._state_bias(sums[2], 2))
            self._mix(update, fresh)
        elif phase == 0:
            update, reset = self._gates(sums)
            self._place(self.sweep.extra[0]).store(update)
            self._place(self.sweep.extra[1]).store(reset * self._old())
        else:
            update = self._place(self.sweep.extra[0]).load(0, self.lanes)
            self._mix(update, self._apply(1, self._input(2) + self._state_bias(sums[0], 2)))

    def _gates(self, sums: list[Value]) -> list[Value]:
        """Compute a GRU's update and reset gate."""
        return [self._apply(0, self._input(gate) + self._state_bias(sums[gate], gate)) for gate in (0, 1)]

    def _mix(self, update: Value, fresh: Value) -> None:
        self._finish((1.0 - update) * fresh + update * self._old())

    def _lstm(self, sums: list[Value]) -> None:
        spec, cells = self.spec, self._place(self.sweep.extra[0])
        totals = [self._input(gate) + self._state_bias(sums[gate], gate) for gate in range(4)]
        old = cells.load(0, self.lanes)
        opened = self._apply(0, self._through(totals[0], 0, old))
        kept = 1.0 - opened if spec.coupled else self._apply(0, self._through(totals[2], 2, old))
        cell = kept * old + opened * self._apply(1, totals[3])
        if spec.cell_clip > 0:
            cell = clamp(self.k, cell, -spec.cell_clip, spec.cell_clip)
        shown = self._apply(0, self._through(totals[1], 1, cell))
        cells.store(self._kept(cell, old))
        self._finish(shown * spec.activations[2].emit(self.k, cell))  # not clipped, as in ONNX Runtime

    def _through(self, total: Value, hole: int, cell: Value) -> Value:
        """Add the cell's contribution through a peephole."""
        if not self.spec.peepholes:
            return total
        return total + self._parameter(self.sweep.holes, hole) * cell

    def _finish(self, state: Value) -> None:
        """Store the new state to scratch and to the output: zeros past the end of a sample."""
        k, shown = self.k, state
        if self.moment.running:
            zero = k.constant(F32, 0.0, self.lanes)
            shown = k.select(self.moment.running[self.row], state, zero)
            state = shown if self.moment.forgets else self._kept(state, self._old())
        self._place(self.moment.new).store(state)
        self.moment.outputs[self.row].store(shown, self.column, self.mask)

    def _kept(self, new: Value, old: Value) -> Value:
        running = self.moment.running
        return self.k.select(running[self.row], new, old) if running else new

    def _old(self) -> Value:
        return self._place(self.moment.now).load(0, self.lanes)

    def _place(self, states: Pointer) -> Pointer:
        return states + self.sweep.width * self.row + self.column

    def _input(self, gate: int) -> Value:
        """Load the input's product and add its bias. Lanes past the last unit hold unrelated data: nothing reads
        them."""
        value = (self.moment.inputs[self.row] + self.hidden * gate).load(self.column, self.lanes)
        return value + self._parameter(self.sweep.biases, gate) if self.spec.biased else value

    def _state_bias(self, total: Value, gate: int) -> Value:
        if not self.spec.biased:
            return total
        return total + self._parameter(self.sweep.biases, GATES[self.spec.cell] + gate)

    def _parameter(self, source: Pointer, index: int) -> Value:
        return (source + self.hidden * index).load(self.column, self.lanes, self.mask)

    def _apply(self, index: int, value: Value) -> Value:
        """Apply a gate's activation, after clipping."""
        if self.spec.clip > 0:
            value = clamp(self.k, value, -self.spec.clip, self.spec.clip)
        return self.spec.activations[index].emit(self.k, value)
