"""Texts, values and operations of formulas agree, and a formula whose do not is found."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cenote
from cenote.core.computed import SizedArray, computed
from cenote.core.formulas.checks import FormulaError, check_replayed
from cenote.core.formulas.expressions import SizeFormula
from cenote.core.sizes import is_size, maximum, minimum
from cenote.core.trace import Trace
from cenote.runtime.formulas import Formulas
from tests.onnx_texts import parsed

OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "quotient of a product": lambda h: h / (2 * h),
    "quotient of a sum": lambda h: (h + 1) / (h - 3),
    "difference of differences": lambda h: 0.5 - (h - 0.25) - (3 - h * 1.5),
    "negative numbers": lambda h: -(h * -1.5) // -0.7,
    "product of many": lambda h: (h + 1) * (h - 2) / ((h + 3) * -h),
    "float32": lambda h: h * np.float32(0.1),
    "float32 first": lambda h: np.float32(0.1) * h,
    "float16": lambda h: (h + np.float16(0.3)) * h,
    "float64": lambda h: np.float64(1) / h,
    "int32": lambda h: np.int32(3) * h - np.int64(7),
    "infinite": lambda h: minimum(h * math.inf, 3.5) + h,
    "no number": lambda h: maximum(h / 3, math.nan),
    "remainder": lambda h: (h % 2.5, 2.5 % h, h % -7, 100 % h, -100 % h),
    "divmod": lambda h: (*divmod(h, 7), *divmod(100, h), *divmod(-h, 7)),
    "floored": lambda h: (2.5 // h, h // 2.5, (h - 30) // 7, (-h) // 7, h // -7, (h / 3) // 2),
    "rounded": lambda h: (math.floor(h / 3), math.ceil(-h / 3), math.trunc((h - 30) / 7), round(h)),
    "powers": lambda h: (h**2, h**0 + h, h**-1, h**0.5),
    "shifts": lambda h: (h << 3, (h - 50) >> 2),
    "extremes": lambda h: (maximum(2 * h - 50, h), minimum(-h, h - 7), maximum(h, 3.5), minimum(0.5, h)),
}
QUESTIONS: dict[str, Callable[[Any], bool]] = {
    "float32 equal": lambda h: bool(h == np.float32(20)),
    "int64 equal to a float": lambda h: bool(h / 2 == np.int64(10)),
    "none is less": lambda h: h <= math.nan,
    "none is more": lambda h: h >= math.nan,
    "none is as none": lambda h: (h * math.nan) == (h * math.nan),
    "another kind": lambda h: h == "20" or h == None,  # noqa: E711
    "truth": lambda h: bool(h / 2 - 10),
    "negative": lambda h: not (h - 40) / 2 < -3,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_values_are_those_of_numbers(name: str) -> None:
    """Of the same type, to the last bit, at the size at hand and at others."""
    trace = Trace()
    made = OPERATIONS[name](trace.dimension(20))
    sized = made if isinstance(made, tuple) else (made,)
    assert all(map(is_size, sized))
    formulas = Formulas.compile(trace.source(sized), trace.objects)
    for size in (20, 21, 13, 4):
        expected = OPERATIONS[name](size)
        expected = expected if isinstance(expected, tuple) else (expected,)
        found = formulas.numbers((size,))
        if found is None:
            assert trace.guards, f"{name} for {size}"
            continue
        assert list(map(repr, found[0])) == [
            repr(x.item() if isinstance(x, np.integer) else x) for x in expected
        ]


@pytest.mark.parametrize("name", QUESTIONS)
def test_answers_are_those_of_numbers(name: str) -> None:
    """Or the sizes are of another class."""
    trace = Trace()
    answer = QUESTIONS[name](trace.dimension(20))
    assert answer == QUESTIONS[name](20)
    formulas = Formulas.compile(trace.source(()), trace.objects)
    for size in (20, 21, 50):
        assert formulas.numbers((size,)) is None or QUESTIONS[name](size) == answer


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, -0.0, 0.5])
def test_a_float_taken_for_a_number_is_that_number(number: float) -> None:
    trace = Trace()
    h = trace.dimension(20)
    assert repr(float(h * 0.0 + number if number else -(h * 0.0))) == repr(number)
    assert Formulas.compile(trace.source(()), ()).numbers((20,)) is not None


def test_a_float_taken_for_zero_is_not_the_other_zero() -> None:
    trace = Trace()
    float((trace.dimension(20) - 20) * -1.0)
    formulas = Formulas.compile(trace.source(()), ())
    assert formulas.numbers((20,)) is not None
    assert formulas.numbers((21,)) is None


def test_long_formulas_are_named() -> None:
    trace = Trace()
    h = trace.dimension(20)
    total: Any = h / 3
    for step in range(200):
        total = (total + h * step) / (step + 1)
    assert len(total.code) < 500
    found = Formulas.compile(trace.source([total]), ()).numbers((7,))
    expected = 7 / 3
    for step in range(200):
        expected = (expected + 7 * step) / (step + 1)
    assert found == ([expected], [])


def doubled(count: int) -> np.ndarray:
    return np.arange(count) * 2


@pytest.mark.parametrize("attribute", ["code", "value"])
def test_a_formula_that_means_something_else_is_found(
    attribute: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for make in (lambda h: h / 2, lambda h: computed(doubled, h)):
        trace = Trace()
        made: Any = make(trace.dimension(10))
        trace.source([made], [made])
        setattr(made, attribute, {"code": "(u0 / 3)", "value": 7.5}[attribute])
        with pytest.raises(FormulaError, match="its operations give"):
            trace.source([made])
        with monkeypatch.context() as patch:
            patch.setenv("CENOTE_CHECK_FORMULAS", "0")
            trace.source([made])


def test_a_guard_that_asks_something_else_is_found() -> None:
    trace = Trace()
    assert trace.dimension(10) > 3
    (question,) = trace.guards.values()
    question.operands = (question.operands[0], 100)
    with pytest.raises(FormulaError):
        trace.source(())


def test_what_an_operator_makes_of_sizes_is_what_it_makes_of_numbers() -> None:
    trace = Trace()
    h = trace.dimension(10)
    given = SizedArray.of([h, h + 1], np.dtype(np.int64))
    made = SizedArray.of([h // 3, (h + 1) // 3], np.dtype(np.int64))
    check_replayed(trace, [given.table()], [made.table()], lambda arrays: [arrays[0] // 3])
    with pytest.raises(FormulaError, match="an operator makes"):  # the same for 10 and 11
        check_replayed(
            trace, [given.table()], [made.table()], lambda arrays: [np.fix((arrays[0] - 1) / 3 + 0.3)]
        )


def test_a_wrong_formula_is_no_reason_to_plan_each_size(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(self: SizeFormula, *_: object) -> None:
        raise FormulaError("wrong")

    monkeypatch.setattr("cenote.core.trace.check_texts", wrong)
    model = cenote.load(parsed("g (float[N, 4] x) => (float[N, 4] y) { y = Relu(x) }"))
    with pytest.raises(FormulaError):
        model.run({"x": np.zeros((3, 4), np.float32)})


def test_processes_that_tests_start_check_formulas() -> None:
    asks = "from cenote.core.formulas.checks import checks_formulas; assert checks_formulas()"
    subprocess.run([sys.executable, "-c", asks], check=True)
