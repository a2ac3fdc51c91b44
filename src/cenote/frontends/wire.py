"""The protobuf wire format: places of a message's fields in a file, without reading their content.

Whole models are parsed by protobuf itself; this module is for leaving out large fields, so that weights are read
once, directly into arrays of their own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from cenote.core.deferred import dataclass
from cenote.runtime.pieces import on_all_cores

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
# Bytes that a thread reads at a time.
_PIECE = 2 << 20
# Bytes: a smaller tensor stays in its place.
SMALL = 4096


class ByteSource(Protocol):
    """Random access to a file's bytes."""

    size: int

    def read(self, offset: int, length: int) -> bytes:
        """Return a copy of some bytes; fewer at the end of the file."""
        ...

    def array(self, offset: int, length: int) -> NDArray[np.uint8]:
        """Return some bytes as an array; fewer at the end of the file."""
        ...

    def arrays(self, spans: Sequence[ByteRange]) -> list[NDArray[np.uint8]]:
        """Return several arrays, read on all cores."""
        ...


class FileSource:
    """An open file; `array` reads into new memory, and raises OSError where the file has become shorter."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.size = file.seek(0, 2)

    def read(self, offset: int, length: int) -> bytes:
        self.file.seek(offset)
        return self.file.read(length)

    def array(self, offset: int, length: int) -> NDArray[np.uint8]:
        return self.arrays([ByteRange(offset, length)])[0]

    def arrays(self, spans: Sequence[ByteRange]) -> list[NDArray[np.uint8]]:
        arrays = [np.empty(max(0, min(span.length, self.size - span.offset)), np.uint8) for span in spans]
        pieces = [
            (array[at : at + _PIECE].data, span.offset + at)
            for array, span in zip(arrays, spans, strict=True)
            for at in range(0, array.size, _PIECE)
        ]
        on_all_cores(len(pieces), lambda index: self._fill(*pieces[index]))
        return arrays

    def _fill(self, room: memoryview, offset: int) -> None:
        while room:
            count = os.preadv(self.file.fileno(), [room], offset)
            if not count:
                raise OSError("it became shorter")
            room, offset = room[count:], offset + count


class BytesSource:
    """Bytes in memory; `array` is a view of them."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.size = len(content)

    def read(self, offset: int, length: int) -> bytes:
        return self.content[offset : offset + length]

    def array(self, offset: int, length: int) -> NDArray[np.uint8]:
        return np.frombuffer(self.content, np.uint8)[offset : offset + length]

    def arrays(self, spans: Sequence[ByteRange]) -> list[NDArray[np.uint8]]:
        return [self.array(span.offset, span.length) for span in spans]


@dataclass(frozen=True)
class ByteRange:
    """Bytes offset..offset+length-1 of a source."""

    offset: int
    length: int

    @property
    def end(self) -> int:
        return self.offset + self.length


class IrregularError(Exception):
    """The bytes are not those of a well-formed model."""


@dataclass(frozen=True)
class Field:
    """One field of a message: all its bytes, and its content if it is length-delimited."""

    number: int
    whole: ByteRange
    content: ByteRange | None


def fields_of(source: ByteSource, message: ByteRange, most: int = 1 << 40) -> list[Field]:
    """Return the fields of a message, in order; the first ones where there are more than `most`."""
    fields: list[Field] = []
    offset = message.offset
    while offset < message.end and len(fields) < most:
        # A tag and a length: 10 bytes each at most.
        header = source.read(offset, min(20, message.end - offset))
        tag, used = varint(header, 0)
        kind, content = tag & 7, None
        if kind == VARINT:
            _, used = varint(header, used)
        elif kind == BYTES:
            length, used = varint(header, used)
            content = ByteRange(offset + used, length)
            used += length
        elif kind in (FIXED32, FIXED64):
            used += 4 if kind == FIXED32 else 8
        else:
            raise IrregularError
        if offset + used > message.end:
            raise IrregularError
        fields.append(Field(tag >> 3, ByteRange(offset, used), content))
        offset += used
    return fields


def varint(content: bytes, position: int) -> tuple[int, int]:
    """Return a base-128 integer and the position after it."""
    value = 0
    for count in range(10):
        if position + count >= len(content):
            raise IrregularError
        byte = content[position + count]
        value |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return value, position + count + 1
    raise IrregularError


def delimited(number: int, content: bytes) -> bytes:
    """Return a length-delimited field."""
    header = bytearray([number << 3 | BYTES])
    length = len(content)
    while length > 0x7F:
        header.append(length & 0x7F | 0x80)
        length >>= 7
    header.append(length)
    return bytes(header) + content


def join(source: ByteSource, pieces: Sequence[ByteRange | bytes]) -> bytes:
    """Return the bytes of all pieces; neighbouring spans are read at once."""
    parts: list[bytes] = []
    run: ByteRange | None = None
    for piece in [*pieces, b""]:
        if isinstance(piece, ByteRange) and run is not None and run.end == piece.offset:
            run = ByteRange(run.offset, run.length + piece.length)
            continue
        if run is not None:
            parts.append(source.read(run.offset, run.length))
        run = piece if isinstance(piece, ByteRange) else None
        if isinstance(piece, bytes):
            parts.append(piece)
    return b"".join(parts)
