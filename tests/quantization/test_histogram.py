"""Histograms whose bins widen: the counts are those of all numbers at once, in whatever parts they come."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cenote.quantization.histogram import MOST_BINS, Histogram

floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
parts = st.lists(st.lists(floats, max_size=8), min_size=1, max_size=6)


def histogram(*arrays: list[float]) -> Histogram:
    made = Histogram()
    for each in arrays:
        made.add(np.array(each, np.float32))
    return made


@given(parts, st.randoms())
def test_parts_and_their_order_do_not_matter(given: list[list[float]], random: object) -> None:
    whole = histogram([number for part in given for number in part])
    shuffled = [*given]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    made = histogram(*shuffled)
    assert (made.least, made.largest, made.zeros) == (whole.least, whole.largest, whole.zeros)
    if len({number for part in given for number in part if number}) > 1:
        assert (made.exponent, made.first) == (whole.exponent, whole.first)
        np.testing.assert_array_equal(made.counts, whole.counts)


@given(parts)
def test_bins_have_the_numbers_in_them(given: list[list[float]]) -> None:
    numbers = [float(np.float32(number)) for part in given for number in part]
    made = histogram(*given)
    used = [number for number in numbers if number]
    assert made.count == len(numbers)
    assert made.zeros == len(numbers) - len(used)
    assert len(made.counts) <= MOST_BINS
    for k, count in enumerate(made.counts.tolist()):
        low = (made.first + k) * made.width
        assert count == sum(low <= number < low + made.width for number in used) or count == 0 == len(used)
        if k > 20:
            break
    if len(set(used)) > 1:
        # The next narrower bins would be too many.
        finer = made.exponent - 1
        wanted = math.floor(math.ldexp(max(used), -finer)) - math.floor(math.ldexp(min(used), -finer))
        assert wanted >= MOST_BINS


def test_numbers_that_are_not_finite_are_told_and_not_counted() -> None:
    made = histogram([1.0, math.nan, 2.0], [math.inf])
    assert made.infinite
    assert made.count == 2
    assert (made.least, made.largest) == (1.0, 2.0)


@pytest.mark.parametrize("content", [[], [[]], [[0.0, -0.0]]])
def test_nothing_but_zeros(content: list[list[float]]) -> None:
    made = histogram(*content)
    assert not made.infinite
    assert made.count == made.zeros == sum(map(len, content))
    assert not made.counts.size
