"""Loops of a product of bytes on tile registers (AMX): positions are copied to scratch, and multiplied from there,
exactly.

    item = group, band of positions, part of the filters                 emitted
      for entries that are copied at once:                               emitted, mostly all
        for position of the band: copy its bytes, 64 to an entry
        for 32 filters of the part:
          for 32 positions of the band:
            for entry: 2 x 2 tiles of sums += positions x filters
            behind the last entry, for position: write what its sums become

Positions that fill the last 32 are copies of the last one, whose results are not written. Where a position has more
bytes than scratch should hold of 32 (half of the level 2 cache), its sums are kept while the rest is copied; whole
numbers add up to the same in any order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from cenote.codegen.builder import Kernel
from cenote.codegen.tiles import ROW, Tiles, clear_square, load_square, multiply_square, store_square
from cenote.codegen.values import I32, Pointer, Value
from cenote.kernels.quantized.tile_cut import ENTRY, FILTERS, SIDE, SUMS


class TileLoops(ABC):
    """Emitter of the loops. Scratch holds sums, then `place_bytes` for each position of a band, then copies. Rows of
    weights are `weight_pitch` bytes apart, as in `multiply_square`."""

    place_bytes = 0
    weight_pitch = ROW

    def __init__(self, k: Kernel, registers: Tiles) -> None:
        self.k, self.registers = k, registers
        kept = k.number("kept")
        self.held = k.scratch.cast(I32)
        sums = k.select(kept.equals(0), k.integer(SUMS), kept * k.number("part_steps"))
        self.places = k.scratch + sums * 4
        self.copies = self.places + k.number("band") * (SIDE * self.place_bytes)

    def run(self) -> None:
        k, n = self.k, self.k.number
        for item in k.range(k.begin, k.end):
            part, rest = item % n("parts"), item // n("parts")
            band = rest % n("bands")
            weights = self.enter(rest // n("bands"))
            begin = band * n("band")
            count = k.min_drop_nan(n("band"), n("steps") - begin)
            first = part * n("part_steps")
            last = k.min_drop_nan(first + n("part_steps"), n("filter_steps"))
            for entry in k.range(0, n("entries"), n("chunk")):
                end = k.min_drop_nan(entry + n("chunk"), n("entries"))
                for place in k.range(0, count * SIDE):
                    position = k.min_drop_nan(begin * SIDE + place, n("positions") - 1)
                    to = place // SIDE * n("chunk") * ENTRY + place % SIDE * ROW
                    self.copy(position, place, self.copies + to, entry, end)
                for filters in k.range(first, last):
                    held = self.held + (filters - first) * n("kept")
                    for step in k.range(0, count):
                        self.multiply(step, weights + filters * n("entries") * ENTRY, held, entry, end)
                        with k.when(end.equals(n("entries"))):
                            self.finish_step(begin, step, held, filters)

    def multiply(self, step: Value, weights: Pointer, held: Pointer, entry: Value, end: Value) -> None:
        """Store the sums of 32 positions for 32 filters, up to the entry `end`."""
        k, t = self.k, self.registers
        rows = self.copies + step * k.number("chunk") * ENTRY
        is_first = entry.equals(0)
        with k.when(is_first):
            clear_square(t)
        with k.unless(is_first):
            load_square(t, held)
        for each in k.range(entry, end):
            x, w = rows + (each - entry) * ENTRY, weights + each * ENTRY
            for _ in multiply_square(t, x, w, self.weight_pitch):
                pass
        store_square(t, held)

    def finish_step(self, begin: Value, step: Value, held: Pointer, filters: Value) -> None:
        """Write the results of 32 positions for 32 filters, as far as there are so many."""
        k = self.k
        for at in k.range(0, SIDE):
            place = step * SIDE + at
            position = begin * SIDE + place
            with k.when(position < k.number("positions")):
                self.finish(position, place, held + at * FILTERS, filters)

    @abstractmethod
    def enter(self, group: Value) -> Pointer:
        """Begin with a group, and return its weights."""

    @abstractmethod
    def copy(self, position: Value, place: Value, to: Pointer, entry: Value, end: Value) -> None:
        """Copy a position's bytes of entries `entry` to `end`, which are ENTRY bytes apart in scratch. `place`: its
        number in the band."""

    @abstractmethod
    def finish(self, position: Value, place: Value, sums: Pointer, filters: Value) -> None:
        """Write what a position's sums for step `filters` of the filters become."""
