"""Conversion of TensorProtos to arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cenote.core.errors import ModelError, UnsupportedError
from cenote.core.types import Array, Dimension, dtype_named
from cenote.frontends.tensorflow.messages import DTYPES, REFERENCE, Contents

STRING = DTYPES.index("STRING")
# NumPy's names of types where they are not TensorFlow's, in lower case.
_NAMES = {"FLOAT": "float32", "DOUBLE": "float64", "HALF": "float16"}
# Fields of a TensorProto that list elements, by type.
_LISTS = {
    "float32": "float_val", "float64": "double_val", "bool": "bool_val", "float16": "half_val", "bfloat16": "half_val",
    "int64": "int64_val", "uint32": "uint32_val", "uint64": "uint64_val",
    **dict.fromkeys(("int8", "uint8", "int16", "uint16", "int32"), "int_val"),
}  # fmt: skip


def dtype_of(number: int, what: str) -> np.dtype[Any]:
    """Return the NumPy type of a DataType, or of the variable that it refers to."""
    number = number - REFERENCE if number > REFERENCE else number
    name = DTYPES[number] if 0 <= number < len(DTYPES) else str(number)
    name = _NAMES.get(name, name.lower())
    if name not in _LISTS:
        raise UnsupportedError(f"{what}: type {name} is not supported")
    return dtype_named(name)


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
    listed = getattr(tensor, _LISTS[dtype.name])
    if len(listed) > count or (not listed and count):
        # TensorFlow leaves out zeros.
        if not listed:
            return np.zeros(shape, dtype)
        raise ModelError(f"{what}: {len(listed)} numbers for shape {list(shape)}")
    if _LISTS[dtype.name] == "half_val":
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
