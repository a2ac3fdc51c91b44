"""The form of a cause: what to look for, a sample that has it, and a healthy twin."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cenote.core.types import Array
from cenote.diagnosis.context import Context
from cenote.profile.data import Finding, Profile


@dataclass(frozen=True)
class Sample:
    """A model and the way it is called. `model`: an onnx.ModelProto; `options`: those of `cenote.load`, and `pins`.
    `between`: what the program does before each call; `around`: what goes on as long as the model is measured."""

    model: Any
    inputs: Mapping[str, Array]
    options: Mapping[str, Any] = field(default_factory=lambda: {"threads": 1})
    between: Callable[[], object] | None = None
    around: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext


@dataclass(frozen=True)
class Cause:
    """`look` finds it in a model's profile, by experiments too, or gives None. `planted` has it, `healthy` is the same
    without."""

    name: str
    look: Callable[[Context], Finding | None]
    planted: Callable[[], Sample]
    healthy: Callable[[], Sample]


def treatment(finding: Finding, profile: Profile) -> dict[str, Any]:
    """Options of `cenote.load` (and `pins`) that the finding's action stands for; empty where a person must act."""
    words = finding.action.split("`")
    options: dict[str, Any] = {}
    for word in words[1::2]:
        name, _, value = word.partition("=")
        if name == "threads":
            options[name] = int(value)
        elif name in {"precision", "weights", "denormals", "tune"}:
            options[name] = value.strip("\"'")
        elif name == "pin":
            node, _, algorithm = value.rpartition(" to ")
            options.setdefault("pins", {})[node] = algorithm
    return options
