"""Ranges of values for 256 levels, out of their histograms: what lies outside is clipped.

minmax      the least and the largest number
percentile  the range that leaves (100 - percentile) / 2 % of the numbers outside on each side
mse         the range with the least expected square of rounding plus clipping
entropy     the range whose levels lose the least information (Kullback-Leibler), as in S. Migacz, 8-bit Inference
            with TensorRT, 2017: numbers outside count at the ends, each level's share is spread over its bins in use;
            at most one number in 10,000 is left outside

Every range has zero in it, so that padding and Relu are exact. Exact zeros cost nothing under any range and are left
out of `mse` and `entropy`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, shown
from cenote.core.types import Array
from cenote.quantization.histogram import Histogram

Method = Literal["minmax", "percentile", "entropy", "mse"]
METHODS: tuple[Method, ...] = get_args(Method)
LEVELS = 255  # steps between the least and the largest of 8 bits
# Bins that are looked at as ends of a range: more move a range by less than 1/512 of it.
_ENDS = 512
_WINDOWS = 256
# Share of the numbers that `entropy` clips at most. Counts do not see how far off a clipped number is: without this
# bound onet of MTCNN lost three fifths of a convolution's range. Errors of onet, the embedded network and centerface:
# 0.142, 0.059, 0.393 without it, 0.104, 0.018, 0.374 with 3e-4, 0.100, 0.013, 0.422 with 1e-4. ONNX Runtime's tool has
# 0.131, 0.017, 0.510.
_CLIPPED = 1e-4
# Share of an even distribution that is mixed in: what is clipped may lie where no number was.
_SMOOTH = 1e-4
# A bin is a spike that has so many times as many numbers as the mean of so many bins on each side.
_SPIKE, _AROUND = 4, 16


@dataclass(frozen=True)
class ValueRange:
    """Least and largest number that the levels represent; zero is between them or one of them."""

    least: float
    largest: float

    def joined(self, other: ValueRange) -> ValueRange:
        """Return the smallest range that has both in it."""
        return ValueRange(min(self.least, other.least), max(self.largest, other.largest))


@dataclass(frozen=True)
class RangeChoice:
    """A method, and the percentile of `percentile`. Raises ArgumentError."""

    method: Method
    percentile: float = 99.999

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ArgumentError(f"method: {shown(self.method)} is none of {', '.join(METHODS)}")
        given = self.percentile
        if isinstance(given, bool) or not isinstance(given, int | float) or not 50 < given <= 100:
            raise ArgumentError(f"percentile: {shown(given)} is no number above 50 and up to 100")

    def of(self, histogram: Histogram) -> ValueRange:
        """Return the range for the numbers of a histogram; from 0 to 0 where there is no other number."""
        whole = ValueRange(min(histogram.least, 0.0), max(histogram.largest, 0.0))
        if not histogram.counts.size:
            return ValueRange(0.0, 0.0)
        if self.method == "percentile":
            found = _percentile(histogram, self.percentile)
        elif self.method != "minmax":
            choose: dict[str, Callable[[Histogram], ValueRange]] = {"mse": _mse, "entropy": _entropy}
            found = choose[self.method](histogram)
        else:
            found = whole
        return ValueRange(max(found.least, whole.least), min(found.largest, whole.largest))


def _percentile(histogram: Histogram, percentile: float) -> ValueRange:
    edges, counts = histogram.edges(), histogram.counts
    cut = histogram.count * (100 - percentile) / 200
    below = np.concatenate([[0], np.cumsum(counts)])
    above = below[-1] - below
    least = np.max(edges, where=(edges <= 0) & (below <= cut), initial=min(edges[0], 0.0))
    largest = np.min(edges, where=(edges >= 0) & (above <= cut), initial=max(edges[-1], 0.0))
    if least == largest:  # so few numbers are not zero that all of them lie outside
        return ValueRange(min(edges[0], 0.0), max(edges[-1], 0.0))
    return ValueRange(float(least), float(largest))


def _mse(histogram: Histogram) -> ValueRange:
    """Return the range with the least error. An error is that of rounding, step^2 / 12 for each number inside, and that
    of clipping, from a number's bin's middle to the end of the range."""
    edges, counts = histogram.edges(), histogram.counts.astype(np.float64)
    middles = (edges[1:] + edges[:-1]) / 2
    # Sums over the bins before each edge: of counts, of numbers, of their squares.
    n, x, xx = (np.concatenate([[0.0], np.cumsum(counts * middles**power)]) for power in range(3))
    places = np.unique(np.linspace(0, len(counts), min(_ENDS, len(counts)) + 1).astype(np.int64))
    low = places[edges[places] <= 0] if edges[0] < 0 else np.zeros(1, np.int64)
    high = places[edges[places] >= 0] if edges[-1] > 0 else np.full(1, len(counts))
    least, largest = np.minimum(edges[low], 0.0), np.maximum(edges[high], 0.0)
    clipped_low = xx[low] - 2 * least * x[low] + least**2 * n[low]
    over_n, over_x, over_xx = (total[-1] - total[high] for total in (n, x, xx))
    clipped_high = over_xx - 2 * largest * over_x + largest**2 * over_n
    inside = n[high][None, :] - n[low][:, None]
    step = (largest[None, :] - least[:, None]) / LEVELS
    error = np.maximum(inside, 0) * step**2 / 12 + clipped_low[:, None] + clipped_high[None, :]
    row, column = np.unravel_index(int(np.argmin(error)), error.shape)
    return ValueRange(float(least[row]), float(largest[column]))


def _entropy(histogram: Histogram) -> ValueRange:
    """Return the range that loses the least information, among windows around zero that grow to both sides alike."""
    edges, counts = histogram.edges(), _without_spikes(histogram.counts)
    span = max(-histogram.first, histogram.first + len(counts))
    inside = np.concatenate([[0], np.cumsum(counts)])
    total = inside[-1]
    best, found = np.inf, ValueRange(min(edges[0], 0.0), max(edges[-1], 0.0))
    # From the widest to the narrowest: of windows that lose alike the widest stays.
    for half in np.unique(np.linspace(1, span, min(_WINDOWS, span)).astype(np.int64))[::-1]:
        low = max(0, -int(half) - histogram.first)
        high = min(len(counts), int(half) - histogram.first)
        if high - low <= LEVELS or total - inside[high] + inside[low] > _CLIPPED * total:
            break
        lost = divergence(counts, low, high)
        if lost < best:
            best, found = lost, ValueRange(min(float(edges[low]), 0.0), max(float(edges[high]), 0.0))
    return found


def _without_spikes(counts: Array) -> Array:
    """Return counts without spikes: bins above the mean of all bins count at most so many times what those around them
    do. One number that makes up a large part, what a convolution gives for an empty background, say, is exact enough
    under any scale; left in, it draws the range in until it has a level for itself. On the embedded network the first
    layer's range became a sixth, and the model lost 0.3 points of accuracy."""
    around = np.convolve(counts, np.ones(2 * _AROUND + 1), mode="same") - counts
    most = np.maximum(_SPIKE * around / (2 * _AROUND), counts.sum() / len(counts))
    return np.asarray(np.minimum(counts, np.ceil(most)), np.int64)


def divergence(counts: Array, low: int, high: int) -> float:
    """Return the Kullback-Leibler divergence, in nats, of counts clipped to the bins from `low` to `high` from what 256
    levels keep of them."""
    inside = counts[low:high].astype(np.float64)
    clipped = inside.copy()
    clipped[0] += counts[:low].sum()
    clipped[-1] += counts[high:].sum()
    level = np.arange(len(inside)) * (LEVELS + 1) // len(inside)
    used = clipped > 0
    mass = np.bincount(level, weights=inside, minlength=LEVELS + 1)
    bins = np.bincount(level, weights=used, minlength=LEVELS + 1)
    spread = (mass / np.maximum(bins, 1))[level][used]
    p, q = clipped[used] / clipped.sum(), spread / max(inside.sum(), 1)
    q = (1 - _SMOOTH) * q + _SMOOTH / len(q)
    return float(np.sum(p * np.log(p / q)))
