"""Sums over any axes that keep what each addition loses (`kernels.compensated`).

As reduce.py, without partial results: every vector is added to a total of two numbers, of which four run side by side
along a row. Pieces leave both, the sums before what they lost, and the launch that joins them adds all up.
"""

from __future__ import annotations

from cenote.codegen.builder import Kernel
from cenote.codegen.values import Pointer, Value
from cenote.core.deferred import dataclass
from cenote.kernels.compensated import Compensated
from cenote.kernels.reduction.reduce import WIDE, Places, ReduceSpec

PARTS = 2  # numbers of a total


@dataclass(frozen=True)
class ReduceCompensatedSpec(ReduceSpec):
    """Kernel of one of SUMS, of floats."""

    def _run(
        self, k: Kernel, x: Pointer, span: tuple[Value, Value], shift: Value | None
    ) -> tuple[Value, ...]:
        lanes, outside = self.lanes, self.reduced - 1
        totals = [Compensated(k, self.compute, lanes) for _ in range(WIDE)]
        single = Compensated(k, self.compute, 1)
        begin, end = span if not outside else (k.integer(0), k.number(f"extent_r{outside}"))
        for offset in self._outside(k, span, outside):
            row = x + offset
            wide = begin + (end - begin) // (WIDE * lanes) * (WIDE * lanes)
            for first in k.range(begin, wide, WIDE * lanes):
                for number, total in enumerate(totals):
                    total.add(self.term(k, row.load(first + number * lanes, lanes), None))
            whole = begin + (end - begin) // lanes * lanes
            for first in k.range(wide, whole, lanes):
                totals[0].add(self.term(k, row.load(first, lanes), None))
            for place in k.range(whole, end):
                single.add(self.term(k, row.load(place), None))
        joined = totals[0]
        for total in totals[1:]:
            joined.add(*total.parts())
        single.add(*self._folded(k, joined).parts())
        return single.parts()

    def _folded(self, k: Kernel, total: Compensated) -> Compensated:
        """Add the lanes of a total by halves."""
        while total.sum.value.lanes > 1:
            half = total.sum.value.lanes // 2
            low, high = (
                [k.shuffle(value, value, range(first, first + half)) for value in total.parts()]
                for first in (0, half)
            )
            total = Compensated(k, self.compute, half)
            total.start(*low)
            total.add(*high)
        return total

    def _block(
        self, k: Kernel, starts: Places, lanes: int, mask: Value | None, span: tuple[Value, Value]
    ) -> None:
        y, x, _ = starts
        totals = [Compensated(k, self.compute, lanes) for _ in range(self.width)]
        last = self.reduced - 1
        begin, end = span if not last else (k.integer(0), k.number(f"extent_r{last}"))
        for offset in self._outside(k, span, last):
            for row in k.range(begin, end):
                source = x + (offset + row * k.number(f"stride_r{last}"))
                for number, total in enumerate(totals):
                    total.add(self.term(k, source.load(number * lanes, lanes, mask), None))
        for number, total in enumerate(totals):
            self._write(k, y, total.parts(), None, number * lanes, mask)

    def _write(
        self,
        k: Kernel,
        y: Pointer,
        total: tuple[Value, ...],
        shift: Value | None,
        place: int,
        mask: Value | None,
    ) -> None:
        if self.finish:
            whole = total[0].to(self.total) + total[1].to(self.total)  # float64: rounded once, at the end
            super()._write(k, y, (whole,), None, place, mask)
            return
        apart = k.number("pieces") * k.number("piece_stride")
        for number, value in enumerate(total):
            (y + apart * number).store(value.to(y.element), place, mask)
