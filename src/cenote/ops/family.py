"""Families of operators: one base class, and a line per operator for what it alone is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from cenote.core.deferred import dataclass
from cenote.ops.base import Op
from cenote.ops.checks import read

O = TypeVar("O", bound=Op)


def snake_case(onnx: str) -> str:
    """The name in graphs of what ONNX calls `onnx`: in lower case with underscores."""
    return re.sub("(?<!^)(?=[A-Z])", "_", onnx).lower()


def operator(
    base: type[O],
    onnx: str,
    meaning: str,
    parameters: Mapping[str, float] | None = None,
    *,
    attributes: Mapping[str, str] | None = None,
    **members: Any,
) -> type[O]:
    """The operator that ONNX calls `onnx`; its name in graphs is the `snake_case`.

    `parameters` are float fields and their defaults, read from attributes of their names; `attributes` names those of
    the base's fields; `members` are what else its class holds. To be defined in the module of its base, under its ONNX
    name: plans find operators by both.
    """
    own = {
        "__doc__": meaning,
        "__module__": base.__module__,
        "name": snake_case(onnx),
        "from_onnx": {onnx: lambda node: read(made, node, *(parameters or ()), **(attributes or {}))},
        "__annotations__": dict.fromkeys(parameters or (), "float"),
        **(parameters or {}),
    }
    made: type[O] = dataclass(frozen=True)(type(onnx, (base,), own | members))
    return made
