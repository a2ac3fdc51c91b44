"""Recurrent weights as kernels read them: a step streams them once, in one run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32
from cenote.core.target import Target
from cenote.core.types import Array
from cenote.kernels.base import KernelSpec, numbers_named, pointers_to

GATES = {"rnn": 1, "gru": 3, "gru_after": 3, "lstm": 4}
ROWS = 4  # most samples of an item: each weight that is loaded serves all of them
_SUMS = 8  # approximate number of vectors of sums at a time: as many as hide the latency of a multiply-add


def phases_of(cell: str) -> tuple[tuple[int, ...], ...]:
    """Return the gates whose products a step computes together. A plain GRU's candidate needs the reset gate first."""
    return ((0, 1), (2,)) if cell == "gru" else (tuple(range(GATES[cell])),)


def units_of(gates: int, rows: int, blocks: int) -> int:
    """Return the number of vectors of hidden units that go together: a divisor of all of them."""
    most = max(1, _SUMS // (gates * rows))
    return max(units for units in range(1, min(most, blocks) + 1) if blocks % units == 0)


@dataclass(frozen=True)
class Packing:
    """Layout of recurrent weights (directions, gates * hidden, hidden) for the kernel.

    Per direction and phase: [group][hidden][gate][unit][lane]; lanes past the last hidden unit hold zeros.
    """

    cell: str
    hidden: int
    rows: int
    lanes: int

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
                parts.append(split.transpose(1, 4, 0, 2, 3).ravel())
        return np.concatenate(parts)


@dataclass(frozen=True)
class PackRecurrent(KernelSpec):
    """Kernel that packs weights known only when the program runs; an item is a group of a phase of a direction."""

    chosen: tuple[int, ...]
    units: int
    lanes: int

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
            for number, gate in enumerate(self.chosen):
                for lane in k.range(0, self.units * self.lanes):
                    unit = group * (self.units * self.lanes) + lane
                    inside = unit < hidden
                    row = r + (k.select(inside, unit, k.integer(0)) + hidden * gate) * hidden
                    place = lane + number * self.units * self.lanes
                    for column in k.range(0, hidden):
                        value = k.select(inside, row.load(column), k.constant(F32, 0.0))
                        y.store(value, column * (vectors * self.lanes) + place)
        return k
