"""Native code gives what Python gives for formulas of sizes, or leaves them to Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cenote.compiler.instructions import instructions_of
from cenote.core.computed import computed, whole_of
from cenote.core.formulas.checks import FormulaError
from cenote.core.formulas.expressions import SizeFormula
from cenote.core.formulas.instructions import ASK, DONE, OPERATIONS, REFUSED, Instructions
from cenote.core.sizes import is_size, maximum, minimum
from cenote.core.trace import Trace
from cenote.kernels.driver import driver_abi
from cenote.kernels.tables import first_that_covers, row_table, tap_table, tiles_per_block
from cenote.runtime.formulas import Formulas, carry_out

NATIVE = driver_abi().formulas
AT_HAND = (3, 40, 56)

Pair = Callable[[Any, Any], Any]
PAIRS: tuple[Pair, ...] = (
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a // (b * b + 1),
    lambda a, b: -(-a // 7),
    lambda a, b: (a * b) // (-2 - b * b),
    lambda a, b: (a * 3) // -3 + a // -4,
    lambda a, b: a % 5 + b,
    maximum,
    minimum,
    lambda a, b: math.floor(a * 1.5 + b / 3),
    lambda a, b: math.ceil(maximum(a / 7, 0.25) - b),
    lambda a, b: math.trunc(minimum(a * -0.3, 1e9) * b),
    lambda a, b: (a / (b * b + 1)).bits(),
    lambda a, b: whole_of(first_that_covers, 0, 3, a * a, (8, 5, 3, 2)) + b,
    lambda a, b: whole_of(tiles_per_block, 1, 96, a * a + 1, True, 12, 48) - b,
    lambda a, b: whole_of(tiles_per_block, 1, 96, b * b + 1, False, 24, 96) + a,
    lambda a, b: a * (1 << 40) + b,
)
Formula = tuple[int, int, int]  # an operation on two numbers made before
PROGRAMS = st.lists(
    st.tuples(st.integers(0, len(PAIRS) - 1), *[st.integers(0, 40)] * 2), min_size=1, max_size=12
)
SIZES = st.tuples(*[st.one_of(st.integers(1, 700), st.integers(1, 1 << 20))] * 3)


def traced(program: list[Formula]) -> tuple[Trace, list[Any]]:
    """Sizes that follow from three dimensions, and a table of offsets that follows from them."""
    trace = Trace()
    numbers: list[Any] = [trace.dimension(size) for size in AT_HAND]
    for which, a, b in program:
        made = PAIRS[which](numbers[a % len(numbers)], numbers[b % len(numbers)])
        if is_size(made) and abs(made.value) < 1 << 62:
            numbers.append(made)
    return trace, numbers


def formulas_of(trace: Trace, numbers: list[Any], arrays: list[Any]) -> Formulas:
    found = instructions_of(trace, numbers, arrays)
    assert found is not None
    return Formulas.compile(trace.source(numbers, arrays), trace.objects, *found)


def assert_same(formulas: Formulas, sizes: tuple[int, ...]) -> int:
    """Native code agrees with Python; returns how it ended."""
    assert formulas.instructions is not None
    ended, values, tables = carry_out(formulas.instructions, sizes, NATIVE)
    expected = formulas.numbers(sizes)
    if ended == REFUSED:
        assert expected is None
    if ended == DONE:
        assert expected is not None
        assert values.tolist() == expected[0]
        for mine, its in zip(tables, expected[1], strict=True):
            assert mine.dtype == its.dtype
            assert mine.tolist() == its.tolist()
    return ended


@settings(max_examples=150)
@given(PROGRAMS, st.lists(SIZES, min_size=1, max_size=4), st.booleans())
def test_results_are_those_of_python(
    program: list[Formula], others: list[tuple[int, int, int]], asks: bool
) -> None:
    trace, numbers = traced(program)
    if asks:
        bool(numbers[-1] * 2 > numbers[0])
    some = minimum(maximum(numbers[-1], 0), 1 << 28)
    arrays = [
        computed(tap_table, (3, 1, 2), (some, numbers[1], 1), 1, 4, some),
        computed(row_table, (1, 2, 3), (0, numbers[2], 2), numbers[0]),
    ]
    assume(instructions_of(trace, numbers, []) is not None)  # no constant of more than 64 bits
    formulas = formulas_of(trace, numbers, arrays)
    assert assert_same(formulas, AT_HAND) in (DONE, ASK)
    for sizes in others:
        assert_same(formulas, sizes)


@pytest.mark.parametrize("sizes", [(0, 1, 1), (1, 1, 1 << 20 | 1), (1, -5, 1), (1 << 70, 1, 1)])
def test_sizes_out_of_range_are_refused(sizes: tuple[int, ...]) -> None:
    formulas = formulas_of(*traced([(0, 1, 2)]), [])
    assert assert_same(formulas, sizes) in (REFUSED, ASK)
    assert formulas.values(sizes, NATIVE) is None


def test_guards_refuse_what_python_refuses() -> None:
    trace, (n, h, w) = traced([])
    assert h * 3 > w
    assert h / w < 0.8
    assert n != 7
    formulas = formulas_of(trace, [n, h, w], [])
    ends = [assert_same(formulas, sizes) for sizes in ((3, 40, 56), (3, 40, 121), (3, 56, 56), (7, 40, 56))]
    assert ends == [DONE, REFUSED, REFUSED, REFUSED]


def test_numbers_of_more_than_64_bits_are_left_to_python() -> None:
    trace, (n, h, w) = traced([])
    product = (n * h * w * h * w * n) // 3  # of the largest sizes 120 bits
    formulas = formulas_of(trace, [product // (h * h * w)], [])
    assert assert_same(formulas, (2, 3, 4)) == DONE
    large = (1 << 20,) * 3
    assert assert_same(formulas, large) == ASK
    found = formulas.values(large, NATIVE)
    assert found is not None
    assert found[0].tolist() == [(1 << 120) // 3 // (1 << 60)]


def test_tables_that_32_bits_do_not_hold_are_left_to_python() -> None:
    trace, (n, _, w) = traced([])
    formulas = formulas_of(trace, [], [computed(tap_table, (3,), (n,), 0, 2049, w)])
    for step, ended in ((1023, DONE), (1024, ASK)):  # the last offset is 2**31 - 2, then 2**31
        sizes = (step, 1, (1 << 20) - 1)
        assert assert_same(formulas, sizes) == ended
        assert (formulas.values(sizes, NATIVE) is None) == (ended == ASK)


def test_arrays_without_instructions_come_from_python_among_the_others() -> None:
    trace, (_, h, w) = traced([])
    arrays = [
        computed(row_table, (2,), (w,), 0),
        computed(squares, h // 8),
        computed(row_table, (3,), (h,), 1),
    ]
    formulas = formulas_of(trace, [h], arrays)
    found = formulas.values((1, 24, 9), NATIVE)
    assert found is not None
    assert [array.tolist() for array in found[1]] == [[0, 9], [0, 1, 4], [-1, 23, 47]]


def squares(count: int) -> np.ndarray:
    return np.arange(count) ** 2


def test_numbers_without_instructions_leave_a_template_to_python() -> None:
    trace, (n, h, _) = traced([])
    item = SizeFormula(trace, "item", computed(squares, h), 2)  # of an array
    numbers = whole_of(math.isqrt, 0, 1 << 20, h), math.floor(n * np.float32(0.3)), math.floor(h**0.5), item
    for number in numbers:
        assert instructions_of(trace, [number], []) is None


def test_another_result_than_pythons_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CENOTE_CHECK_FORMULAS", "1")
    trace, (_, h, _) = traced([])
    formulas = formulas_of(trace, [h * 2], [])
    wrong = Formulas.compile(trace.source([h * 3]), trace.objects, formulas.instructions)
    with pytest.raises(FormulaError, match="native code gives"):
        wrong.values((1, 2, 3), NATIVE)


DAMAGE = {
    "an operation that is not there": (len(OPERATIONS), 0, 0),
    "a negative one": (-1, 0, 0),
    "an operand of later": (1, 0, 9),
    "an operand before the first": (1, -1, 0),
    "a row past its end": (OPERATIONS.index("item"), 2, 1),
    "a table without room": (OPERATIONS.index("taps"), 0, 1),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_instructions_touch_nothing(name: str) -> None:
    """A table of no axes at place 5, of one channel, would be written where there is room for three."""
    constants = np.array([0, 5, 1, 1, 0], np.int64)
    code = np.array([DAMAGE[name]], np.int64)
    damaged = Instructions(1, constants, code, np.array([0]), (3,))
    ended, _, _ = carry_out(damaged, (5,), NATIVE)
    assert ended == ASK


def test_operations_of_floats_are_those_of_python() -> None:
    """Ties, signed zeros, and results that are no numbers."""
    trace, (n, _, _) = traced([])
    near: Any = n * 0.5 - 1.5
    numbers = [
        (near * -1.0).bits(), math.floor(near), math.ceil(near), math.trunc(-near), (1 / (near + 0.25)).bits(),
        maximum(near, -0.0).bits(), minimum(near, 0.0).bits(), (-near).bits(),
    ]  # fmt: skip
    formulas = formulas_of(trace, numbers, [])
    for size in range(1, 9):
        assert assert_same(formulas, (size, 1, 1)) == DONE


def test_what_is_asked_of_numbers_is_written_in_order() -> None:
    trace, (_, h, _) = traced([])
    asked = SizeFormula(trace, "==", h, 40)
    trace.guard(asked)
    steps = list(trace.ordered([h * 2]))
    assert steps[-1] is asked
    assert steps[0] == 1
