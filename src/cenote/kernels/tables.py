"""Arrays and numbers that kernels' calls take and that follow from sizes by more than a formula.

They are computed anew for every set of sizes (`core.computed`), also by a process that found its plan in the cache: so
this module imports nothing that emits code.
"""

from __future__ import annotations

import itertools

import numpy as np

from cenote.core.errors import UnsupportedError
from cenote.core.types import Array


def tap_table(
    window: tuple[int, ...], steps: tuple[int, ...], origin: int, channels: int, channel_step: int
) -> Array:
    """The offsets of a window's taps, channel by channel, from `origin` on."""
    taps = [
        sum(i * step for i, step in zip(tap, steps, strict=True)) - origin
        for tap in itertools.product(*map(range, window))
    ]
    table = np.add.outer(np.arange(channels, dtype=np.int64) * channel_step, np.array(taps, np.int64)).ravel()
    if table.size and np.abs(table).max() >= 1 << 31:
        raise UnsupportedError("conv: an image of more than 2**31 elements is not supported; split it")
    return table.astype(np.int32)


def row_table(window: tuple[int, ...], steps: tuple[int, ...], origin: int) -> Array:
    """Offsets of the rows (or taps) of a window from a pixel."""
    taps = itertools.product(*map(range, window))
    return np.array(
        [sum(i * step for i, step in zip(tap, steps, strict=True)) - origin for tap in taps], np.int32
    )


def tap_steps(count: int, step: int) -> Array:
    """Where taps begin."""
    return (np.arange(count) * step).astype(np.int32)


def whole_numbers(values: tuple[object, ...]) -> Array:
    """Numbers, or tuples of them, as an array."""
    return np.array(values, np.int64)


def zeros(count: int) -> Array:
    """No bias."""
    return np.zeros(count, np.float32)


def first_that_covers(pixels: int, widths: tuple[int, ...]) -> int:
    """The index of the first width that, with tiles one narrower, covers exactly so many pixels."""
    return next(
        index
        for index, width in enumerate(widths)
        if width == 1 or -(-pixels // width) <= pixels // (width - 1)
    )
