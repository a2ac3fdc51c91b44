"""Arrays in a temporary file instead of memory: one engine's memory is free before another works."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import mmap
import tempfile
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cenote.core.types import Array, TensorType
from cenote.frontends.imported import ImportedModel
from cenote.graph.graph import Graph

_LARGE = 1 << 20  # bytes from which a constant is worth a place in the file


@dataclass(frozen=True)
class _Place:
    """Where an array lies in the file."""

    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class Spill:
    """A file that goes when the block ends. `write` and `read` keep any array of numbers; the large
    constants of a graph become views of the file, whose pages `forget` takes out of memory until they are read again.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # closed by __exit__
        self._end = 0
        self._maps: list[mmap.mmap] = []
        self._views: dict[int, Array] = {}  # by id, and so kept: they are in the file already

    def __enter__(self) -> Spill:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()  # its pages that views refer to stay as long as these

    def write(self, array: Array) -> _Place:
        place = _Place(self._end, array.dtype, array.shape)
        self._file.seek(self._end)
        self._file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        self._end += -(-array.nbytes // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        return place

    def read(self, place: _Place) -> Array:
        made = np.empty(place.shape, place.dtype)
        self._file.seek(place.offset)
        self._file.readinto(made.reshape(-1).view(np.uint8).data)
        return made

    def graph(self, graph: Graph) -> Graph:
        """The graph with its large constants in the file."""
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
        self._file.truncate(self._end)  # whole pages
        self._file.flush()
        mapped = mmap.mmap(self._file.fileno(), self._end - begin, access=mmap.ACCESS_READ, offset=begin)
        self._maps.append(mapped)
        constants, types = dict(graph.constants), dict(graph.types)
        for (name, array), place in zip(large, places, strict=True):
            content = np.frombuffer(mapped, np.uint8, array.nbytes, place.offset - begin)
            view = content.view(place.dtype).reshape(place.shape)
            self._views[id(view)] = constants[name] = view
            types[name] = TensorType(place.dtype, place.shape)  # one that passes left may hold the content
        return graph.replace(constants=constants, types=types)

    def model(self, imported: ImportedModel) -> ImportedModel:
        return replace(imported, graph=self.graph(imported.graph))

    def forget(self) -> None:
        """Let the pages of the file go that were read."""
        if hasattr(mmap, "MADV_DONTNEED"):  # Linux
            for mapped in self._maps:
                mapped.madvise(mmap.MADV_DONTNEED)

    def settle(self) -> None:
        """Between one phase and the next: give back what the first left, what the allocator kept of it too."""
        self.forget()
        gc.collect()
        with contextlib.suppress(AttributeError, OSError, TypeError):  # GNU's C library
            ctypes.CDLL(None).malloc_trim(0)
