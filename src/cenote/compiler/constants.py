"""Weights as programs hold them."""

from __future__ import annotations

from typing import Any

import numpy as np

from cenote.core.types import Array
from cenote.runtime.memory import reserved_bytes

_LARGE = 1 << 20  # bytes from which an array has pages of its own anyway, and is not worth copying


class ConstantPool:
    """Packed weights that several plans of one model share: equal content is kept once.

    They lie in large slabs that the system backs with huge pages: fewer faults when loading, fewer TLB misses after.
    """

    _SLAB = 8 << 20

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], list[Array]] = {}
        self._slab = reserved_bytes(0)
        self._used = 0

    def intern(self, array: Array) -> Array:
        """The kept array with this content; a new one is copied into the pool, unless it is large."""
        flat = array.reshape(-1)
        probe = flat[:: max(1, flat.size // 64)].tobytes()
        same = self._kept.setdefault((array.shape, array.dtype.str, probe), [])
        for kept in same:
            if kept is array or np.array_equal(_bytes(kept), _bytes(array)):
                return kept
        large = array.nbytes >= _LARGE and array.flags.c_contiguous
        fresh = array if large else self._copy(array)
        same.append(fresh)
        return fresh

    def _copy(self, array: Array) -> Array:
        nbytes = -(-array.nbytes // 64) * 64
        if self._used + nbytes > self._slab.nbytes:
            self._slab, self._used = reserved_bytes(max(nbytes, self._SLAB)), 0
        block = self._slab[self._used : self._used + array.nbytes]
        self._used += nbytes
        copy: Array = block.view(array.dtype).reshape(array.shape) if array.size else array.copy()
        copy[...] = array
        return copy


def _bytes(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
