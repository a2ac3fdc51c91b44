"""Recurrent weights as kernels read them: a step streams them once, in one run."""

from __future__ import annotations

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, Pointer, Value
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.types import Array
from cenote.kernels.base import KernelSpec, numbers_named, pointers_to

GATES = {"rnn": 1, "gru": 3, "gru_after": 3, "lstm": 4}
# Most samples of an item: each weight that is loaded serves all of them. 5, 6 and 8 are no faster (6 to 64 samples of
# 128 and 256 units, AVX2: 0.92 to 1.13 of the time).
ROWS = 4
_SUMS = 8  # approximate number of vectors of sums at a time: as many as hide the latency of a multiply-add


def phases_of(cell: str) -> tuple[tuple[int, ...], ...]:
    """Return the gates whose products a step computes together. A plain GRU's candidate needs the reset gate first."""
    return ((0, 1), (2,)) if cell == "gru" else (tuple(range(GATES[cell])),)


def units_of(gates: int, rows: int, blocks: int) -> int:
    """Return the number of vectors of hidden units that go together: a divisor of all of them."""
    most = max(1, _SUMS // (gates * rows))
    return max(units for units in range(1, min(most, blocks) + 1) if blocks % units == 0)


def parts_of(vectors: int, rows: int, registers: int) -> list[range]:
    """Return the parts of a group's vectors whose sums go together: as many as have registers for the sums of all
    samples, beside one weight each or one value of each sample, and one of the other.

    With 16 registers an LSTM of four samples has two parts, and a step reads each from memory in one run: 8 samples of
    256 units, 100 steps, take 9.1 ms in place of 18.3 (all together; 10.6 where parts lie beside each other). Eight
    vectors in parts of 3, 3 and 2 are no faster, although those have more sums under way.
    """
    count = 1
    while count < vectors:
        most = -(-vectors // count)
        if most * rows + min(most, rows) + 1 <= registers:
            break
        count += 1
    size = -(-vectors // count)
    return [range(first, min(first + size, vectors)) for first in range(0, vectors, size)]


@dataclass(frozen=True)
class Packing:
    """Layout of recurrent weights (directions, gates * hidden, hidden) for the kernel.

    Per direction and phase: [group][part of (gate, unit)][hidden][gate and unit][lane]; lanes past the last hidden unit
    hold zeros. `registers`: of the machine.
    """

    cell: str
    hidden: int
    rows: int
    lanes: int
    registers: int

    @property
    def blocks(self) -> int:
        return -(-self.hidden // self.lanes)

    @property
    def width(self) -> int:
        """Number of elements of a state in scratch."""
        return self.blocks * self.lanes

    @property
    def units(self) -> tuple[int, ...]:
        return tuple(units_of(len(gates), self.rows, self.blocks) for gates in phases_of(self.cell))

    @property
    def size(self) -> int:
        """Number of elements of one direction."""
        return GATES[self.cell] * self.width * self.hidden

    def pack(self, r: Array) -> Array:
        """Pack constant weights."""
        gates, size = GATES[self.cell], self.hidden
        filled = np.zeros((len(r), gates, self.width, size), np.float32)
        filled[:, :, :size] = r.reshape(len(r), gates, size, size)
        parts = []
        for direction in filled:
            for chosen, units in zip(phases_of(self.cell), self.units, strict=True):
                split = direction[list(chosen)].reshape(len(chosen), -1, units, self.lanes, size)
                vectors = split.transpose(1, 0, 2, 4, 3).reshape(split.shape[1], -1, size, self.lanes)
                ends = parts_of(vectors.shape[1], self.rows, self.registers)
                runs = [vectors[:, part.start : part.stop].swapaxes(1, 2) for part in ends]
                parts.append(np.concatenate([run.reshape(len(run), -1) for run in runs], axis=1).ravel())
        return np.concatenate(parts)


@dataclass(frozen=True)
class PackRecurrent(KernelSpec):
    """Kernel that packs weights known only when the program runs; an item is a group of a phase of a direction."""

    chosen: tuple[int, ...]
    units: int
    lanes: int
    rows: int

    @property
    def words(self) -> tuple[Parameter, ...]:
        numbers = ("hidden", "groups", "r_direction", "y_direction")
        return (*pointers_to(F32, "y", "r"), *numbers_named(numbers))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        hidden, groups = k.number("hidden"), k.number("groups")
        vectors = len(self.chosen) * self.units
        for item in k.range(k.begin, k.end):
            direction, group = item // groups, item % groups
            y = k.pointer("y") + (
                direction * k.number("y_direction") + group * hidden * (vectors * self.lanes)
            )
            r = k.pointer("r") + direction * k.number("r_direction")
            for part in parts_of(vectors, self.rows, target.registers):
                for vector in part:
                    number, unit = divmod(vector, self.units)
                    to = y + (hidden * (part.start * self.lanes) + (vector - part.start) * self.lanes)
                    first = (group * self.units + unit) * self.lanes
                    self._vector(
                        k, r + hidden * hidden * self.chosen[number], to, first, len(part) * self.lanes
                    )
        return k

    def _vector(self, k: Kernel, r: Pointer, y: Pointer, first: Value, step: int) -> None:
        """Pack the weights of the hidden units from `first` on, a vector of them, to one gate."""
        hidden = k.number("hidden")
        for lane in k.range(0, self.lanes):
            inside = first + lane < hidden
            row = r + k.select(inside, first + lane, k.integer(0)) * hidden
            for column in k.range(0, hidden):
                value = k.select(inside, row.load(column), k.constant(F32, 0.0))
                y.store(value, column * step + lane)
