"""Arrays in a temporary file instead of memory, so that one engine's memory is free before another works."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import mmap
import tempfile
from dataclasses import replace
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.types import Array, TensorType
from cenote.frontends.imported import ImportedModel
from cenote.graph.graph import Graph

# Bytes from which a constant is kept in the file.
_LARGE = 1 << 20


@dataclass(frozen=True)
class _Place:
    """The place of an array in the file."""

    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class Spill:
    """A file that is deleted when the block ends. `write` and `read` store any array of numbers; the large constants
    of a graph become views of the file, whose pages `forget` releases from memory until they are read again.
    """

    def __init__(self) -> None:
        # It is closed by __exit__.
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        self._end = 0
        self._maps: list[mmap.mmap] = []
        # Views by id, kept alive so that ids stay valid: these constants are in the file already.
        self._views: dict[int, Array] = {}

    def __enter__(self) -> Spill:
        return self

    def __exit__(self, *_: object) -> None:
        # Pages that views refer to exist as long as the views.
        self._file.close()

    def write(self, array: Array) -> _Place:
        place = _Place(self._end, array.dtype, array.shape)
        self._file.seek(self._end)
        self._file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        self._end += -(-array.nbytes // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        return place

    def read(self, place: _Place) -> Array:
        array = np.empty(place.shape, place.dtype)
        self._file.seek(place.offset)
        self._file.readinto(array.reshape(-1).view(np.uint8).data)
        return array

    def graph(self, graph: Graph) -> Graph:
        """Return the graph with its large constants in the file."""
        large = [
            (name, array)
            for name, array in graph.constants.items()
            if type(array) is np.ndarray
            and array.nbytes >= _LARGE
            and array.dtype != object
            and id(array) not in self._views
        ]
        if not large:
            return graph
        begin = self._end
        places = [self.write(array) for _, array in large]
        # To whole pages.
        self._file.truncate(self._end)
        self._file.flush()
        mapped = mmap.mmap(self._file.fileno(), self._end - begin, access=mmap.ACCESS_READ, offset=begin)
        self._maps.append(mapped)
        constants, types = dict(graph.constants), dict(graph.types)
        for (name, array), place in zip(large, places, strict=True):
            content = np.frombuffer(mapped, np.uint8, array.nbytes, place.offset - begin)
            view = content.view(place.dtype).reshape(place.shape)
            self._views[id(view)] = constants[name] = view
            # A new type, since one that passes left may hold the content.
            types[name] = TensorType(place.dtype, place.shape)
        return graph.replace(constants=constants, types=types)

    def model(self, imported: ImportedModel) -> ImportedModel:
        return replace(imported, graph=self.graph(imported.graph))

    def forget(self) -> None:
        """Release the pages of the file that were read from memory."""
        # On Linux.
        if hasattr(mmap, "MADV_DONTNEED"):
            for mapped in self._maps:
                mapped.madvise(mmap.MADV_DONTNEED)

    def settle(self) -> None:
        """Free the memory of a finished phase before the next one, including the memory that the allocator kept."""
        self.forget()
        gc.collect()
        # GNU's C library.
        with contextlib.suppress(AttributeError, OSError, TypeError):
            ctypes.CDLL(None).malloc_trim(0)
