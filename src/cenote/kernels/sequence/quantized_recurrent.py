"""An LSTM whose states are rounded to bytes before they are multiplied by weights of bytes.

    for item (a direction):                                              emitted
        for step:                                                        emitted
            the least and the largest number of all samples' states
            the states as bytes, with their sums where weights have zero points
            for tile of samples, group of hidden units:                  emitted
                for four units of the state before:                      emitted
                    their products with the weights of the group         unrolled
                the sums as floats, the cell: as in `recurrent.py`       unrolled

All samples of a direction share the range that their states are rounded by, so an item is all of them. Where samples
have lengths, all begin in the first step, backwards too, and the state of one past its end is zeros.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.dots import BYTES, Dots, arranged
from cenote.codegen.values import F32, I8, I32, I64, U8, Pointer, Value
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.types import FLOAT32, Array
from cenote.kernels.base import pointers_to
from cenote.kernels.elementwise.functions import FORMULAS
from cenote.kernels.sequence.recurrent import STATES, Moment, RecurrentSpec, Sweep
from cenote.kernels.sequence.recurrent_weights import GATES, Packing

_LARGEST = 255  # number of a byte


@dataclass(frozen=True)
class QuantizedPacking(Packing):
    """Layout of recurrent weights of bytes.

    Per direction: [group][four of the hidden][gate][unit][lane][one of the four], zeros past the last one. What there
    is one of per column lies in memory as [gate][width].
    """

    dots: str

    @property
    def size(self) -> int:
        """Number of bytes of one direction."""
        return GATES[self.cell] * self.width * (-(-self.hidden // BYTES) * BYTES)

    def pack(self, r: Array) -> Array:
        """Pack s8 weights (directions, hidden, gates * hidden)."""
        gates, size, (units,) = GATES[self.cell], self.hidden, self.units
        fours = -(-size // BYTES)
        filled = np.zeros((len(r), fours * BYTES, gates, self.width), np.int8)
        filled[:, :size, :, :size] = r.reshape(len(r), size, gates, size)
        split = filled.reshape(len(r), fours, BYTES, gates, -1, units, self.lanes)
        return arranged(split.transpose(0, 4, 1, 3, 5, 6, 2), self.dots).astype(np.int8).ravel()

    def by_column(self, values: Array) -> Array:
        """Numbers (directions, gates * hidden) as the kernel reads them."""
        gates = GATES[self.cell]
        filled = np.zeros((len(values), gates, self.width), values.dtype)
        filled[:, :, : self.hidden] = values.reshape(len(values), gates, self.hidden)
        return filled.ravel()


@dataclass(frozen=True)
class QuantizedRecurrentSpec(RecurrentSpec):
    """Kernel of an LSTM. `dots`: the way of `codegen.dots`; `zeros`: weights have zero points."""

    dots: str
    zeros: bool

    @property
    def words(self) -> tuple[Parameter, ...]:
        plain = tuple(
            Parameter("r", I8, pointer=True) if word.name == "r" else word for word in super().words
        )
        return (*plain, *pointers_to(F32, "r_scales"), *pointers_to(I32, "r_sums", "r_zeros"))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        tiles = k.number("tiles")
        for direction in k.range(k.begin, k.end):
            first = direction * tiles
            for tile in k.range(0, tiles):
                _Tile(self, k, first + tile).start()
            for step in k.range(0, k.number("steps")):
                rounding = _Rounding(self, k, step)
                for tile in k.range(0, tiles):
                    _Tile(self, k, first + tile, rounding).step(step)
            for tile in k.range(0, tiles):
                _Tile(self, k, first + tile).finish()
        return k


def scratch_bytes(rows: int, width: int, tiles: int) -> int:
    """Size of the scratch of a direction: states and cells as floats, the states as bytes, their sums."""
    return tiles * rows * (STATES["lstm"] * width * FLOAT32.itemsize + width + 4)


class _Tile(Sweep):
    """Emitter of a few samples of a direction, which share scratch with the others."""

    def __init__(
        self, spec: QuantizedRecurrentSpec, k: Kernel, item: Value, rounding: _Rounding | None = None
    ) -> None:
        super().__init__(spec, k, item)
        offset = self.tile * (self.slot * STATES[spec.cell])
        self.states, self.extra = self.states + offset, [each + offset for each in self.extra]
        self.quantized, self.rounding = spec, rounding
        if spec.lengths:
            self.lengths = [self._length(sample) for sample in self.samples]

    def _length(self, sample: Value) -> Value:
        """Return the length of a sample, within 0 and the number of steps (`start` notes one that is not)."""
        k = self.k
        length = k.pointer("lengths").load(sample).to(I64)
        length = k.select(length < self.steps, length, self.steps)
        return k.select(length > 0, length, k.integer(0))

    def times(self, step: Value) -> list[Value]:
        if not self.lengths:
            return super().times(step)
        mirrored = [self.k.select(step < length, length - 1 - step, step) for length in self.lengths]
        return [self.k.select(self.backwards, time, step) for time in mirrored]

    def running(self, step: Value, times: Sequence[Value]) -> list[Value]:
        return [step < length for length in self.lengths]

    def moment(self, times: Sequence[Value], now: Pointer, new: Pointer, running: Sequence[Value]) -> Moment:
        return _Moment(self, times, now, new, running)

    def final(self, name: str, source: Pointer, row: int, column: Value, mask: Value | None) -> Value:
        """Return the last state of a sample with a length: what its result has for its last step."""
        if not self.lengths or name != "last_h":
            return super().final(name, source, row, column, mask)
        k, length = self.k, self.lengths[row]
        some = length > 0
        time = k.select(some & ~self.backwards, length - 1, k.integer(0))
        place = time * k.number("y_step") + self.samples[row] * k.number("y_batch")
        shown = (self.outputs + place).load(column, self.lanes, mask)
        first = k.constant(F32, 0.0, self.lanes)
        if self.spec.first[0]:
            first = self.state("first_h", row).load(column, self.lanes, mask)
        return k.select(some, shown, first)


class _Rounding:
    """Emitter of the states of all samples as bytes: the steps that just hold their range and 0, as
    DynamicQuantizeLinear has them."""

    def __init__(self, spec: QuantizedRecurrentSpec, k: Kernel, step: Value) -> None:
        self.spec, self.k, self.lanes = spec, k, k.target.lanes()
        self.width, self.rows = k.number("width"), k.number("tiles") * spec.rows
        self.slot = self.width * spec.rows
        self.floats = k.scratch.cast(F32) + self.slot * (step & 1)
        behind = self.rows * self.width * (STATES[spec.cell] * FLOAT32.itemsize)
        self.bytes = k.scratch.cast(U8) + behind
        self.sums = (self.bytes + self.rows * self.width).cast(I32)
        self.scale, self.zero = self._range()
        self._round()

    def _vectors(self) -> Iterator[tuple[Value, Value, Value, Value]]:
        """Yield each row, the place of a vector in it, and the vector, zeros past the last unit."""
        k, nothing = self.k, self.k.constant(F32, 0.0, self.lanes)
        for row in k.range(0, self.rows):
            tile, own = row // self.spec.rows, row % self.spec.rows
            source = self.floats + (tile * (self.slot * STATES[self.spec.cell]) + own * self.width)
            for column in k.range(0, self.width, self.lanes):
                inside = k.tail_mask(k.number("hidden") - column, self.lanes)
                yield row, column, inside, k.select(inside, source.load(column, self.lanes), nothing)

    def _range(self) -> tuple[Value, Value]:
        """Return the scale and the zero point. A state that is NaN makes the scale NaN, and so all products."""
        k, nothing = self.k, self.k.constant(F32, 0.0, self.lanes)
        low, high = k.variable(nothing), k.variable(nothing)
        for _, _, _, values in self._vectors():
            low.value, high.value = k.minimum(low.value, values), k.maximum(high.value, values)
        least, most = k.reduce(low.value, "minimum"), k.reduce(high.value, "maximum")
        scale = (most - least) / float(_LARGEST)
        scale = k.select(scale.equals(0.0), k.constant(F32, 1.0), scale)
        return scale, self._whole((0.0 - least) / scale, k.constant(I32, 0))

    def _whole(self, x: Value, zero: Value) -> Value:
        return FORMULAS["quantized"].emit(self.k, x, zero, 0, _LARGEST)

    def _round(self) -> None:
        k = self.k
        scale, zero = (k.splat(each, self.lanes) for each in (self.scale, self.zero))
        if self.spec.zeros:
            for row in k.range(0, self.rows):
                self.sums.store(k.constant(I32, 0), row)
        for row, column, inside, values in self._vectors():
            whole = self._whole(values / scale, zero)
            (self.bytes + row * self.width).store(whole.to(U8), column)
            if self.spec.zeros:
                counted = k.select(inside, whole, k.constant(I32, 0, self.lanes))
                self.sums.store(self.sums.load(row) + k.reduce(counted, "add"), row)


class _Moment(Moment):
    """Emitter of one step of a tile."""

    sweep: _Tile
    forgets = True

    def _sums(self, phase: int, group: Value, before: Value | int) -> list[list[Value]]:
        k, sweep, spec, rounding = self.k, self.sweep, self.sweep.quantized, self.sweep.rounding
        assert rounding is not None
        units, gates, rows = spec.units[phase], GATES[spec.cell], range(spec.rows)
        dots, vectors = Dots(k, spec.dots, self.lanes), gates * units
        step = vectors * self.lanes * BYTES
        fours = (sweep.hidden + (BYTES - 1)) // BYTES
        panel = sweep.weights + group * (fours * step)
        first = sweep.tile * spec.rows
        states = [rounding.bytes + (first + row) * sweep.width for row in rows]
        sums = [[k.variable(k.constant(I32, 0, self.lanes)) for _ in rows] for _ in range(vectors)]
        for four in k.range(0, fours):
            spread = [dots.spread(state + four * BYTES) for state in states]
            for vector, totals in enumerate(sums):
                weights = dots.weights(panel + (four * step + vector * self.lanes * BYTES))
                for total, x in zip(totals, spread, strict=True):
                    total.value = dots.added(total.value, x, weights)
        found = []
        for vector, totals in enumerate(sums):
            gate, unit = vector // units, vector % units
            column = (sweep.direction * gates + gate) * sweep.width + (group * units + unit) * self.lanes
            found.append(
                [self._scaled(rounding, total.value, column, first + row) for row, total in enumerate(totals)]
            )
        return found

    def _scaled(self, rounding: _Rounding, total: Value, column: Value, row: Value) -> Value:
        """Take off what zero points add, and return the products as floats."""
        k, lanes = self.k, self.lanes
        total = total - k.splat(rounding.zero, lanes) * k.pointer("r_sums").load(column, lanes)
        if self.sweep.quantized.zeros:
            total = total - k.pointer("r_zeros").load(column, lanes) * k.splat(rounding.sums.load(row), lanes)
        return total.to(F32) * (k.splat(rounding.scale, lanes) * k.pointer("r_scales").load(column, lanes))
