"""Splits an ONNX file into a small skeleton and the weights, so that weights are read once and never copied.

Parsing a model of 100 MB with protobuf holds it up to three times: the file's bytes, the parsed message, and
the bytes object that each access to a tensor makes. Only three levels of the file matter for the weights

    ModelProto.graph (7) -> GraphProto.initializer (5) -> TensorProto.raw_data (9)

so this module walks the protobuf wire format (tags, lengths) down these three, leaves out every large
`raw_data`, and says where each one lies. The skeleton, usually a few hundred kilobytes, goes to protobuf;
each weight is read straight into its own array, which is freed on its own when the program has packed it. A
file that is irregular in any way is left whole: protobuf then says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

GRAPH, INITIALIZER, RAW_DATA = 7, 5, 9
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
SMALL = 4096  # bytes: below this a tensor stays in the skeleton


class Source(Protocol):
    """Random access to a file's bytes."""

    size: int

    def read(self, offset: int, length: int) -> bytes:
        """A copy of some bytes; fewer at the end of the file."""
        ...

    def array(self, offset: int, length: int) -> NDArray[np.uint8]:
        """Some bytes as an array; fewer at the end of the file."""
        ...


class FileSource:
    """An open file; `array` reads into memory of its own."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.size = file.seek(0, 2)

    def read(self, offset: int, length: int) -> bytes:
        self.file.seek(offset)
        return self.file.read(length)

    def array(self, offset: int, length: int) -> NDArray[np.uint8]:
        content = np.empty(max(0, min(length, self.size - offset)), np.uint8)
        self.file.seek(offset)
        filled = 0
        while filled < content.size:
            count = self.file.readinto(content[filled:].data)  # type: ignore[attr-defined]  # binary files have it
            if not count:
                break
            filled += count
        return content[:filled]


class BytesSource:
    """Bytes in memory; `array` is a view of them."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.size = len(content)

    def read(self, offset: int, length: int) -> bytes:
        return self.content[offset : offset + length]

    def array(self, offset: int, length: int) -> NDArray[np.uint8]:
        return np.frombuffer(self.content, np.uint8)[offset : offset + length]


@dataclass(frozen=True)
class Span:
    """Bytes offset..offset+length-1 of a source."""

    offset: int
    length: int

    @property
    def end(self) -> int:
        return self.offset + self.length


@dataclass(frozen=True)
class Split:
    """`skeleton`: a ModelProto without the large weights; `weights`: where they lie, by position among the
    graph's initializers."""

    skeleton: bytes
    weights: dict[int, Span]


class _IrregularError(Exception):
    """The bytes are not what a well-formed model looks like."""


@dataclass(frozen=True)
class _Field:
    """One field of a message: all its bytes, and its content when it is length-delimited."""

    number: int
    whole: Span
    content: Span | None


def split(source: Source) -> Split:
    """The skeleton and the weights of an ONNX file; all bytes and no weights when the file is irregular."""
    try:
        return _split_model(source)
    except _IrregularError:
        return Split(source.read(0, source.size), {})


def _split_model(source: Source) -> Split:
    model = _fields(source, Span(0, source.size))
    graphs = [field for field in model if field.number == GRAPH]
    if len(graphs) != 1 or graphs[0].content is None:
        raise _IrregularError
    weights: dict[int, Span] = {}
    pieces: list[Span | bytes] = []
    position = 0
    for field in _fields(source, graphs[0].content):
        if field.number != INITIALIZER or field.content is None:
            pieces.append(field.whole)
            continue
        tensor = _without_raw_data(source, field.content) if field.content.length >= SMALL else None
        if tensor is None:
            pieces.append(field.whole)
        else:
            kept, weights[position] = tensor
            pieces.append(_delimited(INITIALIZER, kept))
        position += 1
    graph = _delimited(GRAPH, _join(source, pieces))
    outside = [field.whole for field in model if field.number != GRAPH]
    return Split(_join(source, [*outside, graph]), weights)


def _without_raw_data(source: Source, tensor: Span) -> tuple[bytes, Span] | None:
    """A TensorProto's bytes without raw_data, and where that is; None when it has none or it is small."""
    fields = _fields(source, tensor)
    raw = [field for field in fields if field.number == RAW_DATA]
    if len(raw) != 1 or raw[0].content is None or raw[0].content.length < SMALL:
        return None
    return _join(source, [field.whole for field in fields if field.number != RAW_DATA]), raw[0].content


def _fields(source: Source, message: Span) -> list[_Field]:
    """The fields of a message, in order."""
    fields = []
    offset = message.offset
    while offset < message.end:
        header = source.read(
            offset, min(20, message.end - offset)
        )  # a tag and a length: 10 bytes each at most
        tag, used = _varint(header, 0)
        kind, content = tag & 7, None
        if kind == VARINT:
            _, used = _varint(header, used)
        elif kind == BYTES:
            length, used = _varint(header, used)
            content = Span(offset + used, length)
            used += length
        elif kind in (FIXED32, FIXED64):
            used += 4 if kind == FIXED32 else 8
        else:
            raise _IrregularError
        if offset + used > message.end:
            raise _IrregularError
        fields.append(_Field(tag >> 3, Span(offset, used), content))
        offset += used
    return fields


def _varint(content: bytes, position: int) -> tuple[int, int]:
    """A base-128 integer and the position after it."""
    value = 0
    for count in range(10):
        if position + count >= len(content):
            raise _IrregularError
        byte = content[position + count]
        value |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return value, position + count + 1
    raise _IrregularError


def _delimited(number: int, content: bytes) -> bytes:
    """A length-delimited field."""
    header = bytearray([number << 3 | BYTES])
    length = len(content)
    while length > 0x7F:
        header.append(length & 0x7F | 0x80)
        length >>= 7
    header.append(length)
    return bytes(header) + content


def _join(source: Source, pieces: Sequence[Span | bytes]) -> bytes:
    """The bytes of all pieces; neighbouring spans are read at once."""
    parts: list[bytes] = []
    run: Span | None = None
    for piece in [*pieces, b""]:
        if isinstance(piece, Span) and run is not None and run.end == piece.offset:
            run = Span(run.offset, run.length + piece.length)
            continue
        if run is not None:
            parts.append(source.read(run.offset, run.length))
        run = piece if isinstance(piece, Span) else None
        if isinstance(piece, bytes):
            parts.append(piece)
    return b"".join(parts)
