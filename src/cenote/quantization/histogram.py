"""Histograms of a value's numbers on calibration data, whose bins double their width when the numbers need it.

A bin is [k * width, (k + 1) * width) with a width that is a power of two, so bins of one width join two by two into
bins of the next. The width is the smallest at which the bins between the least and the largest number are at most
`MOST_BINS`; it follows from these two alone. The counts are therefore the same in whatever parts and order the numbers
come, and one histogram serves all methods of choosing a range.
"""

from __future__ import annotations

import math

import numpy as np

from cenote.core.types import Array

MOST_BINS = 4096
# Widths below have no reciprocal in float64.
_LEAST_EXPONENT = -1000
# Binary digits of a number that the first bins tell apart. Two numbers of float32 differ in the first 24, and need
# wider bins: so where there are two, the width does not depend on this.
_FINEST = 40


class Histogram:
    """Counts of the numbers seen so far, their least and their largest, and how many are exactly zero.

    Zeros are counted apart, not in a bin: every scale represents them exactly. `exponent`: of the bins' width;
    `first`: index k of the first bin; `counts`: numbers in it and in those behind it.
    """

    def __init__(self) -> None:
        self.least, self.largest = math.inf, -math.inf
        self.zeros = 0
        self.infinite = False
        self.exponent, self.first = _LEAST_EXPONENT, 0
        self.counts = np.zeros(0, np.int64)

    @property
    def width(self) -> float:
        """Width of a bin."""
        return math.ldexp(1.0, self.exponent)

    @property
    def count(self) -> int:
        """The number of all numbers seen."""
        return int(self.counts.sum()) + self.zeros

    def edges(self) -> Array:
        """Return the edges of the bins in float64, one more than there are bins."""
        return np.arange(self.first, self.first + len(self.counts) + 1) * self.width

    def add(self, numbers: Array) -> None:
        """Count the numbers of an array of floats. NaN and infinities are not counted: `infinite` says that there were
        some."""
        flat = numbers.ravel()
        if not flat.size:
            return
        least, largest = float(flat.min()), float(flat.max())
        if not (math.isfinite(least) and math.isfinite(largest)):
            self.infinite = True
            flat = flat[np.isfinite(flat)]
            if not flat.size:
                return
            least, largest = float(flat.min()), float(flat.max())
        self.least, self.largest = min(self.least, least), max(self.largest, largest)
        zeros = flat.size - int(np.count_nonzero(flat))
        self.zeros += zeros
        if zeros == flat.size:
            return
        if zeros:
            flat = flat[flat != 0]
            least, largest = float(flat.min()), float(flat.max())
        self._cover(least, largest)
        # Products by powers of two are exact in float64, so no number is in a wrong bin.
        bins = np.floor(flat.astype(np.float64) * math.ldexp(1.0, -self.exponent)).astype(np.int64)
        self.counts += np.bincount(bins - self.first, minlength=len(self.counts))

    def _cover(self, least: float, largest: float) -> None:
        """Widen and add bins until these numbers, which are not zero, are in some."""
        exponent = self.exponent
        if self.counts.size:
            least = min(least, self.first * self.width)
            # The last bin itself, not its edge, must fit.
            largest = max(largest, (self.first + len(self.counts) - 1) * self.width)
        else:
            span = max(abs(least), abs(largest))
            exponent = max(_LEAST_EXPONENT, math.frexp(span)[1] - _FINEST)
        while _bin(largest, exponent) - _bin(least, exponent) >= MOST_BINS:
            exponent += 1
        first, last = _bin(least, exponent), _bin(largest, exponent)
        counts = np.zeros(last - first + 1, np.int64)
        if self.counts.size:
            old = np.arange(self.first, self.first + len(self.counts))
            np.add.at(counts, (old >> (exponent - self.exponent)) - first, self.counts)
        self.exponent, self.first, self.counts = exponent, first, counts


def _bin(number: float, exponent: int) -> int:
    return math.floor(math.ldexp(number, -exponent))
