"""Values of variables: TensorFlow's checkpoints (`name.index` and `name.data-00000-of-00001`).

The index is a sorted table in the format of LevelDB (github.com/google/leveldb, doc/table_format.md): blocks of
entries whose keys share prefixes, an index block with a handle for each, a footer of 48 bytes. A value is a
BundleEntryProto, which has the tensor's place in the data files. Tensors are read when they are requested, each into
a separate array.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cenote.core.errors import ModelError, UnsupportedError
from cenote.core.files import reading
from cenote.core.types import Array
from cenote.frontends.tensorflow.messages import parse_bytes
from cenote.frontends.tensorflow.tensors import dtype_of, from_bytes
from cenote.frontends.wire import IrregularError, varint

_MAGIC = 0xDB4775248B80FB57
_FOOTER, _TRAILER = 48, 5
_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"
# Bytes of an index.
_LARGEST = 256 << 20


class Checkpoint:
    """The variables of a checkpoint, by name.

    Raises ModelError for files that are missing, damaged or no checkpoint, UnsupportedError for compressed indices
    and
    variables in slices.
    """

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix
        path = prefix.with_name(prefix.name + ".index")
        content = _read(path, _LARGEST)
        try:
            entries = dict(_entries(content))
        except (IrregularError, struct.error) as error:
            raise ModelError(f"{path.name} is no checkpoint's index, or damaged") from error
        header = parse_bytes(entries.pop(b"", b""), "BundleHeaderProto")
        if header.endianness:
            raise UnsupportedError(f"{path.name}: a checkpoint written on a big-endian machine")
        self.shards = header.num_shards
        try:
            self.entries = {key.decode(): value for key, value in entries.items()}
        except UnicodeDecodeError as error:
            raise ModelError(f"{path.name}: a variable's name is no text") from error

    def files(self) -> list[Path]:
        """Return the files that hold the values."""
        return [self._shard(index) for index in range(self.shards)]

    def _shard(self, index: int) -> Path:
        return self.prefix.with_name(f"{self.prefix.name}.data-{index:05}-of-{self.shards:05}")

    def read(self, name: str) -> Array | None:
        """Return the value of a variable; None where there is no such variable."""
        if name not in self.entries:
            return None
        entry = parse_bytes(self.entries[name], "BundleEntryProto")
        what = f"variable '{name}'"
        if entry.slices:
            raise UnsupportedError(f"{what} is stored in slices")
        if not 0 <= entry.shard_id < self.shards:
            raise ModelError(f"{what} lies in part {entry.shard_id} of {self.shards}")
        shape = tuple(dim.size for dim in entry.shape.dim)
        return from_bytes(self._bytes(entry, what), dtype_of(entry.dtype, what), shape, what)

    def keys_by_name(self) -> dict[str, str]:
        """Return keys by the full name of the variable, from the graph of objects that TensorFlow 2 stores beside the
        values."""
        if _OBJECTS not in self.entries:
            return {}
        content = self._bytes(parse_bytes(self.entries[_OBJECTS], "BundleEntryProto"), _OBJECTS).tobytes()
        try:
            length, used = varint(content, 0)
        except IrregularError as error:
            raise ModelError(f"{_OBJECTS} is damaged") from error
        # Behind the length there is its checksum.
        text = content[used + 4 : used + 4 + length]
        objects = parse_bytes(text, "TrackableObjectGraph")
        return {each.full_name: each.checkpoint_key for node in objects.nodes for each in node.attributes}

    def _bytes(self, entry: Any, what: str) -> Array:
        path = self._shard(entry.shard_id)
        try:
            with reading(path) as file:
                size = file.seek(0, 2)
                if min(entry.offset, entry.size) < 0 or entry.offset + entry.size > size:
                    raise ModelError(f"{what} ends behind the {size} bytes of {path.name}")
                file.seek(entry.offset)
                content = np.empty(entry.size, np.uint8)
                file.readinto(content.data)
        except OSError as error:
            raise ModelError(f"{what}: {path.name} cannot be read ({error})") from error
        return content


def _read(path: Path, most: int) -> bytes:
    try:
        with reading(path) as file:
            if os.fstat(file.fileno()).st_size > most:
                raise ModelError(f"{path.name} has more than {most} bytes")
            return file.read()
    except OSError as error:
        raise ModelError(f"{path.name} cannot be read ({error})") from error


def _entries(table: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values of a table, in order."""
    if len(table) < _FOOTER or struct.unpack_from("<Q", table, len(table) - 8)[0] != _MAGIC:
        raise IrregularError
    footer = table[-_FOOTER:]
    _, used = varint(footer, 0)
    # The handle of the meta index, which is not used here.
    _, used = varint(footer, used)
    offset, used = varint(footer, used)
    size, _ = varint(footer, used)
    for _, handle in _block(table, offset, size):
        start, used = varint(handle, 0)
        length, _ = varint(handle, used)
        yield from _block(table, start, length)


def _block(table: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    if offset + size + _TRAILER > len(table) or size < 4:
        raise IrregularError
    if table[offset + size]:
        raise UnsupportedError("the checkpoint's index is compressed (Snappy); save it without compression")
    block = table[offset : offset + size]
    (restarts,) = struct.unpack_from("<I", block, size - 4)
    end = size - 4 - 4 * restarts
    if end < 0:
        raise IrregularError
    position, key = 0, b""
    while position < end:
        shared, position = varint(block, position)
        fresh, position = varint(block, position)
        length, position = varint(block, position)
        if shared > len(key) or position + fresh + length > end:
            raise IrregularError
        key = key[:shared] + block[position : position + fresh]
        position += fresh
        yield key, block[position : position + length]
        position += length
