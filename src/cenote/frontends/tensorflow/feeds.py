"""Names of a graph's inputs and outputs as users of TensorFlow write feeds and fetches: "node", "node:0" or
"scope/node:1", any tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cenote.core.errors import ArgumentError, UnsupportedError, near
from cenote.core.types import Dimension
from cenote.frontends.tensorflow.tensors import dtype_of, shape_of
from cenote.frontends.tensorflow_common import words

# Attributes with the type of an operation's result; the first that it has counts.
_TYPES = ("DstT", "dtype", "out_type", "output_type", "Tout", "T")
# Operations that need not say which type their result has: the attribute that would, their names, the DataType.
_UNSAID = (
    ("", words("Equal NotEqual Less LessEqual Greater GreaterEqual LogicalNot LogicalAnd LogicalOr"), 10),
    ("", words("IsNan IsInf IsFinite All Any"), 10),
    ("dtype", words("DecodeJpeg DecodePng DecodeImage DecodeBmp DecodeGif DecodeAndCropJpeg"), 4),
    ("out_type", words("ResizeBilinear ResizeBicubic ResizeArea CropAndResize StringToNumber"), 1),
    ("out_type", words("Shape Size Rank"), 3),
    ("output_type", words("ArgMax ArgMin"), 9),
)


def tensor_named(name: str, nodes: Mapping[str, Any], argument: str) -> tuple[str, int]:
    """Return node and output of a name. Raises ArgumentError where the graph has no such node."""
    node, _, index = name.partition(":")
    if node not in nodes or (index and not index.isdecimal()):
        raise ArgumentError(f"{argument}: the graph has no tensor '{name}'{near(name, nodes)}")
    return node, int(index or 0)


def type_of(node: Any, index: int, name: str) -> tuple[np.dtype[Any], tuple[Dimension, ...] | None]:
    """Return the type of a node's output, as far as the file declares it: a shape may be unknown.

    Raises UnsupportedError for a type that Cenote does not have, or that the file does not declare.
    """
    return dtype_of(_number(node, index, name), f"inputs: '{name}'"), _shape(node, index)


def _number(node: Any, index: int, name: str) -> int:
    for attribute, names, number in _UNSAID:
        if node.op in names and attribute not in node.attr:
            return number
    for listed in ("output_types", "Tout", "component_types"):
        types = node.attr[listed].list.type if listed in node.attr else ()
        if index < len(types):
            return int(types[index])
    for attribute in _TYPES:
        if attribute in node.attr and node.attr[attribute].WhichOneof("value") == "type":
            return int(node.attr[attribute].type)
    raise UnsupportedError(
        f"inputs: the file does not say which type '{name}' ({node.op}) has; name one before or behind"
    )


def _shape(node: Any, index: int) -> tuple[Dimension, ...] | None:
    if "_output_shapes" in node.attr:
        shapes: Sequence[Any] = node.attr["_output_shapes"].list.shape
        if index < len(shapes):
            return shape_of(shapes[index])
    if node.op in ("Placeholder", "PlaceholderWithDefault") and "shape" in node.attr:
        return shape_of(node.attr["shape"].shape)
    return None
