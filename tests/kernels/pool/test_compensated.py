"""Sums of windows in float64, and those that keep what each addition loses: terms that cancel, in every algorithm."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from cenote.core.target import Target
from cenote.core.types import Array
from cenote.ops.pool.adaptive import AdaptiveAveragePool
from cenote.ops.pool.algorithms import WINDOWS
from tests.harness import lowerings_of, run_lowering
from tests.kernels.pool_oracle import LAYOUTS, geometry, run_pool
from tests.targets import TARGETS, over_targets, target_name

NAMES = [each.name for each in WINDOWS]
EXACT_IN = {np.float32: 2.0**-24, np.float64: 2.0**-53}
CASES = [
    geometry((1, 9, 40), (1, 2, 2), (1, 2, 2)),
    geometry((1, 9, 37), (1, 3, 3), pads=((0, 0), (1, 1), (1, 1))),
    geometry((1, 20, 19), (1, 5, 4), (1, 3, 3), (1, 2, 2)),
    geometry((1, 12, 50), (1, 11, 17), (1, 1, 1), pads=((0, 0), (5, 5), (8, 8))),
    geometry((4, 7, 21), (3, 3, 3), (1, 2, 2), pads=((1, 1), (1, 1), (1, 0))),
    geometry((1, 3, 90), (1, 1, 9), (1, 1, 5)),
]


def cancelling(shape: tuple[int, ...], dtype: type, seed: int = 0) -> Array:
    """Small whole numbers among large ones, of which most windows hold the negative too."""
    generator = np.random.default_rng(seed)
    x = generator.integers(-9, 10, shape).astype(dtype)
    large = {np.float32: 2.0**26, np.float64: 2.0**56}[dtype]  # type: ignore[index]
    x[..., ::5] += np.where(np.arange(x[..., ::5].shape[-1]) % 2, dtype(-large), dtype(large))
    return x


@cache
def case(number: int, dtype: type) -> tuple[Array, Array, Array]:
    """A tensor for one of CASES, and of each window the exact sum (`math.fsum`), and that of absolute values."""
    g = CASES[number]
    x = cancelling((1, 3, *g.size), dtype, number)
    sums = np.empty((*x.shape[:2], *g.out))
    sizes = np.empty_like(sums)
    for place in np.ndindex(*g.out):
        taps = [
            [
                t
                for i in range(g.window[a])
                if 0 <= (t := o * g.stride[a] - g.pad[a] + i * g.dilation[a]) < g.size[a]
            ]
            for a, o in enumerate(place)
        ]
        for image in np.ndindex(*x.shape[:2]):
            terms = x[image][np.ix_(*taps)].ravel().astype(np.float64)
            sums[(*image, *place)] = math.fsum(terms)
            sizes[(*image, *place)] = math.fsum(np.abs(terms))
    return x, sums, sizes


def check(y: Array, sums: Array, sizes: Array, dtype: type, terms: int) -> None:
    """Rounded once, but for what is lost of the losses."""
    unit = EXACT_IN[dtype]
    bound = 2 * unit * np.abs(sums) + (2 * terms * unit) ** 2 * sizes
    error = np.abs(y.astype(np.float64) - sums)
    assert (error <= bound).all(), f"{(error / bound).max():.3g} times the bound"


@pytest.mark.parametrize(("dtype", "target"), over_targets([(np.float32,), (np.float64,)]), ids=target_name)
def test_what_additions_lose_is_kept(dtype: type, target: Target) -> None:
    for number, g in enumerate(CASES):
        x, *want = case(number, dtype)
        for layout in LAYOUTS:
            found = [
                run_pool(x, g, "sum", target, layout=layout, accumulate="compensated", chunk=chunk)
                for chunk in (0, 1)
            ]
            check(found[0], *want, dtype, math.prod(g.window))
            np.testing.assert_array_equal(*found)
        plain = run_pool(x, g, "sum", target)
        assert (plain != found[0]).any(), "a plain sum would do: the case shows nothing"


@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_adds_up_in_float64(name: str) -> None:
    """Whole numbers below 2^53 are exact there: the same as `math.fsum`, rounded once."""
    for number, g in enumerate(CASES):
        x, want, _ = case(number, np.float32)
        layout = LAYOUTS[(number + NAMES.index(name)) % 3]
        y = run_pool(x, g, "sum", TARGETS[0], layout=layout, algorithm=name, accumulate="float64")
        np.testing.assert_array_equal(y, want.astype(np.float32))


@pytest.mark.parametrize("accumulate", ["float64", "compensated"])
@pytest.mark.parametrize("channels_last", [False, True])
def test_means_of_ranges(channels_last: bool, accumulate: str) -> None:
    x = cancelling((2, 3, 11, 23), np.float32)
    op = AdaptiveAveragePool((3, 4), channels_last, accumulate=accumulate)
    given = np.ascontiguousarray(np.moveaxis(x, 1, -1)) if channels_last else x
    for lowering in lowerings_of(op, (given,), TARGETS[0], True):
        (y,) = run_lowering(op, lowering, (given,), TARGETS[0])
        y = np.moveaxis(y, -1, 1) if channels_last else y
        for place in np.ndindex(*y.shape):
            (top, bottom), (left, right) = (
                (o * n // out, -(-(o + 1) * n // out))
                for o, n, out in zip(place[2:], (11, 23), (3, 4), strict=True)
            )
            terms = [Fraction(float(v)) for v in x[place[:2]][top:bottom, left:right].ravel()]
            mean = sum(terms) / len(terms)
            assert abs(Fraction(float(y[place])) - mean) <= abs(mean) / 2**22


def test_plain_sums_of_float64_are_what_they_were() -> None:
    """float64 in float64 is the default, by the same kernels."""
    for g in CASES[1:4:2]:
        x = np.random.default_rng(0).standard_normal((1, 4, *g.size))
        plain, wide = (run_pool(x, g, "sum", TARGETS[0], accumulate=how) for how in (None, "float64"))
        np.testing.assert_array_equal(plain, wide)
