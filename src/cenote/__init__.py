"""Cenote: a CNN inference engine and operator library whose CPU kernels are generated in Python.

model = cenote.load("model.onnx")
y = model(x)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, BinaryIO

from cenote.core.errors import (
    ArgumentError,
    CapacityError,
    CenoteError,
    CodegenError,
    DTypeError,
    InputError,
    ModelError,
    ShapeError,
    UnsupportedError,
)
from cenote.core.version import __version__
from cenote.graph.graph import Handover
from cenote.model import Model
from cenote.profile.info import Info, info

if TYPE_CHECKING:
    from os import PathLike


def load(
    source: str | PathLike[str] | bytes | BinaryIO | Any,
    *,
    threads: int | None = None,
    precision: str = "fast",
) -> Model:
    """Load a model and make it ready to run.

    `source` is the path of an ONNX file, its bytes, an open binary file, or an `onnx.ModelProto`. `threads` per
    inference; by default one per physical core this process may use (CENOTE_THREADS overrides). `precision`: "fast", or
    "exact" for convolutions without Winograd, whose rounding error is 2 to 3 times that of a plain sum.

    Raises ModelError for what is no valid model, UnsupportedError for a valid one that Cenote cannot run (the message
    names the node), ArgumentError for a bad argument, OSError when the file cannot be read.
    """
    frontend = importlib.import_module("cenote.frontends.onnx")
    imported = frontend.load_onnx(source)
    graph, metadata = Handover(imported.graph), imported.metadata
    del imported
    return Model(graph, metadata, threads, precision)


__all__ = [
    "ArgumentError",
    "CapacityError",
    "CenoteError",
    "CodegenError",
    "DTypeError",
    "Info",
    "InputError",
    "Model",
    "ModelError",
    "ShapeError",
    "UnsupportedError",
    "__version__",
    "info",
    "load",
]
