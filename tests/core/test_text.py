"""Tables as text."""

from cenote.core.text import aligned, digits


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    rows = [("layer", "KB", "why"), ("conv1", "816", ""), ("c", "", "slower")]
    assert aligned(rows, (0, 2)) == ["layer   KB  why", "conv1  816", "c           slower"]


def test_no_rows_are_no_lines() -> None:
    assert aligned([], ()) == []


def test_numbers_have_three_digits_and_no_exponent() -> None:
    numbers = (0.01234, 9.996, 999.4, 999.6, 1234.5, 1e6)
    assert [digits(x) for x in numbers] == ["0.0123", "10", "999", "1000", "1234", "1000000"]
