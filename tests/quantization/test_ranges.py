"""Ranges beside what searching them by brute force finds."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from cenote.core.errors import ArgumentError
from cenote.quantization.histogram import Histogram
from cenote.quantization.ranges import METHODS, RangeChoice, ValueRange, divergence
from cenote.quantization.scales import ByteLevels


def seen(*arrays: np.ndarray) -> Histogram:
    histogram = Histogram()
    for each in arrays:
        histogram.add(each.astype(np.float32))
    return histogram


def numbers(kind: str) -> np.ndarray:
    generator = np.random.default_rng(3)
    return {
        "normal": lambda: generator.standard_normal(20_000),
        "tailed": lambda: generator.standard_t(2.5, 20_000),
        "rectified": lambda: np.maximum(generator.standard_t(3, 20_000), 0),
        "negative": lambda: -np.abs(generator.standard_normal(20_000)) - 0.5,
        "positive": lambda: 3 + generator.standard_normal(20_000) ** 2,
        "outlier": lambda: np.append(generator.standard_normal(20_000), 50),
    }[kind]()


KINDS = ("normal", "tailed", "rectified", "negative", "positive", "outlier")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_range_has_zero_in_it_and_is_inside_of_what_was_seen(kind: str, method: str) -> None:
    x = numbers(kind).astype(np.float32)
    found = RangeChoice(method).of(seen(x))
    assert min(x.min(), 0) <= found.least <= 0 <= found.largest <= max(x.max(), 0)
    assert found.least < found.largest


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("content", [[0.0], [0.0, 5.0], [-1e-42], [3e38, -3e38], [7.0] * 9])
def test_few_numbers(content: list[float], method: str) -> None:
    x = np.array(content, np.float32)
    found = RangeChoice(method).of(seen(x))
    assert (found.least, found.largest) == (min(x.min(), 0), max(x.max(), 0))


def test_minmax_is_exact() -> None:
    x = numbers("tailed").astype(np.float32)
    assert RangeChoice("minmax").of(seen(x)) == ValueRange(float(x.min()), float(x.max()))


@pytest.mark.parametrize("percentile", [99.0, 99.9])
@pytest.mark.parametrize("kind", KINDS)
def test_percentiles_are_those_of_numpy_within_a_bin(kind: str, percentile: float) -> None:
    x = numbers(kind).astype(np.float32)
    histogram = seen(x)
    found = RangeChoice("percentile", percentile).of(histogram)
    cut = (100 - percentile) / 2
    low, high = np.percentile(x, [cut, 100 - cut], method="closest_observation")
    # One number more or less may be on the other side of an edge.
    spread = float(histogram.width + 3 * np.diff(np.sort(x))[[0, 1, -2, -1]].max())
    assert found.least == pytest.approx(min(low, 0), abs=spread)
    assert found.largest == pytest.approx(max(high, 0), abs=spread)


def loss(x: np.ndarray, range_: ValueRange) -> float:
    """The mean square of what rounding and clipping do to numbers."""
    return float(np.square(ByteLevels.of(range_).rounded(x.astype(np.float32)) - x).mean())


@pytest.mark.parametrize("kind", KINDS)
def test_mse_is_as_good_as_the_best_of_many_ranges(kind: str) -> None:
    x = numbers(kind).astype(np.float32)
    found = RangeChoice("mse").of(seen(x))
    shares = np.linspace(0.02, 1, 40)
    low, high = min(x.min(), 0), max(x.max(), 0)
    lows = low * shares if low else [0.0]
    highs = high * shares if high else [0.0]
    best = min(loss(x, ValueRange(float(a), float(b))) for a, b in itertools.product(lows, highs))
    assert loss(x, found) <= 1.02 * best


def divergence_of(counts: list[int], low: int, high: int) -> float:
    """The same in plain loops."""
    inside = counts[low:high]
    p = [*inside]
    p[0] += sum(counts[:low])
    p[-1] += sum(counts[high:])
    levels: dict[int, list[int]] = {}
    for place in range(len(inside)):
        levels.setdefault(place * 256 // len(inside), []).append(place)
    q = [0.0] * len(inside)
    for places in levels.values():
        used = [place for place in places if p[place]]
        for place in used:
            q[place] = sum(inside[each] for each in places) / len(used)
    total, kept, bins = sum(p), sum(inside), sum(1 for each in p if each)
    lost = 0.0
    for mine, theirs in zip(p, q, strict=True):
        if mine:
            other = 0.9999 * theirs / kept + 0.0001 / bins
            lost += mine / total * math.log(mine / total / other)
    return lost


@pytest.mark.parametrize("window", [(0, 900), (200, 700), (100, 400)])
def test_the_divergence_is_that_of_plain_loops(window: tuple[int, int]) -> None:
    counts = np.random.default_rng(1).integers(0, 30, 900) * (np.random.default_rng(2).random(900) > 0.3)
    assert divergence(counts, *window) == pytest.approx(divergence_of(counts.tolist(), *window), rel=1e-9)


def test_entropy_takes_the_window_that_diverges_least() -> None:
    histogram = seen(numbers("outlier"))
    found = RangeChoice("entropy").of(histogram)
    assert 2.5 < found.largest < 25, "the outlier makes the steps too wide"


def test_entropy_clips_few_numbers() -> None:
    x = np.random.default_rng(0).standard_t(3, 100_000)  # heavy tails: without the bound 4.3e-4 are outside
    found = RangeChoice("entropy").of(seen(x))
    assert ((x < found.least) | (x > found.largest)).mean() <= 1e-4


def test_a_spike_does_not_draw_the_range_of_entropy_in() -> None:
    x = np.abs(np.random.default_rng(0).standard_normal(50_000))
    spiked = np.append(x, np.full(50_000, 0.3))
    free, drawn = (RangeChoice("entropy").of(seen(each)).largest for each in (x, spiked))
    assert drawn > 0.7 * free


@pytest.mark.parametrize("wrong", [{"method": "max"}, {"method": "minmax", "percentile": 40},
                                   {"method": "percentile", "percentile": True}])  # fmt: skip
def test_wrong_choices(wrong: dict[str, object]) -> None:
    with pytest.raises(ArgumentError):
        RangeChoice(**wrong)  # type: ignore[arg-type]
