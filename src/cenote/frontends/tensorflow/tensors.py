"""Conversion of TensorProtos to arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cenote.core.errors import ModelError, UnsupportedError
from cenote.core.types import Array, Dimension, dtype_named
from cenote.frontends.tensorflow.messages import Contents

_NAMES = {
    1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 9: "int64", 10: "bool", 14: "bfloat16",
    17: "uint16", 19: "float16", 22: "uint32", 23: "uint64",
}  # fmt: skip
STRING, RESOURCE, VARIANT = 7, 20, 21
_WORDS = {
    7: "string",
    8: "complex64",
    11: "qint8",
    12: "quint8",
    13: "qint32",
    18: "complex128",
    20: "resource",
    21: "variant",
}
_LISTS = {
    1: "float_val", 2: "double_val", 3: "int_val", 4: "int_val", 5: "int_val", 6: "int_val", 9: "int64_val",
    10: "bool_val", 14: "half_val", 17: "int_val", 19: "half_val", 22: "uint32_val", 23: "uint64_val",
}  # fmt: skip
_HALVES = (14, 19)


def dtype_of(number: int, what: str) -> np.dtype[Any]:
    """Return the NumPy type of a DataType, or of the variable that it refers to."""
    number = number - 100 if number > 100 else number
    if number not in _NAMES:
        raise UnsupportedError(f"{what}: type {_WORDS.get(number, number)} is not supported")
    return dtype_named(_NAMES[number])


def shape_of(shape: Any) -> tuple[Dimension, ...] | None:
    """Return a TensorShapeProto as a declared shape: None for an unknown rank or extent."""
    if shape.unknown_rank:
        return None
    return tuple(dim.size if dim.size >= 0 else None for dim in shape.dim)


def array_of(tensor: Any, contents: Contents, what: str) -> Array:
    """Return the content of a TensorProto.

    Raises ModelError when the bytes do not fit the shape, UnsupportedError for types that Cenote does not have.
    """
    dtype = dtype_of(tensor.dtype, what)
    shape = tuple(dim.size for dim in tensor.tensor_shape.dim)
    if any(extent < 0 for extent in shape):
        raise ModelError(f"{what}: a constant of shape {list(shape)}")
    count = math.prod(shape)
    if tensor.tensor_content:
        return from_bytes(contents.of(tensor.tensor_content), dtype, shape, what)
    listed = getattr(tensor, _LISTS[tensor.dtype - 100 if tensor.dtype > 100 else tensor.dtype])
    if len(listed) > count or (not listed and count):
        # TensorFlow leaves out zeros.
        if not listed:
            return np.zeros(shape, dtype)
        raise ModelError(f"{what}: {len(listed)} numbers for shape {list(shape)}")
    if tensor.dtype in _HALVES:
        values = np.array(listed, np.int64).astype(np.uint16).view(dtype)
    else:
        values = np.array(listed, dtype)
    # The last number stands for all that follow.
    if len(values) < count:
        values = np.concatenate([values, np.repeat(values[-1:], count - len(values))])
    return values.reshape(shape)


def from_bytes(content: Array, dtype: np.dtype[Any], shape: tuple[int, ...], what: str) -> Array:
    """Return bytes (little-endian) as an array."""
    if content.nbytes != math.prod(shape) * dtype.itemsize:
        raise ModelError(
            f"{what}: {content.nbytes} bytes for shape {list(shape)} of {dtype.name}, which takes "
            f"{math.prod(shape) * dtype.itemsize}"
        )
    return content.view(dtype).reshape(shape)
