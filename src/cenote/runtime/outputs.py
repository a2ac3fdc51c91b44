"""Memory of large results, which is used again once nobody holds the array any more.

Fresh memory is cleared by the system page by page when it is first touched, which takes longer than many a kernel that
writes it: of a convolution that gives 411 MB a third of its processor time, of a layer normalisation of 33 MB two
fifths. The allocator keeps what is freed only up to 32 MB. So the last large results are remembered, and one to which
no other reference is left is given out again. Views, memoryviews and other libraries' tensors on the same memory hold
the array that owns it, which is what is counted.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cenote.core.locks import Guard
from cenote.core.types import Array
from cenote.runtime.memory import empty_output

LARGE = 1 << 20  # bytes from which a result's memory is remembered
_KEPT = (
    256 << 20
)  # bytes remembered in all, or twice the last one: a program often holds one result while it makes the next


def _references(blocks: Sequence[Array]) -> list[int]:
    return [sys.getrefcount(block) for block in blocks]


class OutputMemory:
    """Arrays that own the memory of the last large results."""

    def __init__(self) -> None:
        self._blocks: list[Array] = []
        self._guard = Guard()
        # Counts mean something where one thread runs Python at a time. How many a free block has differs from one
        # version of Python to the next.
        counted = getattr(sys, "_is_gil_enabled", lambda: True)() and hasattr(sys, "getrefcount")
        self._free = _references([np.empty(1)])[0] if counted else -1

    def make(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """An array for a result; CapacityError where there is no memory for it."""
        kind = np.dtype(dtype)
        nbytes = kind.itemsize
        for extent in shape:
            nbytes *= extent
        if nbytes < LARGE or self._free < 0:
            return empty_output(shape, dtype)
        with self._guard.lock:  # until there is a reference, no other thread may see a block as free
            for block, references in zip(self._blocks, _references(self._blocks), strict=True):
                if references == self._free and (block.shape, block.dtype) == (shape, kind):
                    return block.view()
            self._make_room(nbytes)
            block = empty_output(shape, dtype)
            self._blocks.append(block)
            return block.view()

    def _make_room(self, nbytes: int) -> None:
        """Forget the oldest, so that no more than the limit is remembered with another of so many bytes."""
        most = max(_KEPT, 2 * nbytes) - nbytes
        while self._blocks and sum(block.nbytes for block in self._blocks) > most:
            del self._blocks[0]

    @contextlib.contextmanager
    def off(self) -> Iterator[None]:
        """Meanwhile all results get fresh memory."""
        free, self._free = self._free, -1
        try:
            yield
        finally:
            self._free = free

    def clear(self) -> None:
        """Forget all: what nobody holds goes back to the system."""
        with self._guard.lock:
            self._blocks.clear()


OUTPUTS = OutputMemory()
