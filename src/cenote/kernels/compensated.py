"""Compensated sums: they keep what each addition loses, so that small terms survive where large ones cancel.

A total is two numbers, the sum and what its additions lost so far. Of two finite numbers the lost part is exact: the
larger one minus the rounded sum, plus the smaller one (A. Neumaier, "Rundungsfehleranalyse einiger Verfahren zur
Summation endlicher Summen", ZAMM 54, 1974; the order of operations is that of T. J. Dekker, 1971). Where the sum is
infinite or NaN the lost part is NaN, and does not count.
"""

from __future__ import annotations

from cenote.codegen.builder import Kernel
from cenote.codegen.values import Pointer, Scalar, Value
from cenote.codegen.variables import Variable


class Compensated:
    """A total that is added to."""

    def __init__(self, k: Kernel, type: Scalar, lanes: int) -> None:
        self.k = k
        self.sum: Variable = k.variable(k.constant(type, 0.0, lanes))
        self.lost: Variable = k.variable(k.constant(type, 0.0, lanes))

    def start(self, total: Value, lost: Value) -> None:
        """Continue from a total that was kept."""
        self.sum.value, self.lost.value = total, lost

    def add(self, term: Value, lost: Value | None = None) -> None:
        """Add a number, or another total."""
        k, total = self.k, self.sum.value
        result = total + term
        larger = k.absolute(total) >= k.absolute(term)
        high, low = k.select(larger, total, term), k.select(larger, term, total)
        rest = (high - result) + low
        self.sum.value = result
        self.lost.value = self.lost.value + (rest if lost is None else rest + lost)

    def parts(self) -> tuple[Value, Value]:
        """Return the sum, and the correction to add to it: 0 where the sum is no finite number."""
        k, total = self.k, self.sum.value
        finite = k.absolute(total) < float("inf")
        return total, k.select(finite, self.lost.value, k.constant(total.type, 0.0, total.lanes))

    def result(self) -> Value:
        """Return the sum with its correction."""
        total, lost = self.parts()
        return total + lost

    def load(self, rows: tuple[Pointer, Pointer], place: Value, lanes: int) -> None:
        """Continue from the total that `store` kept."""
        self.start(*(row.load(place, lanes) for row in rows))

    def store(self, rows: tuple[Pointer, Pointer], place: Value) -> None:
        """Keep the total as it is."""
        for row, value in zip(rows, (self.sum.value, self.lost.value), strict=True):
            row.store(value, place)
