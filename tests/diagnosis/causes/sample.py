"""A model that has a cause of lost time, or its healthy twin, and the way it is called."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cenote.core.types import Array
from cenote.profile.fields import StepStats


def _as_it_is(step: StepStats) -> StepStats:
    return step


@dataclass(frozen=True)
class Sample:
    """A model and the way it is called. `model`: an onnx.ModelProto; `options`: those of `cenote.load`.
    `between`: what the program does before each call; `around`: what goes on as long as the model is measured;
    `callers`: others that call the model all the while; `recorded`: what stands in the environment where `around`
    cannot bring it about (a cgroup's quota); `told`: what a step's description says instead of the plan's; `work`: how
    many times its twin's work a call does."""

    model: Any
    inputs: Mapping[str, Array]
    options: Mapping[str, Any] = field(default_factory=lambda: {"threads": 1})
    between: Callable[[], object] | None = None
    around: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext
    callers: int = 0
    recorded: Mapping[str, Any] = field(default_factory=dict)
    told: Callable[[StepStats], StepStats] = _as_it_is
    work: float = 1.0


@dataclass(frozen=True)
class Pair:
    """`planted` makes a sample that has the cause, `healthy` the same without."""

    planted: Callable[[], Sample]
    healthy: Callable[[], Sample]
