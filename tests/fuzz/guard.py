"""Arrays beside pages that nobody may touch: a kernel that reads or writes one byte too far dies at once."""

from __future__ import annotations

import ctypes
import mmap
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)


class Fence:
    """Regions between two forbidden pages, used again after `clear`: nobody may hold arrays of earlier cases then."""

    def __init__(self) -> None:
        self._free: dict[int, list[Array]] = {}
        self._used: list[tuple[int, Array]] = []

    def clear(self) -> None:
        """Take all regions back."""
        for pages, region in self._used:
            self._free.setdefault(pages, []).append(region)
        self._used.clear()

    def empty(self, shape: Sequence[int], dtype: Any, rng: random.Random) -> Array:
        """A row-major array filled with junk that ends at a forbidden page, or starts behind one."""
        dtype = np.dtype(dtype)
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        region = self._region(nbytes)
        start = region.nbytes - nbytes if rng.random() < 0.7 else 0
        block = region[start : start + nbytes]
        block[:] = 0xA5
        return block.view(dtype).reshape(shape) if nbytes else np.empty(shape, dtype)

    def copy(self, array: Array, rng: random.Random) -> Array:
        """The same elements in row-major order between forbidden pages."""
        made = self.empty(array.shape, array.dtype, rng)
        made[...] = array
        return made

    def _region(self, nbytes: int) -> Array:
        pages = 1 << max(0, -(-nbytes // PAGE) - 1).bit_length()
        free = self._free.get(pages)
        region = free.pop() if free else _fenced(pages)
        self._used.append((pages, region))
        return region


def _fenced(pages: int) -> Array:
    whole = mmap.mmap(-1, (pages + 2) * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    base = ctypes.addressof(ctypes.c_char.from_buffer(whole))
    for start in (base, base + (pages + 1) * PAGE):
        if _libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(PAGE), 0):
            raise OSError(ctypes.get_errno(), "mprotect")
    return np.frombuffer(whole, np.uint8, pages * PAGE, PAGE)
