"""Cenote: a CNN inference engine and operator library whose CPU kernels are generated in Python.

model = cenote.load("model.onnx")
y = model(x)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cenote.codegen.jit import watching as watch_compilation
from cenote.core.errors import (
    ArgumentError,
    CapacityError,
    CenoteError,
    CodegenError,
    DTypeError,
    InputError,
    MissingFileError,
    ModelError,
    ShapeError,
    UnsupportedError,
)
from cenote.core.locks import importing
from cenote.core.version import __version__
from cenote.loading import load
from cenote.model import Model

if TYPE_CHECKING:
    from cenote import functional
    from cenote.profile.info import Info, info

__all__ = [
    "ArgumentError",
    "CapacityError",
    "CenoteError",
    "CodegenError",
    "DTypeError",
    "Info",
    "InputError",
    "MissingFileError",
    "Model",
    "ModelError",
    "ShapeError",
    "UnsupportedError",
    "__version__",
    "functional",
    "info",
    "load",
    "watch_compilation",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """`info` and `functional` are imported when they are asked for: not every program asks."""
    if name == "functional":
        with importing():
            return import_module("cenote.functional")
    if name in ("Info", "info"):
        with importing():
            from cenote.profile import info as module

        globals().update(Info=module.Info, info=module.info)
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
