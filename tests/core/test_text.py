"""Tables as text."""

from cenote.core.text import aligned


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    rows = [("layer", "KB", "why"), ("conv1", "816", ""), ("c", "", "slower")]
    assert aligned(rows, (0, 2)) == ["layer   KB  why", "conv1  816", "c           slower"]


def test_no_rows_are_no_lines() -> None:
    assert aligned([], ()) == []
