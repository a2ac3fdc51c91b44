"""Tables of 256 bytes that are looked up by the bytes of a vector.

"avx512vbmi" is the extension whose VPERMI2B chooses among 128 bytes: two of them, and the highest bit of the index says
which. "shuffle" takes sixteenths of the table through VPSHUFB, which chooses among 16 bytes and gives 0 where the
highest bit of the index is set. A sixteenth holds what differs from the one before it (exclusive or), and 16 is taken
off the indices each time: those that have become negative keep what they have. "loads" reads byte by byte, in vectors
of one.
"""

from __future__ import annotations

from cenote.codegen.builder import Kernel
from cenote.codegen.values import I8, I64, U8, Pointer, Value
from cenote.core.target import LOADS, SHUFFLE

ENTRIES = 256
_PART = 16  # entries among which VPSHUFB chooses
_VPERMI2B = "llvm.x86.avx512.vpermi2var.qi.512"
_VPSHUFB = {64: "llvm.x86.avx512.pshuf.b.512", 32: "llvm.x86.avx2.pshuf.b"}  # by lanes


class ByteLookup:
    """Emitter of look-ups in one kernel, in vectors of `lanes` bytes. `way` is that of the target."""

    def __init__(self, k: Kernel, way: str, table: Pointer, lanes: int) -> None:
        self.k, self.way, self.table, self.lanes = k, way, table, lanes
        if way not in (SHUFFLE, LOADS):
            k.extend(way)
        self.parts = self._loaded()

    def _loaded(self) -> list[Value]:
        """Load the table as `chosen` needs it."""
        k, lanes = self.k, self.lanes
        if self.way == LOADS:
            return []
        if self.way != SHUFFLE:
            return [self.table.load(place, lanes).bits(I8) for place in range(0, ENTRIES, lanes)]
        parts = [self.table.load(place, _PART) for place in range(0, ENTRIES, _PART)]
        halves = (parts[: len(parts) // 2], parts[len(parts) // 2 :])
        steps = [
            part if before is None else part ^ before
            for half in halves
            for before, part in zip((None, *half), half, strict=False)
        ]
        return [k.shuffle(step, step, [*range(_PART)] * (lanes // _PART)).bits(I8) for step in steps]

    def chosen(self, x: Value) -> Value:
        """Return the entries at the places x (u8, as many as lanes)."""
        if self.way == LOADS:
            return self.table.load(x.to(I64))
        k = self.k
        index = x.bits(I8)
        if self.way != SHUFFLE:
            low, high = (
                k.call(_VPERMI2B, I8, self.lanes, [first, index, second])
                for first, second in (self.parts[:2], self.parts[2:])
            )
            return k.select(index < 0, high, low).bits(U8)
        half = len(self.parts) // 2
        return (self._half(index, self.parts[:half]) | self._half(index ^ -128, self.parts[half:])).bits(U8)

    def _half(self, index: Value, parts: list[Value]) -> Value:
        """Return the entries of one half of the table, 0 where the index lies in the other."""
        k, step = self.k, self.k.constant(I8, _PART, self.lanes)
        total: Value | None = None
        for place, part in enumerate(parts):
            if place:
                index = k.intrinsic("ssub.sat", index, step)
            chosen = k.call(_VPSHUFB[self.lanes], I8, self.lanes, [part, index])
            total = chosen if total is None else total ^ chosen
        assert total is not None
        return total
