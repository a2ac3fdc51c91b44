"""Tensors of the Open Inference Protocol as arrays: a client's data is checked before it is used."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from cenote.core.errors import InputError, shown
from cenote.core.types import Array, Declared

DATATYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    **{f"INT{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    "BYTES": np.dtype(object),
}
_NAMES = {dtype: name for name, dtype in DATATYPES.items()}
# JSON types that each kind of datatype accepts: no number changes its kind, a boolean is not a number.
_KINDS: dict[str, set[type]] = {"b": {bool}, "i": {int}, "u": {int}, "f": {int, float}}


def described(declared: Declared) -> dict[str, Any]:
    """Describe an input or output in the terms of the protocol; -1 for an open size."""
    shape = [-1] if declared.shape is None else [d if isinstance(d, int) else -1 for d in declared.shape]
    datatype = _NAMES.get(declared.dtype, declared.dtype.name.upper())
    return {"name": declared.name, "datatype": datatype, "shape": shape}


def array_of(name: str, datatype: str, shape: list[int], data: Any = None, raw: bytes | None = None) -> Array:
    """Return the array of a tensor: `raw` holds its elements in row-major, little-endian order, else `data` numbers,
    flat or nested. Raises InputError for parts that contradict each other."""
    dtype = DATATYPES.get(datatype)
    if dtype is None:
        raise InputError(
            f"input '{name}': there is no datatype {shown(datatype)}; there are {', '.join(DATATYPES)}"
        )
    if not isinstance(shape, list) or not all(type(extent) is int and extent >= 0 for extent in shape):
        raise InputError(f"input '{name}': {shown(shape)} is no shape")
    try:
        if datatype == "BYTES":
            array = np.array([each.decode() for each in _strings(raw, data)], object)
        elif raw is not None and datatype == "BOOL":
            # A bool of another byte than 0 and 1 would equal neither.
            array = np.frombuffer(raw, np.uint8) != 0
        elif raw is not None:
            array = np.frombuffer(raw, dtype.newbyteorder("<"))
        else:
            array = _numbers(data, dtype)
    except (ValueError, TypeError, OverflowError, AttributeError, struct.error) as error:
        raise InputError(f"input '{name}': cannot be read as {datatype}: {error}") from None
    if array.size != math.prod(shape):
        raise InputError(f"input '{name}': {array.size} elements for shape {shown(list(shape))}")
    try:
        return array.reshape(tuple(shape))
    except ValueError as error:
        # An empty array with an extent that no machine can hold.
        raise InputError(f"input '{name}': {error}") from None


def _numbers(data: Any, dtype: np.dtype[Any]) -> Array:
    # NumPy's own choice makes floats of [1, 2**63], and integers of [5, True].
    numbers = np.array(data, object).reshape(-1)
    foreign = set(map(type, numbers)) - _KINDS[dtype.kind]
    if foreign:
        raise ValueError(f"its data holds {', '.join(sorted(each.__name__ for each in foreign))}")
    if dtype.kind in "iu" and numbers.size:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        if min(numbers) < low or max(numbers) > high:
            raise ValueError(f"a number is not from {low} to {high}")
    with np.errstate(over="ignore"):
        array = numbers.astype(dtype)
    if dtype.kind == "f" and any(map(math.isfinite, numbers[np.isinf(array)])):
        raise ValueError("a number is too large")
    return array


def _strings(raw: bytes | None, data: Any) -> list[bytes]:
    """Return strings: in bytes each follows its length in four bytes; JSON and protobuf have lists of them."""
    if raw is None:
        flat = np.array(data, object).reshape(-1)
        return [each.encode() if isinstance(each, str) else each for each in flat]
    strings, at = [], 0
    while at < len(raw):
        (length,) = struct.unpack_from("<I", raw, at)
        at += 4
        if at + length > len(raw):
            raise ValueError("a string ends behind the data")
        strings.append(raw[at : at + length])
        at += length
    return strings
