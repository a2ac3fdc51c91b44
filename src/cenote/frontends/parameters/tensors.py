"""Arrays in files: safetensors, and NumPy's .npy.

The safetensors format is a length, a JSON and the bytes. Its package would add a compiled dependency for that, gives
no bfloat16 to NumPy, and its errors do not name the faulty value. Types that it lacks are stored as bytes, with the
type in the configuration.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np

from cenote.core.errors import ModelError
from cenote.core.files import replacing
from cenote.core.types import Array, dtype_named
from cenote.frontends.parameters.lines import JsonObject, parse

# Names of types in safetensors.
NAMES = {"bool": "BOOL", "bfloat16": "BF16"} | {
    f"{kind}{bits}": f"{kind[0].upper()}{bits}"
    for kind, sizes in (("int", (8, 16, 32, 64)), ("uint", (8, 16, 32, 64)), ("float", (16, 32, 64)))
    for bits in sizes
}
_TYPES = {name: dtype for dtype, name in NAMES.items()}
# Bytes of the header.
_LONGEST = 100 << 20
_ALIGN = 8


def as_bytes(array: Array) -> Array:
    """Return an array's elements, row-major and little-endian, as bytes."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.byteorder == ">":
        flat = flat.astype(flat.dtype.newbyteorder("<"))
    return flat.view(np.uint8)


def of_bytes(content: Array, dtype: str, shape: tuple[int, ...]) -> Array:
    """Return the array with these bytes. Raises ModelError where there are more or fewer."""
    kind = dtype_named(dtype)
    if content.nbytes != math.prod(shape) * kind.itemsize:
        raise ModelError(f"{content.nbytes} bytes are no {dtype}{list(shape)}")
    array: Array = content.view(kind).reshape(shape)
    if kind.name == "bool" and content.size and content.max() > 1:
        raise ModelError("a truth value is neither 0 nor 1")
    return array


def write_safetensors(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays by name. Raises OSError."""
    header: dict[str, object] = {}
    end = 0
    for name, array in arrays.items():
        kind = NAMES.get(array.dtype.name)
        shape = list(array.shape) if kind else [array.nbytes]
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": kind or "U8", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGN)
    with replacing(path, 0o666) as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for array in arrays.values():
            file.write(as_bytes(array).data)


class Safetensors:
    """A file of arrays by name, read one by one. Raises ModelError for a file of another kind."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, size = file, os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, _LONGEST):
            raise ModelError("this is no safetensors file: its header is longer than it")
        try:
            self.header = parse(file.read(length).decode())
        except UnicodeDecodeError:
            raise ModelError("this is no safetensors file: its header is no text") from None
        self.start, self.room = 8 + length, size - 8 - length

    def content(self, name: str) -> Array:
        """Return the bytes of an array."""
        entry = self.header.get(name)
        if name == "__metadata__" or not isinstance(entry, JsonObject):
            raise ModelError(f"the file has no values '{name}'")
        kind = entry.choice("dtype", _TYPES)
        shape, offsets = entry.list("shape", int), entry.list("data_offsets", int)
        if len(offsets) != 2 or not 0 <= offsets[0] <= offsets[1] <= self.room:
            raise ModelError(f"values '{name}' lie outside the file: {offsets} of {self.room} bytes")
        nbytes = math.prod(shape) * dtype_named(_TYPES[kind]).itemsize
        if min(shape, default=0) < 0 or offsets[1] - offsets[0] != nbytes:
            raise ModelError(f"values '{name}': {kind}{shape} does not take the bytes {offsets}")
        self.file.seek(self.start + offsets[0])
        content = np.fromfile(self.file, np.uint8, nbytes)
        if content.nbytes != nbytes:
            raise ModelError(f"values '{name}': the file ends too early")
        return content


def read_npy(file: BinaryIO) -> Array:
    """Return the bytes of a .npy. Raises ModelError for a file of another kind, or one that holds Python objects."""
    try:
        return as_bytes(np.lib.format.read_array(file, allow_pickle=False, max_header_size=10_000))
    except (ValueError, EOFError, SyntaxError, MemoryError, OverflowError):
        # NumPy's words advise to unpickle the file, which runs code.
        raise ModelError("this is no .npy file of an array of numbers: damaged, or of another kind") from None
