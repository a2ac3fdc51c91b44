"""Types as onnxruntime writes them ("tensor(float)"), and the descriptions of a model: NodeArg and ModelMetadata."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from cenote.core.types import Declared, Dimension, dtype_named

# Name of the dtype, onnxruntime's word, number in ONNX's TensorProto.DataType.
_ELEMENTS = (
    ("float32", "float", 1), ("uint8", "uint8", 2), ("int8", "int8", 3), ("uint16", "uint16", 4), ("int16", "int16", 5),
    ("int32", "int32", 6), ("int64", "int64", 7), ("object", "string", 8), ("bool", "bool", 9),
    ("float16", "float16", 10), ("float64", "double", 11), ("uint32", "uint32", 12), ("uint64", "uint64", 13),
    ("complex64", "complex64", 14), ("complex128", "complex128", 15), ("bfloat16", "bfloat16", 16),
    ("float8_e4m3fn", "float8e4m3fn", 17), ("float8_e4m3fnuz", "float8e4m3fnuz", 18), ("float8_e5m2", "float8e5m2", 19),
    ("float8_e5m2fnuz", "float8e5m2fnuz", 20), ("uint4", "uint4", 21), ("int4", "int4", 22),
    ("float4_e2m1fn", "float4e2m1", 23),
)  # fmt: skip
_WORDS = {name: word for name, word, _ in _ELEMENTS}
_NUMBERS = {name: number for name, _, number in _ELEMENTS}
_NAMES = {number: name for name, _, number in _ELEMENTS}


@cache
def word_of(dtype: np.dtype[Any]) -> str:
    """Return onnxruntime's name for a dtype: "float", "double", "string"."""
    return (
        "string" if dtype.kind in "USTOV" and dtype.name not in _WORDS else _WORDS.get(dtype.name, dtype.name)
    )


def is_known(dtype: np.dtype[Any]) -> bool:
    """Return whether onnxruntime has tensors of such elements."""
    return dtype.name in _WORDS or word_of(dtype) == "string"


@cache
def tensor_type(dtype: np.dtype[Any]) -> str:
    """Return the type of a tensor with these elements: "tensor(float)"."""
    return f"tensor({word_of(dtype)})"


def number_of(dtype: np.dtype[Any]) -> int:
    """Return the number of an element type in ONNX; 8 for strings, 0 for types that ONNX does not have."""
    return _NUMBERS["object"] if word_of(dtype) == "string" else _NUMBERS.get(dtype.name, 0)


def dtype_of(element: Any) -> np.dtype[Any]:
    """Return the dtype of a NumPy type or of an ONNX type number. Raises RuntimeError for an unknown number."""
    if isinstance(element, int | np.integer) and not isinstance(element, bool):
        if (name := _NAMES.get(int(element))) is None:
            raise RuntimeError(f"{element} is no element type of ONNX")
        return dtype_named(name)
    dtype: np.dtype[Any] = np.dtype(element)
    return dtype


class NodeArg:
    """An input or output of a model.

    `shape`: a size, a name or None for each dimension; empty for a scalar, and where the model does not say.
    """

    def __init__(self, name: str, type: str, shape: list[Dimension]) -> None:
        self.name, self.type, self.shape = name, type, shape

    @staticmethod
    def of(declared: Declared, fixed: Mapping[str, int]) -> NodeArg:
        """Return the NodeArg of a declaration of the model; `fixed` are sizes for names of dimensions."""
        if declared.form:
            inner = (
                f"tensor({word_of(dtype_named(declared.element))})" if declared.element else "tensor(float)"
            )
            for form in reversed(declared.form.split()):
                inner = f"{_FORMS[form]}({inner})"
            return NodeArg(declared.name, inner, [])
        shape = [fixed.get(size, size) if isinstance(size, str) else size for size in declared.shape or ()]
        return NodeArg(declared.name, tensor_type(declared.dtype), shape)

    def __str__(self) -> str:
        return f"NodeArg(name='{self.name}', type='{self.type}', shape={self.shape})"


_FORMS = {"sequence": "seq", "optional": "optional"}


class ModelMetadata:
    """The metadata in a model's file."""

    def __init__(self, about: Mapping[str, str], custom: Mapping[str, str]) -> None:
        self.producer_name = about.get("producer_name", "")
        self.graph_name = about.get("graph_name", "")
        self.domain = about.get("domain", "")
        self.description = about.get("description", "")
        self.graph_description = about.get("graph_description", "")
        self.version = int(about.get("version") or 0)
        self.custom_metadata_map = dict(custom)
