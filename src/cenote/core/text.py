"""Lists of names written as text."""

from __future__ import annotations


def split_words(*lines: str) -> tuple[str, ...]:
    """Return the words of all lines in order: `split_words("x y", "z")` is `("x", "y", "z")`."""
    return tuple(word for line in lines for word in line.split())
