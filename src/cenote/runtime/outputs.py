"""Memory of results: aligned, and that of large ones reused once no reference to the array is left.

NumPy's own memory begins 16 bytes into a cache line, and each store of a vector of 64 bytes touches two lines then:
maps of 0.4 MB were written in 32 us instead of 15 by a kernel that only moves them.

Fresh memory is cleared by the system page by page when it is first touched, which takes longer than many a kernel
that writes it: for a convolution with a result of 411 MB a third of its processor time, for a layer normalisation of
33 MB two fifths. The allocator keeps freed memory only up to 32 MB. So the last large results are remembered, and one
to which no other reference is left is handed out again. Views, memoryviews and other libraries' tensors on the same
memory hold a reference to the array that owns it, and these references are counted.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cenote.core.locks import Guard
from cenote.core.types import Array
from cenote.runtime.memory import ALIGNMENT, aligned_in, empty_output, empty_owner

# Bytes from which a result is aligned: smaller ones gain less than the 0.7 us that it takes.
ALIGNED = 64 << 10
LARGE = 1 << 20  # bytes from which a result's memory is remembered
# Most bytes remembered, or twice the last one: a program often holds one result while it computes the next.
_KEPT = 256 << 20


def _references(blocks: Sequence[Array]) -> list[int]:
    return [sys.getrefcount(block) for block in blocks]


class OutputMemory:
    """Owners of the memory of the last large results."""

    def __init__(self) -> None:
        self._blocks: list[Array] = []
        self._guard = Guard()
        # Counts are meaningful where one thread runs Python at a time. A free block's count differs from one version
        # of Python to the next.
        counted = getattr(sys, "_is_gil_enabled", lambda: True)() and hasattr(sys, "getrefcount")
        self._free = _references([np.empty(1)])[0] if counted else -1

    def make(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Return an array for a result; CapacityError where there is no memory for it."""
        nbytes = np.dtype(dtype).itemsize
        for extent in shape:
            nbytes *= extent
        if nbytes < ALIGNED:
            return empty_output(shape, dtype)
        if nbytes < LARGE or self._free < 0:
            return aligned_in(empty_owner(shape, nbytes), shape, dtype)
        with self._guard.lock:  # until there is a reference, no other thread may take a block as free
            for block, references in zip(self._blocks, _references(self._blocks), strict=True):
                if references == self._free and block.nbytes == nbytes + ALIGNMENT:
                    return aligned_in(block, shape, dtype)
            self._make_room(nbytes)
            block = empty_owner(shape, nbytes)
            self._blocks.append(block)
            return aligned_in(block, shape, dtype)

    def _make_room(self, nbytes: int) -> None:
        """Forget the oldest blocks until a block of this number of bytes fits the limit."""
        most = max(_KEPT, 2 * nbytes) - nbytes
        while self._blocks and sum(block.nbytes for block in self._blocks) > most:
            del self._blocks[0]

    @contextlib.contextmanager
    def off(self) -> Iterator[None]:
        """Take fresh memory for all results within this context."""
        free, self._free = self._free, -1
        try:
            yield
        finally:
            self._free = free

    def clear(self) -> None:
        """Forget all blocks; blocks without references are freed."""
        with self._guard.lock:
            self._blocks.clear()


OUTPUTS = OutputMemory()
