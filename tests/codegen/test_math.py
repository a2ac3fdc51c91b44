"""Transcendental functions of generated code against NumPy's and Python's in float64: dense samplings, all targets."""

from __future__ import annotations

import math as exact
from collections.abc import Callable

import numpy as np
import pytest

from cenote.codegen import math
from cenote.codegen.values import F64
from cenote.core.target import Target
from cenote.core.types import Array
from tests.codegen.numbers import SPECIAL, run, ulps
from tests.targets import TARGETS


def dense(low: float, high: float, count: int = 200_000, dtype: type = np.float32) -> Array:
    """Even steps, random steps, and random bit patterns within the range."""
    generator = np.random.default_rng(1)
    even = np.linspace(low, high, count)
    bits = generator.integers(0, 2**32, 2 * count, dtype=np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        wild = bits[(bits >= low) & (bits <= high)]
    tiny = generator.uniform(-1, 1, count // 4) * 10.0 ** generator.uniform(-44, 0, count // 4)
    tiny = tiny[(tiny >= low) & (tiny <= high)]
    return np.concatenate([even, wild, tiny, SPECIAL]).astype(dtype)


def vectorized(function: Callable[[float], float]) -> Callable[[Array], Array]:
    return np.vectorize(function, otypes=[np.float64])


def sigmoid(x: Array) -> Array:
    return np.where(x < 0, np.exp(-np.abs(x)), 1.0) / (1.0 + np.exp(-np.abs(x)))


FUNCTIONS = [
    (math.exp, np.exp, (-110.0, 95.0), 1.5),
    (math.expm1, np.expm1, (-110.0, 95.0), 2.0),
    (math.exp2, np.exp2, (-155.0, 130.0), 1.5),
    (math.log, np.log, (-1.0, 3.4e38), 1.5),
    (math.log2, np.log2, (-1.0, 3.4e38), 1.5),
    (math.log10, np.log10, (-1.0, 3.4e38), 1.5),
    (math.log1p, np.log1p, (-1.1, 3.4e38), 1.5),
    (math.tanh, np.tanh, (-12.0, 12.0), 2.5),
    (math.sigmoid, sigmoid, (-110.0, 30.0), 2.1),
    (
        math.softplus,
        lambda x: np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))),
        (-110.0, 110.0),
        2.0,
    ),
    (math.erf, vectorized(exact.erf), (-5.0, 5.0), 1.5),
]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize(
    ("emit", "wanted", "bounds", "limit"), FUNCTIONS, ids=lambda x: getattr(x, "__name__", "")
)
def test_whole_range(target, emit, wanted, bounds, limit) -> None:  # type: ignore[no-untyped-def]
    x = dense(*bounds)
    with np.errstate(all="ignore"):
        truth = wanted(x.astype(np.float64))
    got = run(emit, [x], target)
    assert ulps(got, truth) <= limit
    one_by_one = run(emit, [x], target, lanes=1)
    assert ulps(one_by_one, truth) <= limit
    # Which elements stand alone depends on where arrays begin in memory.
    assert np.array_equal(one_by_one, got, equal_nan=True)
    wide = run(emit, [x], target, lanes=2 * target.lanes())
    assert np.array_equal(wide, got, equal_nan=True)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_exp_falling(target: Target) -> None:
    for low, high, limit in ((-15.0, 0.0, 3.0), (-87.0, -15.0, 7.0)):  # below, results are flushed to zero
        x = dense(low, high)
        x = x[(x >= low) & (x <= high)]
        assert ulps(run(math.exp_falling, [x], target), np.exp(x.astype(np.float64))) <= limit
    special = np.array([0.0, -0.0, -200.0, -np.inf, np.nan], np.float32)
    assert np.array_equal(run(math.exp_falling, [special], target), [1, 1, 0, 0, np.nan], equal_nan=True)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize(("bounds", "limit"), [((-15.0, 100.0), 4.0), ((-80.0, -15.0), 6.0)])
def test_swish(target: Target, bounds: tuple[float, float], limit: float) -> None:
    x = dense(*bounds)
    x = x[(x >= bounds[0]) & (x <= bounds[1])]  # below, results are flushed to zero
    truth = x * sigmoid(x.astype(np.float64))
    assert ulps(run(math.swish, [x], target), truth) <= limit


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_gelu(target: Target) -> None:
    x = dense(-30.0, 30.0)
    x = x[np.abs(x) <= 30.0]
    wide = x.astype(np.float64)
    truth = wide * vectorized(exact.erfc)(wide * -(0.5**0.5)) / 2
    error = np.abs(run(math.gelu, [x], target) - truth)
    assert (error <= 1.1e-7 * np.abs(wide) + 1e-44)[x < 0].all()
    assert (error <= 8e-6 * np.abs(truth) + 1e-44)[(x < 0) & (x > -4)].all()
    assert (error <= 2.5e-7 * np.abs(truth) + 1e-44)[x >= 0].all()
    special = np.array([0.0, 1e30, np.inf, -1e30, -np.inf, np.nan], np.float32)
    wanted = np.array([0.0, 1e30, np.inf, 0.0, np.nan, np.nan], np.float32)
    assert np.array_equal(run(math.gelu, [special], target), wanted, equal_nan=True)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize(("emit", "wanted", "bounds"), [
    (math.exp, np.exp, (-750.0, 715.0)), (math.log, np.log, (-1.0, 1.7e308)), (math.expm1, np.expm1, (-60.0, 715.0)),
], ids=["exp", "log", "expm1"])  # fmt: skip
def test_double(target, emit, wanted, bounds) -> None:  # type: ignore[no-untyped-def]
    x = np.concatenate([dense(*bounds, dtype=np.float64), [1e-310, 5e-324, 2.3e-308]])
    with np.errstate(all="ignore"):
        truth = wanted(x.astype(np.longdouble)) if np.finfo(np.longdouble).nmant > 52 else wanted(x)
        got = run(emit, [x], target, F64)
        assert ulps_of_double(got, truth) <= 2.5


def ulps_of_double(got: Array, truth: Array) -> float:
    rounded = truth.astype(np.float64)
    assert np.array_equal(np.isnan(got), np.isnan(rounded))
    assert np.array_equal(got[np.isinf(rounded)], rounded[np.isinf(rounded)])
    finite = np.isfinite(rounded)
    error = np.abs(got[finite].astype(truth.dtype) - truth[finite]) / np.spacing(np.abs(rounded[finite]))
    return float(error.max())


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_power(target: Target) -> None:
    generator = np.random.default_rng(3)
    x = np.concatenate([generator.uniform(0, 4, 100_000), 10.0 ** generator.uniform(-44, 38, 100_000)])
    y = np.concatenate([generator.uniform(-60, 60, 100_000), generator.uniform(-3, 3, 100_000)])
    grid = [
        *SPECIAL,
        2.0,
        -2.0,
        3.0,
        -3.0,
        0.75,
        -0.5,
        2.0**23 + 1,
        -(2.0**24 - 1),
        2.0**24,
        1e30,
        0.99999994,
    ]
    corner = np.array(np.meshgrid(grid, grid)).reshape(2, -1)
    x, y = (np.concatenate([a, b]).astype(np.float32) for a, b in zip((x, y), corner, strict=True))
    with np.errstate(all="ignore"):
        truth = np.power(x.astype(np.float64), y.astype(np.float64))
    got = run(math.power, [x, y], target)
    assert ulps(got, truth) <= 1.0
    assert np.array_equal(np.signbit(got)[~np.isnan(got)], np.signbit(truth)[~np.isnan(truth)])


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_signed_zero_and_whole_powers(target: Target) -> None:
    x = np.array([-0.0, 0.0], np.float32)
    for emit in (math.expm1, math.tanh, math.erf):
        assert np.array_equal(np.signbit(run(emit, [x], target)), [True, False]), emit.__name__
    whole = np.arange(-149, 128, dtype=np.float32)
    assert np.array_equal(run(math.exp2, [whole], target), np.ldexp(np.float32(1), whole.astype(int)))


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_logarithms_of_powers(target: Target) -> None:
    twos = np.arange(-149, 128)
    assert np.array_equal(run(math.log2, [np.ldexp(np.float32(1), twos)], target), twos)
    tens = np.arange(11)  # those that float32 has
    assert np.array_equal(run(math.log10, [np.float32(10.0) ** tens.astype(np.float32)], target), tens)
    assert np.signbit(run(math.log1p, [np.array([-0.0], np.float32)], target)).all()
