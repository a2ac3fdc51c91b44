"""`accumulate`: averages, sums, means and norms of floats added up in float64, or keeping what each addition loses."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import ArgumentError, DTypeError
from cenote.core.types import BFLOAT16, Array

MODES = ("float64", "compensated")
MEANS: dict[str, Callable[..., Any]] = {
    # functions of one row of numbers that give one mean
    "avg_pool1d": lambda x, **how: F.avg_pool1d(x.reshape(1, 1, -1), x.size, **how),
    "avg_pool2d": lambda x, **how: F.avg_pool2d(x.reshape(1, 1, -1, 2), (x.size // 2, 2), **how),
    "avg_pool3d": lambda x, **how: F.avg_pool3d(x.reshape(1, 1, 2, -1, 2), (2, x.size // 4, 2), **how),
    "channels last": lambda x, **how: F.avg_pool1d(x.reshape(1, -1, 1), x.size, layout="NLC", **how),
    "adaptive_avg_pool1d": lambda x, **how: F.adaptive_avg_pool1d(x.reshape(1, 1, -1), 1, **how),
    "adaptive_avg_pool2d": lambda x, **how: F.adaptive_avg_pool2d(x.reshape(1, 1, 2, -1), 1, **how),
    "adaptive_avg_pool3d": lambda x, **how: F.adaptive_avg_pool3d(x.reshape(1, 1, 2, 2, -1), 1, **how),
    "global_avg_pool": lambda x, **how: F.global_avg_pool(x.reshape(1, 1, 2, -1), **how),
    "mean": lambda x, **how: F.mean(x, **how),
    "mean of columns": lambda x, **how: F.mean(np.stack([x, x[::-1]], 1), 0, **how)[:1],
}
NORMS: dict[str, Callable[..., Any]] = {
    "lp_pool1d": lambda x, p, **how: F.lp_pool1d(x.reshape(1, 1, -1), p, x.size, **how),
    "lp_pool2d": lambda x, p, **how: F.lp_pool2d(x.reshape(1, 1, 2, -1), p, (2, x.size // 2), **how),
    "lp_pool3d": lambda x, p, **how: F.lp_pool3d(x.reshape(1, 1, 2, 2, -1), p, (2, 2, x.size // 4), **how),
    "global_lp_pool": lambda x, p, **how: F.global_lp_pool(x.reshape(1, 1, 2, -1), p, **how),
    "norm": lambda x, p, **how: F.norm(x, p, **how),
}


def item(y: Any) -> float:
    return float(np.asarray(y).reshape(-1)[0])


def distributions(dtype: type, count: int) -> Iterator[tuple[str, Array]]:
    """Ten kinds of terms, within the range that sums of a type of these take."""
    rng, unit = np.random.default_rng(5), float(np.finfo(dtype).eps)
    signs = np.where(np.arange(count) % 2, -1.0, 1.0)
    yield "equal", np.full(count, 0.1)
    yield "uniform", rng.uniform(0, 1, count)
    yield "normal", rng.normal(size=count)
    yield "lognormal", rng.lognormal(0, 3, count)
    yield "alternating", signs * rng.uniform(1, 1.001, count)
    yield "falling", 1.0 / np.arange(1, count + 1)
    yield "rising", np.arange(1.0, count + 1)
    yield "far mean", rng.normal(size=count) + 2 / unit**0.5
    yield "cancelling", np.where(np.arange(count) % 3, rng.uniform(0, 1, count), signs / unit * 8)
    yield "small", rng.normal(size=count) * 1e-30


def near(y: float, want: Fraction, size: Fraction, dtype: type, how: str) -> bool:
    """Whether a result is what the sum of terms of this size allows: two roundings, and the error of the way."""
    unit = Fraction(float(np.finfo(dtype).eps)) / 2
    way = Fraction(2) ** -53 if how == "float64" else 40 * unit**2
    return abs(Fraction(y) - want) <= 3 * unit * abs(want) + 100 * way * size


@pytest.mark.parametrize("name", MEANS)
def test_means_of_ten_distributions(name: str) -> None:
    """Against rational arithmetic."""
    for dtype in (np.float32, np.float64):
        for label, terms in distributions(dtype, 200):
            x = terms.astype(dtype)
            exact = [Fraction(float(value)) for value in x]
            want, size = sum(exact) / len(exact), sum(map(abs, exact)) / len(exact)
            for how in MODES if dtype == np.float32 else ("compensated",):
                y = MEANS[name](x, accumulate=how)
                assert np.asarray(y).dtype == dtype
                assert near(item(y), want, size, dtype, how), f"{label}, {dtype.__name__}, {how}"


@pytest.mark.parametrize("how", MODES)
def test_terms_that_cancel_leave_the_others_in_any_order(how: str) -> None:
    for order in set(itertools.permutations([1e8, 1.0, 1.0, -1e8])):
        x = np.array(order, np.float32)
        for name, mean in MEANS.items():
            assert item(mean(x, accumulate=how)) == 0.5, f"{name} of {order}"
        assert item(F.sum(x, accumulate=how)) == 2
    for order in set(itertools.permutations([1e17, 1.0, 1.0, -1e17])):
        for name, mean in MEANS.items():
            assert item(mean(np.array(order), accumulate="compensated")) == 0.5, f"{name} of {order}"


def test_sums_in_float64_do_not_overflow() -> None:
    largest = np.finfo(np.float32).max
    for x in (np.full(8, 3e38, np.float32), np.full(8, largest), np.full(8, -largest)):
        for name, mean in MEANS.items():
            assert item(mean(x, accumulate="float64")) == x[0], name
    for value in (1e30, 1e-30):  # whose squares float32 does not hold
        x = np.full(16, value, np.float32)
        for p in (1, 2, 3, 4.5):
            for name, norm in NORMS.items():
                found = item(norm(x, p, accumulate="float64"))
                assert abs(found / (x[0].astype(float) * 16 ** (1 / p)) - 1) < 1e-6, f"{name}, p={p}"
    x = np.array([1e30, -1e30, 3e30, 0], np.float32)
    assert abs(item(F.var(x[:3] / np.float32(1e12), accumulate="float64")) / 4e36 - 1) < 1e-6
    assert abs(item(F.std(x, accumulate="float64")) / np.std(x.astype(float), ddof=1) - 1) < 1e-6


@pytest.mark.parametrize("how", MODES)
def test_norms_of_ten_distributions(how: str) -> None:
    for label, terms in distributions(np.float32, 200):
        x = terms.astype(np.float32)
        wide = np.abs(x.astype(np.float64))
        for p in (1, 2, 3):
            want = float((wide**p).sum() ** (1 / p))
            for name, norm in NORMS.items():
                if label == "small" and p > 1 and how == "compensated":
                    continue  # squares that float32 does not hold
                    limit = 1e-6 if p == 3 else 3e-7  # `norm` takes cubes and their root in float32
                    error = abs(item(norm(x, p, accumulate=how)) / want - 1)
                    assert error < limit, f"{name}, {label}, p={p}"


@pytest.mark.parametrize("how", [None, *MODES])
def test_infinities_and_nan_are_those_of_plain_sums(how: str | None) -> None:
    inf, nan = np.inf, np.nan
    cases = [
        ([inf, 1, 2, 3], inf), ([1, 2, 3, -inf], -inf), ([inf, inf, 1, 2], inf), ([1, inf, -inf, 2], nan),
        ([nan, 1, 2, 3], nan), ([1, 2, inf, nan], nan), ([-inf, -inf, -inf, -inf], -inf),
    ]  # fmt: skip
    for terms, want in cases:
        for dtype in (np.float32, np.float64, np.float16, BFLOAT16) if how else (np.float32,):
            x = np.array(terms * 9, dtype)
            for name, mean in MEANS.items():
                np.testing.assert_equal(item(mean(x, accumulate=how)), want, err_msg=f"{name} of {terms}")
            for name, norm in NORMS.items():
                found = item(norm(x, 2, accumulate=how))
                np.testing.assert_equal(found, nan if nan in terms else inf, err_msg=f"{name} of {terms}")


def test_compensated_sums_overflow_to_infinity() -> None:
    """As plain ones do: never to NaN."""
    for x in (np.full(8, 3e38, np.float32), np.full(8, 1.7e308)):
        for sign in (1, -1):
            for name, mean in MEANS.items():
                assert item(mean(sign * x, accumulate="compensated")) == sign * np.inf, name
            assert item(F.sum(sign * x, accumulate="compensated")) == sign * np.inf


def test_halves_are_added_up_in_wider_floats() -> None:
    for dtype in (np.float16, BFLOAT16):
        x = np.array([2.0**15, 0.25, 0.25, -(2.0**15)] * 8, dtype)
        for how in MODES:
            for name, mean in MEANS.items():
                assert item(mean(x, accumulate=how)) == 0.125, name
            assert np.asarray(F.sum(x, accumulate=how)).dtype == dtype
    assert item(F.mean(np.full(4096, 40, np.float16), accumulate="compensated")) == 40


def test_any_number_of_threads_gives_the_same_bits() -> None:
    x = np.random.default_rng(0).standard_normal((3, 5, 70, 300)).astype(np.float32)
    calls: list[Callable[..., Any]] = [
        lambda **how: F.avg_pool2d(x, 3, 2, 1, **how),
        lambda **how: F.adaptive_avg_pool2d(x, (3, 7), **how),
        lambda **how: F.global_avg_pool(x, **how),
        lambda **how: F.lp_pool2d(x, 2, 3, **how),
        lambda **how: F.sum(x, **how),
        lambda **how: F.mean(x, (0, 2), **how),
        lambda **how: F.std(x, (1, 3), **how),
        lambda **how: F.norm(x, 2, 1, **how),
    ]
    for call in calls:
        for how in MODES:
            one, *others = (np.asarray(call(accumulate=how, threads=threads)) for threads in (1, 2, 3))
            assert all(one.tobytes() == other.tobytes() for other in others)


@pytest.mark.parametrize("word", ["double", "", 3, True, ["float64"], np.float64])
def test_words_that_are_not_known_are_refused(word: Any) -> None:
    x = np.ones((1, 1, 4, 4), np.float32)
    calls: dict[str, Callable[[], Any]] = {
        "avg_pool2d": lambda: F.avg_pool2d(x, 2, accumulate=word),
        "adaptive_avg_pool2d": lambda: F.adaptive_avg_pool2d(x, 2, accumulate=word),
        "global_avg_pool": lambda: F.global_avg_pool(x, accumulate=word),
        "lp_pool2d": lambda: F.lp_pool2d(x, 2, 2, accumulate=word),
        "global_lp_pool": lambda: F.global_lp_pool(x, accumulate=word),
    }
    for name in ("sum", "mean", "norm", "var", "std"):
        calls[name] = functools.partial(getattr(F, name), x, accumulate=word)
    for name, call in calls.items():
        with pytest.raises(
            ArgumentError, match=rf"^{name}: accumulate must be one of 'float64', 'compensated'"
        ):
            call()


def test_whole_numbers_are_refused() -> None:
    """Their sums are exact, or wrap around: no float would make them better."""
    x = np.ones((1, 1, 4, 4), np.int32)
    for call in (
        lambda: F.avg_pool2d(x, 2, accumulate="float64"),
        lambda: F.adaptive_avg_pool2d(x, 2, accumulate="compensated"),
        lambda: F.global_avg_pool(x, accumulate="float64"),
        lambda: F.sum(x, accumulate="float64"),
        lambda: F.sum(x > 0, accumulate="compensated"),
    ):
        with pytest.raises(DTypeError, match="is for floats"):
            call()
    assert item(F.sum(x, dtype="float32", accumulate="float64")) == 16


def test_gradients_do_not_depend_on_it() -> None:
    torch = pytest.importorskip("torch")
    import cenote.torch as T

    x = torch.randn(2, 3, 8, 8, requires_grad=True)
    for call in (
        lambda **how: T.avg_pool2d(x, 2, **how),
        lambda **how: T.adaptive_avg_pool2d(x, 3, **how),
        lambda **how: T.global_avg_pool(x, **how),
        lambda **how: T.lp_pool2d(x, 2, 2, **how),
        lambda **how: T.global_lp_pool(x, 3, **how),
    ):
        plain = torch.autograd.grad(call().sum(), x)[0]
        for how in MODES:
            assert torch.equal(torch.autograd.grad(call(accumulate=how).sum(), x)[0], plain)
