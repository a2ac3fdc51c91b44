"""Numbers that a type does not hold, and the names in errors: every function by its signature, so that new ones count.

A number that goes among integers is refused, or the answer is exact: that of the same call on float64.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import ArgumentError, CenoteError, DTypeError
from cenote.core.types import Array
from tests.functional.pool.gradient_cases import CASES
from tests.fuzz.call_samples import is_pool, samples

NUMBERS = (0.5, 300, -1, math.nan, math.inf, 1e300, 2**70, -(2**70))
TYPES = (np.int16, np.uint8)


def zero_undefined(want: Array) -> Array:
    """Quotients by 0, and 1 / 0, are 0 among integers."""
    return np.where(np.isfinite(want), want, 0)


# Integer answers that are not those of float64 but made of them.
ANOTHER_ANSWER: dict[str, Callable[[Array], Array]] = {
    "scatter_reduce": np.floor,  # of means
    "pow": lambda want: np.trunc(zero_undefined(want)),  # negative powers
    "div": zero_undefined,
    "floor_divide": zero_undefined,
    "remainder": zero_undefined,
    "fmod": zero_undefined,
    **{name: np.trunc for name in F.__all__ if "avg_pool" in name or name == "median_pool"},
}
POOLED = {name: number for number, (name, *_) in enumerate(CASES)}


def functions() -> list[str]:
    """All functions that need no recording, and all pools of one input."""
    others = {name for name in F.__all__ if not is_pool(name)} - {"Traced", "explain", "fused"}
    return sorted(others | {*POOLED})


def sample(name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A good call."""
    if name not in POOLED:
        return samples(np.random.default_rng(0), np.dtype(np.float32))[name]
    _, arguments, keywords, shape = CASES[POOLED[name]]
    x = 3 * np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    return (x, *arguments), {key: given for key, given in keywords.items() if key != "positive"}


def changed(name: str, dtype: Any) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """The function's sample on arrays of a type, once for each number among its arguments and each hostile number."""
    arguments, keywords = sample(name)

    def whole(x: Any) -> Any:
        if isinstance(x, list | tuple) and any(isinstance(each, np.ndarray) for each in x):
            return type(x)(whole(each) for each in x)
        if isinstance(x, np.ndarray) and x.dtype.kind == "f":
            return np.abs(np.rint(3 * x)).astype(dtype)
        return x

    bound = inspect.signature(getattr(F, name)).bind(*map(whole, arguments), **keywords)
    bound.apply_defaults()
    made = []
    for parameter in inspect.signature(getattr(F, name)).parameters.values():
        current = bound.arguments[parameter.name]
        is_number = isinstance(current, int | float) and not isinstance(current, bool)
        is_operand = parameter.name in ("other", "src", "value", "min", "max")
        if parameter.name in ("threads", "seed") or not (is_number or is_operand):
            continue
        for number in NUMBERS:
            if number == 300 and parameter.name == "output_size":
                number = 30  # of each axis, that is
            given = bound.arguments | {parameter.name: number}
            kinds = inspect.signature(getattr(F, name)).parameters
            positional = [given[n] for n, k in kinds.items() if k.kind is not k.KEYWORD_ONLY]
            rest = {n: given[n] for n, k in kinds.items() if k.kind is k.KEYWORD_ONLY}
            made.append((f"{parameter.name}={number}", tuple(positional), rest))
    return made


def answered(name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """The answer, or None where the call is refused by an error of Cenote's."""
    with np.errstate(all="ignore"):
        try:
            return getattr(F, name)(*arguments, **keywords)
        except CenoteError:
            return None


@pytest.mark.parametrize("name", functions())
def test_numbers_among_integers_are_refused_or_exact(name: str) -> None:
    for dtype in TYPES:
        wide = changed(name, np.float64)
        for (what, arguments, keywords), (_, same, others) in zip(changed(name, dtype), wide, strict=True):
            got = answered(name, arguments, keywords)
            if got is None:
                continue
            if not isinstance(got, np.ndarray) or got.dtype.kind not in "iu":
                continue
            want = answered(name, same, others | ({"dtype": "float64"} if name == "one_hot" else {}))
            assert want is not None, f"{name}({what}) of {dtype.__name__}: {got}, and an error for float64"
            if not isinstance(want, np.ndarray) or (want.dtype.kind == "f" and not is_small(want)):
                continue
            want = ANOTHER_ANSWER.get(name, np.asarray)(want)
            # A negative divisor leads out of the type's range, where averages are clipped.
            if "avg_pool" in name:
                want = np.clip(want, np.iinfo(got.dtype).min, np.iinfo(got.dtype).max)
            assert is_exact(got, want), f"{name}({what}) of {dtype.__name__}: {got}, of float64 {want}"


def is_small(want: Array) -> bool:
    """Whether float64 has it exactly."""
    return bool(np.abs(want[np.isfinite(want)]).max(initial=0) < 2.0**53)


def is_exact(got: Array, want: Array) -> bool:
    """Equal modulo 2^bits; no integer stands for NaN, an infinity or a fraction."""
    if want.dtype.kind == "f" and not (np.isfinite(want).all() and (want == np.rint(want)).all()):
        return False
    return got.shape == want.shape and np.array_equal(got, want.astype(np.int64).astype(got.dtype))


@pytest.mark.parametrize("value", [0.9, 300, -129, math.nan, math.inf, 1e300, 2**70])
def test_one_rule_for_what_a_type_holds(value: float) -> None:
    x, at = np.arange(6, dtype=np.int8).reshape(2, 3), np.zeros((2, 1), np.int64)
    calls = (
        lambda: F.one_hot(at, 3, on_value=value, dtype="int8"), lambda: F.one_hot(at, 3, off_value=value, dtype="int8"),
        lambda: F.where(x > 1, x, value), lambda: F.where(x > 1, value, x), lambda: F.pad(x, (1, 0), value=value),
        lambda: F.scatter(x, 1, at, value), lambda: F.threshold(x, value, 1), lambda: F.threshold(x, 1, value),
        lambda: F.where(x > 1, x > 2, value), lambda: F.pad(x > 1, (1, 0), value=value),
    )  # fmt: skip
    for number, call in enumerate(calls):
        with pytest.raises(DTypeError, match="does not hold"):
            print(number, call())


def test_what_a_type_holds_is_taken() -> None:
    x = np.arange(6, dtype=np.int8)
    assert F.where(x > 2, x, -128.0).tolist() == [-128] * 3 + [3, 4, 5]
    assert F.one_hot(np.array([1]), 2, on_value=0.9, dtype="float64").tolist() == [[0, 0.9]]
    assert F.one_hot(np.array([1]), 2, on_value=True, dtype="bool").tolist() == [[False, True]]
    assert F.hardtanh(x, -1e9, 3).tolist() == [0, 1, 2, 3, 3, 3]
    assert F.hardtanh(x, -math.inf, math.inf).tolist() == x.tolist()
    assert F.add(x, x, alpha=2**70 + 2).tolist() == (3 * x).tolist()
    pair = np.arange(4).reshape(2, 2)
    assert (
        F.addmm(pair, pair, pair, alpha=2**53 + 1).tolist() == (pair + (2**53 + 1) * (pair @ pair)).tolist()
    )
    with pytest.raises(ArgumentError, match=r"addmm: alpha is 0\.5"):
        F.addmm(pair, pair, pair, alpha=0.5)


# ---- names ----------------------------------------------------------------------------------------------------------

BAD: tuple[Any, ...] = (
    None, "a word", np.zeros((0,), np.float32), np.zeros((1,) * 9, np.float32), np.zeros((2, 3), np.complex64),
    np.zeros((1, 2, 2, 2), "datetime64[s]"), np.zeros((2, 2, 1, 1), np.float32), np.zeros((1, 2, 3), np.float32),
)  # fmt: skip


def refusal(function: Any, *arguments: Any, **keywords: Any) -> str:
    """The words of the error; none where the call was right."""
    try:
        function(*arguments, **keywords)
    except CenoteError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", sorted(set(F.__all__) - {"Traced", "explain", "fused"}))
def test_errors_begin_with_the_function_called(name: str) -> None:
    """Whatever is given for the arguments without defaults, and a window that fits nothing; then for each of the others
    beside a good sample, `out` among them."""
    function, refused = getattr(F, name), 0
    needed = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    for first, other in itertools.product(BAD, (2, 99, -1, np.zeros((2, 2), np.int64))):
        error = refusal(function, first, *[other] * (len(needed) - 1))
        refused += bool(error)
        assert not error or error.startswith(f"{name}: "), f"{name}({first!r}, {other!r}): {error}"
    assert refused
    for arguments, keywords in good_calls(name):
        bound = inspect.signature(function).bind(*arguments, **keywords)
        bound.apply_defaults()
        for changed, bad in itertools.product({*bound.arguments} - {"threads"}, (*BAD, -7, 0.5, object())):
            call = copy.copy(bound)
            call.arguments = bound.arguments | {changed: bad}
            error = refusal(function, *call.args, **call.kwargs)
            assert not error or error.startswith(f"{name}: "), f"{name}({changed}={bad!r}): {error}"


def good_calls(name: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """A sample, of float16 as well: what some functions convert first."""
    if is_pool(name) or name == "roi_align":
        return [sample(name)] if name in POOLED else []
    return [samples(np.random.default_rng(0), np.dtype(kind))[name] for kind in (np.float32, np.float16)]
