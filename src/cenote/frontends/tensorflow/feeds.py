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
_BOOLEAN = words(
    "Equal NotEqual Less LessEqual Greater GreaterEqual LogicalNot LogicalAnd LogicalOr IsNan IsInf "
    "IsFinite All Any"
)
_PICTURES = words("DecodeJpeg DecodePng DecodeImage DecodeBmp DecodeGif DecodeAndCropJpeg")
_PLACES = words("Shape Size Rank")
_FLOATS = words("ResizeBilinear ResizeBicubic ResizeArea CropAndResize StringToNumber")


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
    if node.op in _BOOLEAN:
        return 10
    if node.op in _PICTURES and "dtype" not in node.attr:
        return 4
    if node.op in _FLOATS and "out_type" not in node.attr:
        return 1
    if node.op in _PLACES and "out_type" not in node.attr:
        return 3
    if node.op in ("ArgMax", "ArgMin") and "output_type" not in node.attr:
        return 9
    for listed in ("output_types", "Tout", "component_types"):
        if node.attr[listed].list.type if listed in node.attr else ():
            types = node.attr[listed].list.type
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
