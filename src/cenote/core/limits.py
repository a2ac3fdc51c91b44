"""Limits of the numbers that callers and files choose: the one place where they are checked.

Kernels take 64-bit words, NumPy describes arrays of less than 2^63 bytes, and a loop in Python must be about as long
as the data. A number beyond the range of its use is refused here, with the operator, the argument and the number in
the error; everything between is computed with Python's integers, which have no limit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cenote.core.errors import ArgumentError, CapacityError, shown
from cenote.core.sizes import plain

LOWEST, LARGEST = -(1 << 63), (1 << 63) - 1
"""Range of a word of a kernel's argument record."""

LARGEST_SEED = (1 << 64) - 1

MOST_POSITIONS = 1 << 24
"""Most entries of a table with one per position of an axis (half a second of Python). Sizes are only declared until a
model runs, so that such a table must be bounded."""

MOST_BYTES = 1 << 62


def within(op: str, name: str, number: int, low: int | None = None, high: int | None = None) -> int:
    """Return the number if it lies between the limits, both included; by default those of a kernel's word.

    Raises ArgumentError naming the operator, the argument and the number.
    """
    if low is not None and number < low:
        limit = {0: "non-negative (0 or more)", 1: "greater than zero (1 or more)"}.get(low, f"{low} or more")
        raise ArgumentError(f"{op}: {name} must be {limit}, got {shown(number)}")
    least, most = LOWEST if low is None else low, LARGEST if high is None else high
    if not least <= number <= most:
        raise ArgumentError(f"{op}: {name} must lie between {least} and {most}, got {shown(number)}")
    return number


def positions(what: str, count: int) -> range:
    """Return range(count) for a table with an entry per position of an axis; CapacityError for more than
    MOST_POSITIONS."""
    if count > MOST_POSITIONS:
        raise CapacityError(
            f"{what}: {count} positions along an axis are more than the {MOST_POSITIONS} that are supported; use a "
            "smaller input or output"
        )
    return range(count)


def check_extents(what: str, shape: Sequence[int], itemsize: int) -> None:
    """Raise CapacityError for a shape that no memory can hold, or, with an empty axis, that NumPy cannot describe."""
    if math.prod(extent for extent in shape if extent) * max(itemsize, 1) >= MOST_BYTES:
        raise CapacityError(
            f"{what} of shape {[plain(extent) for extent in shape]} is larger than memory can be"
        )
