"""Cenote: a CNN inference engine and operator library whose CPU kernels are generated in Python.

model = cenote.load("model.onnx")
y = model(x)
"""

from __future__ import annotations

from cenote.codegen.jit import watching as watch_compilation
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
from cenote.loading import load
from cenote.model import Model
from cenote.profile.info import Info, info

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
    "watch_compilation",
]
