"""Division with a remainder, against exact fractions: what floor_divide, remainder, fmod and div say of one another."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.types import BFLOAT16, Array
from cenote.ops.values import seeded

TYPES = (np.float64, np.float32, np.float16, BFLOAT16)
INF, NAN = math.inf, math.nan
# (a, b, a // b) where the exact quotient does not say it: IEEE 754 and the rules of NumPy, Python and PyTorch.
SPECIAL = [
    (5.0, 0.1, 49.0), (-5.0, 0.1, -50.0), (1.0, 0.1, 9.0), (-1.0, INF, -1.0), (1.0, -INF, -1.0), (-1.0, -INF, 0.0),
    (1.0, INF, 0.0), (0.0, INF, 0.0), (-0.0, INF, -0.0), (0.0, -INF, -0.0), (INF, 2.0, NAN), (-INF, 2.0, NAN),
    (INF, INF, NAN), (INF, 0.0, INF), (INF, -0.0, -INF), (1.0, 0.0, INF), (1.0, -0.0, -INF), (-1.0, 0.0, -INF),
    (0.0, 0.0, NAN), (-0.0, 0.0, NAN), (NAN, 1.0, NAN), (1.0, NAN, NAN), (NAN, INF, NAN), (-0.0, 3.0, -0.0),
    (0.0, -3.0, -0.0), (-0.5, -3.0, 0.0),
]  # fmt: skip


def numbers(count: int, dtype: Any) -> Array:
    """Numbers of a type from 2^-9 to 2^9, and the least and largest of the type."""
    scale = np.exp2(seeded((count,), 2, np.float64) * 3)
    made = (seeded((count,), 1, np.float64) * scale).astype(dtype)
    made[:3] = [1, -3, 0.1]
    return made


def rounded_down(a: Any, b: Any) -> int:
    """The exact quotient, rounded down."""
    return math.floor(Fraction(float(a)) / Fraction(float(b)))


@pytest.mark.parametrize("dtype", TYPES)
def test_floor_divide_is_the_exact_quotient_rounded_down(dtype: Any) -> None:
    a, b = numbers(150, dtype), numbers(83, dtype)[::-1]
    b = b[b != 0]
    got = F.floor_divide(a[:, None], b)
    want = np.array([[rounded_down(x, y) for y in b] for x in a])
    assert np.array_equal(got.astype(np.float64), want.astype(dtype).astype(np.float64))
    whole = F.floor_divide((a * 8).round()[:, None], np.asarray(np.arange(1, 9), dtype))
    exact = np.floor_divide((a * 8).round().astype(np.int64)[:, None], np.arange(1, 9))
    assert np.array_equal(whole.astype(np.float64), exact.astype(dtype).astype(np.float64))


@pytest.mark.parametrize("dtype", TYPES)
def test_special_quotients(dtype: Any) -> None:
    a, b, want = (np.array(column, np.float64).astype(dtype) for column in zip(*SPECIAL, strict=True))
    if dtype in (np.float16, BFLOAT16):
        want[:3] = [rounded_down(x, y) for x, y in zip(a[:3], b[:3], strict=True)]
    for got in (F.floor_divide(a, b), F.div(a, b, rounding_mode="floor"), F.fused(lambda x, y: x // y)(a, b)):
        assert got.dtype == dtype
        got, shown = got.astype(np.float64), want.astype(np.float64)
        np.testing.assert_array_equal(got, shown)
        assert np.array_equal(np.signbit(got)[~np.isnan(shown)], np.signbit(shown)[~np.isnan(shown)])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_quotients_that_float64_rounds_up(dtype: Any) -> None:
    """a is a little less than a multiple of b, by a relative distance that no quotient of the type shows."""
    b = np.abs(seeded((500,), 4, dtype)) + dtype(0.5)
    a = np.nextafter(b * np.arange(3, 503).astype(dtype), dtype(0))
    got = F.floor_divide(a, b)
    assert got.tolist() == [rounded_down(x, y) for x, y in zip(a, b, strict=True)]
    tiny = np.array([-np.finfo(dtype).tiny, np.finfo(dtype).tiny], dtype)
    assert F.floor_divide(tiny, np.array(np.finfo(dtype).max, dtype)).tolist() == [-1, 0]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_number_is_its_quotient_and_its_remainder(dtype: Any) -> None:
    a, b = numbers(90, dtype), numbers(40, dtype)[::-1, None]
    b = np.where(b == 0, dtype(1), b)
    quotient, left, cut = F.floor_divide(a, b), F.remainder(a, b), F.fmod(a, b)
    for place in np.ndindex(quotient.shape):
        x, y = Fraction(float(a[place[1]])), Fraction(float(b[place[0], 0]))
        assert Fraction(float(cut[place])) == x - math.trunc(x / y) * y
        exact = x - int(quotient[place]) * y
        assert exact == 0 or (exact > 0) == (y > 0)
        assert abs(exact) < abs(y)
        assert dtype(float(exact)) == left[place]


def test_remainders_of_all_quotients_are_exact() -> None:
    """Beside C's fmod, through NumPy: quotients up to 2^277, infinities, zeros, NaN."""
    random = np.random.default_rng(4)
    a, b = random.integers(0, 1 << 32, (2, 200_000), np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        near = (a * random.random(a.size) * 2.0 ** -random.integers(0, 80, a.size)).astype(np.float32)
    ends = np.array([0.0, -0.0, 1e-45, -1e-45, 1.0, -3.4e38, 3.4e38, np.inf, -np.inf, np.nan], np.float32)
    crossed = np.repeat(ends, ends.size), np.tile(ends, ends.size)
    with np.errstate(all="ignore"):
        for x, y in ((a, b), (a, near), crossed):
            wanted, found = np.fmod(x, y), F.fmod(x, y)
            np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
            at = ~np.isnan(wanted)
            np.testing.assert_array_equal(found[at].view(np.uint32), wanted[at].view(np.uint32))
