"""The types of arguments, for type checkers: literal words, arrays of any library that offers DLPack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, SupportsIndex, TypeVar

from cenote.core.options import Accumulate as Accumulate


class DLPack(Protocol):
    """An array of NumPy, PyTorch, JAX, ..."""

    def __dlpack__(self) -> Any: ...


A = TypeVar("A", bound=DLPack)
"""The caller's kind of array: the result is of the same."""

Numbers = SupportsIndex | Sequence[SupportsIndex]
Padding = (
    SupportsIndex
    | Sequence[SupportsIndex]
    | Sequence[Sequence[SupportsIndex]]
    | Literal["same", "same_lower", "valid"]
)
ConvPadding = Numbers | str
Invalid = Literal["raise", "clip", "wrap", "zero"]
"""The rule for an index outside of its axis."""
Rules = Literal["torch", "onnx", "tensorflow", "tensorrt", "caffe"]
NanRule = Literal["propagate", "ignore"]
Layout1 = Literal["NCL", "NLC", "L"]
Layout2 = Literal["NCHW", "NHWC", "HW"]
Layout3 = Literal["NCDHW", "NDHWC", "DHW"]
Layout = Layout1 | Layout2 | Layout3
