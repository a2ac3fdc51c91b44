"""Plan files: a compiled model on disk, loaded without parsing, packing or compiling.

    magic, version │ length, digest of the header │ header (JSON) │ descriptions │ kernels │ constants, at pages' starts

The header holds the program (steps, argument records, arena size), the inputs and outputs, and the conditions of the
file: Cenote's version and generator, the CPU. A description is the content of `print(model.plan)`, and is read when
that is requested. Constants are mapped, not read: pages are loaded when they are first used, and all processes that
load one file share them. `reader` reads, `writer` writes. Neither needs the compiler, which would take 0.3 s to
import; a plan with host steps needs the operators of those.

The header has a digest, and holds those of all other parts (of constants a CRC-32 per chunk, see `fingerprint`). They
detect damage, not malice: a plan file is executable content, like a shared library; load only files that you trust.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from cenote.codegen import cache
from cenote.core.deferred import dataclass
from cenote.core.errors import UnsupportedError
from cenote.core.load_options import LoadOptions
from cenote.core.target import Target
from cenote.core.types import Declared
from cenote.core.version import __version__
from cenote.plans.classes import Pattern, SizedPlan, StoredPlan, Tail
from cenote.plans.source import Source

if TYPE_CHECKING:
    from cenote.compiler.compile import Plan

MAGIC = b"cenote-plan\x00\x00\x00\x00\x0a"
PAGE = 4096
# Modules whose classes a file may name.
TRUSTED = ("cenote.ops.", "cenote.kernels.", "cenote.core.", "cenote.graph.")


class StalePlanError(UnsupportedError):
    """A sound plan file that was made for another CPU or another version of Cenote."""


@dataclass(frozen=True)
class StoredModel:
    """Content of a plan file: plans for sets of input shapes and for classes of sizes, and the options of the load.

    `options` are those of `cenote.load`; a file holds a part of them (`LoadOptions.record`). `tails` are the rests of
    the model behind plans, by the shapes of those, where shapes depend on content. `metadata` are the file's own
    key-value pairs, `about` its description of itself. `source`: the files that the model was made from, where they are
    known.
    """

    inputs: tuple[Declared, ...]
    outputs: tuple[Declared, ...]
    metadata: Mapping[str, str]
    options: LoadOptions
    plans: Mapping[tuple[tuple[int, ...], ...], Plan | StoredPlan]
    sized: Sequence[tuple[Pattern, SizedPlan]] = ()
    tails: Mapping[tuple[tuple[int, ...], ...], Tail] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)
    source: Source | None = None


def is_plan_file(start: bytes) -> bool:
    """Return whether these first bytes of a file are those of a plan file (of any version)."""
    return start[:11] == MAGIC[:11]


def world(target: Target) -> dict[str, str]:
    """Return the state that a plan for this target depends on besides the model."""
    return {
        "version": __version__,
        "generator": cache.generator_digest(),
        "target": target.text,
    }
