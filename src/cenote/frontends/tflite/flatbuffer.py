"""Reader of FlatBuffers in place: tables whose fields are given by slot and kind.

The format is FlatBuffers' (flatbuffers.dev, "internals"): a table starts with the distance back to its vtable, which
holds for each slot the offset of the field from the table's start, 0 for a field with its default. Nothing is
trusted: an offset outside of the file is a ModelError.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from cenote.core.errors import ModelError
from cenote.core.types import Array
from cenote.frontends.wire import ByteSource

_BLOCK = 1 << 16
_FORMS = {
    "bool": "<?", "int8": "<b", "uint8": "<B", "int16": "<h", "uint16": "<H", "int32": "<i", "uint32": "<I",
    "int64": "<q", "uint64": "<Q", "float32": "<f", "float64": "<d",
}  # fmt: skip

Fields = Mapping[str, tuple[int, str, Any]]
"""Slot, kind and default of each field of a table. A kind is a number's, "text", "table", "tables", "texts", or a
number's with [] behind it."""


class FlatBuffer:
    """Random access to a file, a block at a time."""

    def __init__(self, source: ByteSource) -> None:
        self.source = source
        self._block = lru_cache(64)(lambda index: source.read(index * _BLOCK, _BLOCK))

    def bytes(self, offset: int, length: int) -> bytes:
        """Return bytes. Raises ModelError for bytes outside of the file."""
        if offset < 0 or length < 0 or offset + length > self.source.size:
            raise ModelError(f"damaged: {length} bytes at {offset} of a file of {self.source.size}")
        first, last = offset // _BLOCK, (offset + max(length, 1) - 1) // _BLOCK
        if first == last:
            start = offset - first * _BLOCK
            return self._block(first)[start : start + length]
        return self.source.read(offset, length)

    def number(self, offset: int, kind: str) -> Any:
        form = _FORMS[kind]
        return struct.unpack(form, self.bytes(offset, struct.calcsize(form)))[0]

    def array(self, offset: int, length: int) -> Array:
        """Return bytes as a separate array."""
        if offset < 0 or length < 0 or offset + length > self.source.size:
            raise ModelError(f"damaged: {length} bytes at {offset} of a file of {self.source.size}")
        return self.source.array(offset, length)

    def follow(self, offset: int) -> int:
        """Return the position that an offset stored at `offset` leads to."""
        return offset + int(self.number(offset, "uint32"))


class FlatTable:
    """A table of a buffer; `table["name"]` is a field."""

    def __init__(self, buffer: FlatBuffer, position: int, fields: Fields) -> None:
        self.buffer, self.position, self.fields = buffer, position, fields
        self.vtable = position - buffer.number(position, "int32")
        self.slots = (buffer.number(self.vtable, "uint16") - 4) // 2

    def place(self, name: str) -> int:
        """Return the position of a field; 0 for a field with its default."""
        slot = self.fields[name][0]
        if slot >= self.slots:
            return 0
        offset = self.buffer.number(self.vtable + 4 + 2 * slot, "uint16")
        return self.position + offset if offset else 0

    def __getitem__(self, name: str) -> Any:
        """Return a number, text, or array of numbers."""
        _, kind, default = self.fields[name]
        place = self.place(name)
        if not place:
            return default
        if kind == "text":
            return self._text(self.buffer.follow(place))
        if kind.endswith("[]"):
            start, count = self._vector(name)
            dtype = np.dtype(kind[:-2])
            return self.buffer.array(start, count * dtype.itemsize).view(dtype)
        return self.buffer.number(place, kind)

    def numbers(self, name: str) -> tuple[int, ...]:
        """Return a list of integers; empty when absent."""
        content = self[name]
        return () if content is None else tuple(int(number) for number in content)

    def _text(self, position: int) -> str:
        length = self.buffer.number(position, "uint32")
        try:
            return self.buffer.bytes(position + 4, length).decode()
        except UnicodeDecodeError as error:
            raise ModelError("damaged: a name is no text") from error

    def _vector(self, name: str) -> tuple[int, int]:
        """Return the position of a vector's first item, and the number of items."""
        place = self.place(name)
        if not place:
            return 0, 0
        position = self.buffer.follow(place)
        return position + 4, int(self.buffer.number(position, "uint32"))

    def span(self, name: str) -> tuple[int, int]:
        """Return offset and bytes of a vector of bytes."""
        return self._vector(name)

    def table(self, name: str, fields: Fields) -> FlatTable | None:
        """Return a table in a field."""
        place = self.place(name)
        return FlatTable(self.buffer, self.buffer.follow(place), fields) if place else None

    def tables(self, name: str, fields: Fields) -> Iterator[FlatTable]:
        """Yield the tables of a vector of tables."""
        start, count = self._vector(name)
        if count * 4 > self.buffer.source.size:
            raise ModelError(f"damaged: {count} items in '{name}'")
        for index in range(count):
            yield FlatTable(self.buffer, self.buffer.follow(start + 4 * index), fields)


def root(source: ByteSource, identifier: bytes, fields: Fields) -> FlatTable:
    """Return the root table of a file. Raises ModelError when the file is not one of that identifier."""
    buffer = FlatBuffer(source)
    if source.size < 8 or buffer.bytes(4, 4) != identifier:
        raise ModelError(f"no file of kind {identifier.decode()}")
    return FlatTable(buffer, buffer.follow(0), fields)
