"""Memory for generated code: aligned, touched in advance, addressed without overhead."""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
from typing import Any

import numpy as np

from cenote.core.errors import CapacityError
from cenote.core.types import Array

ALIGNMENT = 64
_HUGE, _SMALL = 2 << 20, 4096  # bytes of pages


def _read_data_field(array: Array) -> int:
    """Read the data pointer out of the array object itself: 0.2 us, where `array.ctypes.data` takes 1.5 us."""
    return ctypes.c_int64.from_address(id(array) + 16).value


def _ask_numpy(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _field_is_there() -> bool:
    """Whether PyArrayObject starts with reference count, type, data, as on every CPython release build: tested by
    examples."""
    probes = [np.empty(n, np.float32) for n in (1, 3, 1000)]
    return ctypes.sizeof(ctypes.c_void_p) == 8 and all(_read_data_field(p) == _ask_numpy(p) for p in probes)


DATA_FIELD: int | None = 16 if _field_is_there() else None
"""Bytes from an array object to its data pointer, for native code; None where that is not known."""

address_of = _ask_numpy if DATA_FIELD is None else _read_data_field


def aligned_bytes(nbytes: int, what: str) -> Array:
    """Return zeroed bytes, 64-byte aligned, already touched (a first touch costs 3 us per 4 KiB page); huge pages if
    large.

    Raises CapacityError naming `what` when there is not so much memory.
    """
    if nbytes < _HUGE:  # too small to ask the system for its free memory, which takes 0.01 to 0.1 ms
        try:
            raw = np.zeros(nbytes + ALIGNMENT, np.uint8)
        except MemoryError as error:
            raise CapacityError(f"{what}: there is no memory for {nbytes} bytes") from error
        start = -address_of(raw) % ALIGNMENT
        return raw[start : start + nbytes]
    _require_available(nbytes, what)
    block = _mapped(nbytes, what)
    block[::_SMALL] = 0
    return block


def reserved_bytes(nbytes: int) -> Array:
    """Return zeroed bytes at a huge page's boundary, not touched yet: they take no memory until they are written."""
    if not nbytes:
        return np.empty(0, np.uint8)
    region = mmap.mmap(-1, nbytes + _HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError, AttributeError):
        region.madvise(mmap.MADV_HUGEPAGE)
    raw = np.frombuffer(region, np.uint8)
    start = -address_of(raw) % _HUGE
    return raw[start : start + nbytes]


class GrowingBytes:
    """Memory that grows without moving: `array` is the part of a reserved range of addresses that has been touched so
    far.

    A first touch costs 0.2 ms a megabyte with huge pages, 1 ms without: a growth pays for what it adds.
    """

    _ROOM = 8  # reserved range, in multiples of the request; beyond it all is freed and another range taken

    def __init__(self, what: str) -> None:
        self.what = what
        self.array = self._range = np.empty(0, np.uint8)

    def grow(self, nbytes: int) -> None:
        """Provide at least this number of bytes; their old content is lost. Raises CapacityError as `aligned_bytes`."""
        if nbytes < _HUGE or nbytes > self._range.nbytes:
            self.array = self._range = np.empty(0, np.uint8)  # freed before the new one is taken
            if nbytes < _HUGE:
                self.array = aligned_bytes(nbytes, self.what)
                return
        _require_available(nbytes - self.array.nbytes, self.what)
        if not self._range.nbytes:
            self._range = self._reserved(nbytes)
        self._range[self.array.nbytes : nbytes : _SMALL] = 0
        self.array = self._range[:nbytes]

    def _reserved(self, nbytes: int) -> Array:
        """Reserve a range with room to grow; without room, where addresses are limited."""
        room = 1 if _addresses_are_limited() else self._ROOM
        with contextlib.suppress(OSError, OverflowError, ValueError, MemoryError):
            return reserved_bytes(room * nbytes)
        return _mapped(nbytes, self.what)


def _addresses_are_limited() -> bool:
    """Whether a process is limited in addresses (`ulimit -v`), or the system counts each as memory in use
    (vm.overcommit_memory=2)."""
    try:
        import resource

        with open("/proc/sys/vm/overcommit_memory") as mode:
            counted = mode.read().strip() == "2"
    except (ImportError, OSError):
        return True
    return counted or resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def _mapped(nbytes: int, what: str) -> Array:
    """Call `reserved_bytes`; CapacityError where that is not possible."""
    try:
        return reserved_bytes(nbytes)
    except (OSError, OverflowError, ValueError, MemoryError) as error:
        raise CapacityError(f"{what}: {nbytes / 1e6:.0f} MB could not be mapped ({error})") from error


def _require_available(nbytes: int, what: str) -> None:
    """Raise CapacityError where the system does not have this number of bytes."""
    if nbytes > available_bytes():
        raise CapacityError(
            f"{what}: needs {nbytes / 1e6:.0f} MB, only {available_bytes() / 1e6:.0f} MB are available"
        )


def available_bytes() -> int:
    """Memory that the system reports as available; unlimited where it does not report it."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return 1 << 62


def aligned_copy(array: Array, what: str) -> Array:
    """Return a C-contiguous copy at an aligned address."""
    block = aligned_bytes(array.nbytes, what)
    copy: Array = (
        block.view(array.dtype).reshape(array.shape) if array.size else np.empty(array.shape, array.dtype)
    )
    copy[...] = array
    return copy


def is_aligned(array: Array) -> bool:
    return bool(array.flags.c_contiguous) and address_of(array) % ALIGNMENT == 0


def empty_output(shape: tuple[int, ...], dtype: Any) -> Array:
    """Return a fresh array for a result; CapacityError when there is no memory for it."""
    try:
        return np.empty(shape, dtype)
    except (MemoryError, ValueError) as error:
        raise _too_large(shape, math.prod(shape) * np.dtype(dtype).itemsize, error) from error


def empty_owner(shape: tuple[int, ...], nbytes: int) -> Array:
    """Return memory with room for a result of this shape at an aligned address (`aligned_in`); CapacityError where
    there is none."""
    try:
        return np.empty(nbytes + ALIGNMENT, np.uint8)
    except (MemoryError, ValueError) as error:
        raise _too_large(shape, nbytes, error) from error


def aligned_in(owner: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """Return an array at the first aligned address of memory from `empty_owner`."""
    return np.ndarray(shape, dtype, owner, -address_of(owner) % ALIGNMENT)


def _too_large(shape: tuple[int, ...], nbytes: int, error: Exception) -> CapacityError:
    return CapacityError(f"an output of shape {list(shape)} needs {nbytes / 1e6:.0f} MB: {error}")
