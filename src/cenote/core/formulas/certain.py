"""Answers that hold at all sizes. Nothing is asked of the sizes at hand, so they part no classes; code that acts on a
"yes" must be right without it, too.
"""

from __future__ import annotations

from cenote.core.sizes import Size, is_size


def always_equal(a: int, b: int) -> bool:
    """Whether two numbers are equal at all sizes. Asks nothing: open sizes that are equal for the shapes at hand alone
    are not."""
    difference = a - b
    return not is_size(difference) and bool(difference == 0)


def always_at_most(a: int, b: int) -> bool:
    """Whether a <= b at all sizes. Asks nothing: False where it depends on them."""
    difference = a - b
    if not isinstance(difference, Size):
        return bool(difference <= 0)
    most: int = difference.trace.tight_bounds(difference)[1]
    return most <= 0


def is_broadcast(extent: int, wanted: int) -> bool:
    """Whether an axis of this extent is broadcast to another one. Where both are the same at all sizes, the first is
    not asked whether it is 1."""
    return not always_equal(extent, wanted) and bool(extent == 1)
