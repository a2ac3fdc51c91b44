"""Sizes behave like the ints that they stand for, and what was recorded holds for the other sizes that it accepts."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cenote.core.computed import SizedArray, computed, has_sizes, known
from cenote.core.formulas.certain import always_at_most, always_equal
from cenote.core.formulas.checks import Evaluation
from cenote.core.formulas.expressions import SizeFormula
from cenote.core.formulas.polynomials import Terms, exact, plus, times
from cenote.core.sizes import Size, is_size, maximum, minimum, plain
from cenote.core.trace import Trace
from cenote.runtime.formulas import Formulas

SIZES = st.tuples(*[st.integers(1, 40)] * 3)
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b if b != 0 else a,
    "%": lambda a, b: a % b if b != 0 else b,
    "max": maximum,
    "min": minimum,
    "<": lambda a, b: a if a < b else b,
    "==": lambda a, b: a + 1 if a == b else b,
    "ceil": lambda a, b: -(-a // 3) + b,
    "floor of a quotient": lambda a, b: (a * 1.5 + b).__floor__(),
    "floor of a ratio": lambda a, b: math.floor(a / b * 4) if b != 0 else a,
}
PROGRAMS = st.lists(
    st.tuples(st.sampled_from(sorted(OPERATIONS)), st.integers(0, 7), st.integers(0, 7)),
    min_size=1,
    max_size=9,
)


def run(program: list[tuple[str, int, int]], sizes: tuple[Any, ...]) -> list[Any]:
    values: list[Any] = [*sizes, 2, -3]
    for name, a, b in program:
        made = OPERATIONS[name](values[a % len(values)], values[b % len(values)])
        values.append(made if is_size(made) or abs(made) < 1 << 40 else 5)
    return values


@given(PROGRAMS, SIZES, SIZES)
def test_formulas_hold_for_the_sizes_that_they_accept(
    program: list[tuple[str, int, int]], made_with: tuple[int, ...], others: tuple[int, ...]
) -> None:
    trace = Trace()
    values = run(program, tuple(trace.dimension(size) for size in made_with))
    assert [plain(value) for value in values] == run(program, made_with)
    sized = [value for value in values if is_size(value)]
    formulas = Formulas.compile(trace.source(sized), trace.objects)
    assert formulas.numbers(made_with) is not None
    for sizes in (made_with, others):
        found = formulas.numbers(sizes)
        if found is None:
            continue
        expected = [e for e, value in zip(run(program, sizes), values, strict=True) if is_size(value)]
        assert found[0] == expected


@pytest.mark.parametrize(
    "form", [lambda h: h * 2, lambda h: h + 4, lambda h: h - 2, lambda h: h * h, lambda h: 2]
)
def test_a_ratio_of_sizes_is_the_same_at_other_sizes(form: Callable[[Any], Any]) -> None:
    """The text of `h / (2 * h)` was once `h / 2 * h`."""
    trace = Trace()
    h = trace.dimension(64)
    ratios = [h / form(h), form(h) / h, (h + 1) / form(h), (h + 0.5) - form(h), 1.5 / form(h) - (h + 2)]
    formulas = Formulas.compile(trace.source(ratios), trace.objects)
    for size in (64, 7, 100):
        x = form(size)
        expected = [size / x, x / size, (size + 1) / x, (size + 0.5) - x, 1.5 / x - (size + 2)]
        assert formulas.numbers((size,)) == (expected, [])


def test_what_takes_a_number_narrows_what_holds() -> None:
    for use in (
        int,
        range,
        float,
        lambda size: np.zeros(size),
        lambda size: [0] * size,
        lambda size: "ab"[size - 7],
    ):
        trace = Trace()
        use(trace.dimension(7))  # type: ignore[operator]
        formulas = Formulas.compile(trace.source((), ()), ())
        assert formulas.numbers((7,)) is not None
        assert formulas.numbers((8,)) is None
        assert trace.fixed


def test_sizes_are_no_members_of_sets() -> None:
    trace = Trace()
    with pytest.raises(TypeError, match="unhashable"):
        {trace.dimension(3)}


def test_equal_formulas_are_equal_without_a_question() -> None:
    trace = Trace()
    n, h = trace.dimension(2), trace.dimension(10)
    assert (n * (h + 3) - 3 * n) == n * h
    assert (16 * h) // 16 == h
    assert (16 * h + 5) // 16 == h
    assert (h * n) // h == n
    assert (6 * h * n + 9 * n) // (2 * h + 3) == 3 * n
    assert h > 0
    assert n * h != 0
    assert not trace.guards


POLYNOMIALS = st.dictionaries(
    st.lists(st.integers(0, 2), max_size=3).map(lambda unknowns: tuple(sorted(unknowns))),
    st.integers(-4, 4).filter(bool),
    max_size=4,
).map(lambda terms: tuple(sorted(terms.items())))


@given(POLYNOMIALS, POLYNOMIALS.filter(bool), POLYNOMIALS)
def test_products_are_divided_exactly(a: Terms, b: Terms, rest: Terms) -> None:
    assert exact(times(a, b), b) == a
    dividend = plus(times(a, b), rest, 1)
    quotient = exact(dividend, b)
    assert quotient is None or times(quotient, b) == dividend


def test_quotients_are_bounded_by_what_is_divided() -> None:
    """The ends of windows, as pools and convolutions ask for them."""
    trace = Trace()
    h = trace.dimension(10)
    assert 2 * (h // 2) <= h
    assert 3 * ((h + 2) // 3) >= h
    assert 4 * (((h + 1) // 2 + 1) // 2) - h < 4
    assert 2 * ((h - 3) // 2) + 3 <= h
    tiles = -(-(h - 5 * h // 6) // maximum(1, h - 40))  # at least one, so that it divides without a question
    assert (h // tiles).value == 10 // 2
    assert not trace.guards
    assert always_at_most(2 * (h // 2), h)
    assert not always_at_most(2 * ((h + 1) // 2), h)
    assert always_equal(h + 1 - h, 1)
    assert not always_equal(h, 10)
    assert not trace.guards


@given(PROGRAMS, SIZES, SIZES)
def test_bounds_hold_at_all_sizes(
    program: list[tuple[str, int, int]], made_with: tuple[int, ...], others: tuple[int, ...]
) -> None:
    trace = Trace()
    values = [
        value for value in run(program, tuple(map(trace.dimension, made_with))) if isinstance(value, Size)
    ]
    evaluation = Evaluation(trace, others)
    accepted = evaluation.holds()
    for value in values:
        low, high = trace.tight_bounds(value)
        assert low <= value.value <= high
        assert not accepted or low <= evaluation.value(value) <= high


def rising(count: int, step: int) -> np.ndarray:
    return np.arange(count) * step


def parity(number: int) -> int:
    return number % 2


def test_arrays_and_answers_of_functions() -> None:
    trace = Trace()
    h = trace.dimension(10)
    table: Any = computed(rising, h, 4)
    assert np.array_equal(table.value, np.arange(10) * 4)
    assert known(parity, h) == 0
    formulas = Formulas.compile(trace.source((), [table]), trace.objects)
    assert formulas.numbers((13,)) is None
    found = formulas.numbers((12,))
    assert found is not None
    assert np.array_equal(found[1][0], np.arange(12) * 4)


def test_questions_asked_apart_count_when_they_are_adopted() -> None:
    trace = Trace()
    h = trace.dimension(10)
    with trace.apart() as guards:
        assert h > 5
    assert not trace.guards
    trace.adopt(guards)
    assert trace.guards


def test_arrays_of_sizes() -> None:
    trace = Trace()
    h = trace.dimension(10)
    array = SizedArray.of((1, h * 2), np.dtype(np.int64))
    assert has_sizes(array)
    assert np.array_equal(array.at_hand(), [1, 20])
    assert not has_sizes(np.array(["text"], object))
    formulas = Formulas.compile(trace.source((), [array.table()]), ())
    found = formulas.numbers((7,))
    assert found is not None
    assert found[1][0].tolist() == [1, 14]
    assert found[1][0].dtype == np.int64


def test_equal_operations_are_done_once_until_bounds_change() -> None:
    trace = Trace()
    n = trace.dimension(8)
    u = trace.unknown(SizeFormula(trace, "int", n), 0, 100)
    assert maximum(u, 3) is maximum(u, 3)
    assert maximum(u, 3) is not u
    assert trace.tight_bounds(u // 2 - u) == (-50, 0)
    trace.unknown(SizeFormula(trace, "int", n), 5, 6)
    assert maximum(u, 3) is u
    assert trace.tight_bounds(u // 2 - u)[0] > -50
    assert not trace.guards
