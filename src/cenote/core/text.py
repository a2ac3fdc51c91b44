"""Lists of names written as text, numbers, times, tables, and what stands for a report."""

from __future__ import annotations

from collections.abc import Container, Sequence

from cenote.core.sizes import plain


def split_words(*lines: str) -> tuple[str, ...]:
    """Return the words of all lines in order: `split_words("x y", "z")` is `("x", "y", "z")`."""
    return tuple(word for line in lines for word in line.split())


def digits(value: float) -> str:
    """Return a number with three digits, or all of its whole part: 0.123, 12.3, 1235."""
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:.0f}"


def shown_seconds(seconds: float) -> str:
    """Return the text of a time in reasons."""
    seconds = plain(seconds)
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.0f} us"


def ending(text: str, width: int) -> str:
    """Return a text, or as much of its end as fits the width behind an ellipsis: names of nodes differ there."""
    return text if len(text) <= width else f"…{text[len(text) - width + 1 :]}"


def aligned(rows: Sequence[Sequence[str]], left: Container[int]) -> list[str]:
    """Return rows of cells as lines, in columns two spaces apart. Cells of the columns `left` begin at the left edge of
    their column, those of the others end at its right one."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


class Report:
    """Base of reports, which have `__str__`. Dataclasses must not make a representation of their own (repr=False):
    that of a plan would be pages of its records."""

    def _headline(self) -> str:
        """Return the line that stands for the report."""
        return str(self).partition("\n")[0].strip()

    def __repr__(self) -> str:
        return f"<{type(self).__name__.strip('_')}: {self._headline()}; print it for all>"
