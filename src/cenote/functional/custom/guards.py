"""Arrays between guards, on which a kernel of a user's is tried: what it writes outside shows, and what it reads there
spoils its result, if it counts at all.
"""

from __future__ import annotations

import numpy as np

from cenote.core.types import Array, TensorType, is_float

GUARD = 4096  # bytes on either side
# Bits that fill guards and fresh outputs: NaN of each size, and 0x5a5a… of integers.
_NANS = {2: 0xFFE5, 4: 0xFFE5A5A5, 8: 0xFFFFA5A5A5A5A5A5}


class GuardedArray:
    """Array of a type with guards before and behind it; a copy of `content`, or junk."""

    def __init__(self, type: TensorType, content: Array | None = None) -> None:
        size = type.dtype.itemsize
        bits = _NANS[size] if is_float(type.dtype) else int.from_bytes(b"\x5a" * size)
        self._around = GUARD // size
        self._whole = np.full(type.size + 2 * self._around, bits, f"u{size}")
        self._clean = self._whole[: self._around].copy()
        inside = self._whole[self._around : self._around + type.size]
        self.array: Array = inside.view(type.dtype).reshape(type.shape)
        if content is not None:
            self.array[...] = content

    def touched(self) -> str:
        """Return where something was written outside of the array: "before" or "behind" it; "" for nowhere."""
        before, behind = self._whole[: self._around], self._whole[len(self._whole) - self._around :]
        if not np.array_equal(before, self._clean):
            return "before"
        return "" if np.array_equal(behind, self._clean) else "behind"
