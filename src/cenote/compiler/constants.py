"""Weights in the form in which programs hold them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import numpy as np

from cenote.core.computed import ComputedArray, SizedArray
from cenote.core.types import Array
from cenote.kernels.base import Packed, Preparation
from cenote.runtime.memory import reserved_bytes
from cenote.runtime.pieces import helped
from cenote.runtime.steps import Slot, SlotKind

_LARGE = 1 << 20  # bytes from which an array has pages of its own anyway, and is not worth copying


class ConstantPool:
    """Packed weights that several plans of one model share: equal content is kept once.

    They lie in large slabs that the system backs with huge pages: fewer faults when loading, fewer TLB misses after.
    `preparations`, by the ids of kept arrays, is filled where it is asked for: they hold the weights as they were.
    """

    _SLAB = 8 << 20

    def __init__(self, keep_preparations: bool = False) -> None:
        self.preparations: dict[int, Preparation] | None = {} if keep_preparations else None
        self._kept: dict[tuple[Any, ...], list[Array]] = {}
        self._slab = reserved_bytes(0)
        self._used = 0

    def intern(self, array: Array) -> Array:
        """Return the kept array with this content; a new one is copied into the pool, unless it is large."""
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


class Constants:
    """Constants of a program, in the order in which its steps name them."""

    def __init__(self, pool: ConstantPool) -> None:
        self.arrays: list[Array] = []
        self._pool = pool
        self._slots: dict[int, Slot] = {}  # by the id of the array or of the Packed that waits
        self._waiting: list[tuple[int, Packed] | None] = []

    def add(self, array: Array) -> Slot:
        """Return the slot of an array: one, however often its content is added."""
        kept = self._pool.intern(array)
        slot = self._slots.get(id(kept))
        if slot is None:
            slot = self._slots[id(kept)] = Slot(SlotKind.CONSTANT, len(self.arrays))
            self.arrays.append(kept)
        return slot

    def add_packed(self, packed: Packed) -> Slot:
        """Return the slot of a constant that is still to be packed: one, however many calls read it."""
        slot = self._slots.get(id(packed))
        if slot is None:
            slot = self._slots[id(packed)] = Slot(SlotKind.CONSTANT, len(self.arrays))
            self._waiting.append((slot.index, packed))
            self.arrays.append(_NOTHING)
        return slot

    @contextmanager
    def packing(self) -> Iterator[None]:
        """Pack the waiting constants, on all cores, within this context. Their sources are freed piece by piece, so
        that memory never holds all weights twice."""
        lock, waiting = Lock(), self._waiting

        def work(number: int) -> None:
            task, waiting[number] = waiting[number], None
            assert task is not None, "each is packed once"
            index, array, prepared = task[0], task[1].make(), task[1].prepared
            del task
            with lock:
                kept = self.arrays[index] = self._pool.intern(array)
                if prepared and self._pool.preparations is not None:
                    self._pool.preparations[id(kept)] = prepared
            del prepared

        with helped(len(waiting), work):
            yield
        waiting.clear()
        self._slots = {id(array): Slot(SlotKind.CONSTANT, index) for index, array in enumerate(self.arrays)}


class Weights:
    """Constants of a graph, before they are part of a program: `arrays` by name, each removed after its last use, so
    that memory never holds all weights twice. `tables` are arrays that depend on sizes, numbered, by their texts."""

    def __init__(self, arrays: dict[str, Array], constants: Constants) -> None:
        self.arrays, self.constants = arrays, constants
        self.tables: dict[str, tuple[int, ComputedArray]] = {}
        self._names = list(arrays)
        self._slots: dict[str, Slot] = {}

    def slot(self, name: str) -> Slot:
        """Return the slot of a weight that some step reads as it is."""
        if name not in self._slots:
            content = self.arrays[name]
            self._slots[name] = (
                self.table(content.table())
                if isinstance(content, SizedArray)
                else self.constants.add(content)
            )
        return self._slots[name]

    def kept(self, slot: Slot) -> Slot:
        """Return a slot of a view of a weight, which counts the graph's weights, as one of the program's constants."""
        kept = self.slot(self._names[slot.index])
        return Slot(kept.kind, kept.index, slot.offset)

    def table(self, table: ComputedArray) -> Slot:
        """Return the slot of an array that depends on sizes."""
        number, _ = self.tables.setdefault(table.code, (len(self.tables), table))
        return Slot(SlotKind.TABLE, number)


_NOTHING: Array = np.empty(0, np.float32)
