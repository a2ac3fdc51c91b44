"""Plan files: a compiled model on disk, loaded without parsing, packing or compiling.

    magic, version │ length, digest of the header │ header (JSON) │ descriptions │ kernels │ constants, at pages' starts

The header holds the program (steps, argument records, arena size), the inputs and outputs, and what the file was made
for: Cenote's version and generator, the CPU. A description is what `print(model.plan)` shows, and is read when that is
asked for. Constants are mapped, not read: pages come in when they are first used, and all processes that load one file
share them. Reading is in `reader`, writing in `writer`. Neither needs what compiles,
which would take 0.3 s to import; a plan with host steps needs the operators of those.

A plan file is executable content, like a shared library: load only files that you trust.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from cenote.codegen import cache, jit
from cenote.core.errors import UnsupportedError
from cenote.core.types import Declared
from cenote.core.version import __version__
from cenote.runtime.program import Program

if TYPE_CHECKING:
    from cenote.compiler.compile import Plan
    from cenote.compiler.report import PlanDescription

MAGIC = b"cenote-plan\x00\x00\x00\x00\x02"
PAGE = 4096
_SAMPLES = 64  # pages of the constants whose digest is checked when loading (all of them in small files)
TRUSTED = ("cenote.ops.", "cenote.kernels.")  # where classes named in a file may come from


class StalePlanError(UnsupportedError):
    """A sound plan file that was made for another CPU or another version of Cenote."""


@dataclass(frozen=True)
class StoredPlan:
    """A plan out of a file: the program and its description."""

    program: Program
    text: bytes  # of the description, JSON

    @cached_property
    def description(self) -> PlanDescription:
        """Steps, kernels, host steps, memory."""
        from cenote.compiler.report import PlanDescription

        return PlanDescription.from_dict({**json.loads(self.text), "threads": self.program.threads})

    def describe(self) -> PlanDescription:
        """Steps, kernels, host steps, memory, as they were when the file was written."""
        return self.description

    def __str__(self) -> str:
        return str(self.description)

    def _repr_html_(self) -> str:
        return self.description._repr_html_()


@dataclass(frozen=True)
class StoredModel:
    """What a plan file holds: one plan per set of input shapes, and how the model was loaded.

    `external` names the files beside the model that hold its weights, with the digest of each (plan cache only).
    """

    inputs: tuple[Declared, ...]
    outputs: tuple[str, ...]
    metadata: Mapping[str, str]
    precision: str
    weights: str
    plans: Mapping[tuple[tuple[int, ...], ...], Plan | StoredPlan]
    external: Mapping[str, str] = field(default_factory=dict)


def is_plan_file(start: bytes) -> bool:
    """Do these first bytes of a file say that it is a plan file (of any version)?"""
    return start[:11] == MAGIC[:11]


def is_plan_at(path: str | os.PathLike[str]) -> bool:
    """Is there a plan file (of any version) at this path?"""
    try:
        with open(path, "rb") as file:
            return is_plan_file(file.read(16))
    except OSError:
        return False


def world() -> dict[str, str]:
    """What a plan depends on besides the model."""
    return {
        "version": __version__,
        "generator": cache.generator_digest(),
        "target": repr(jit.host_target()),
    }


def sampled_pages(nbytes: int) -> list[int]:
    """Where the pages lie whose digest is checked."""
    count = nbytes // PAGE
    step = max(1, count // _SAMPLES)
    return [page * PAGE for page in sorted({*range(0, count, step), *([count - 1] if count else [])})]
