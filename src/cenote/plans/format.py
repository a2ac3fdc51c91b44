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

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cenote.codegen import cache
from cenote.core.cached import cached_property
from cenote.core.errors import ModelError, UnsupportedError
from cenote.core.files import open_regular
from cenote.core.load_options import LoadOptions
from cenote.core.locks import importing
from cenote.core.target import Target
from cenote.core.types import Declared
from cenote.core.version import __version__
from cenote.runtime.formulas import Formulas
from cenote.runtime.program import Program
from cenote.runtime.steps import KernelStep
from cenote.runtime.template import Template
from cenote.runtime.workplaces import Workplaces

if TYPE_CHECKING:
    from cenote.compiler.compile import Plan
    from cenote.compiler.report import PlanDescription
    from cenote.graph.cut import Cut
    from cenote.graph.graph import Graph
    from cenote.passes.specialize import Continuation

MAGIC = b"cenote-plan\x00\x00\x00\x00\x08"
PAGE = 4096
# Modules whose classes a file may name.
TRUSTED = ("cenote.ops.", "cenote.kernels.", "cenote.core.", "cenote.graph.")


Pattern = tuple[tuple[Any, ...], ...]
"""Description of a class of sizes, without the sizes themselves (`runtime.signature`, `graph.cut`)."""


class StalePlanError(UnsupportedError):
    """A sound plan file that was made for another CPU or another version of Cenote."""


@dataclass(frozen=True)
class StoredPlan:
    """A plan from a file: the program and its description."""

    program: Program
    # The description, as JSON.
    text: bytes

    @cached_property
    def description(self) -> PlanDescription:
        """The steps, kernels, host steps and memory."""
        with importing():
            from cenote.compiler.report import PlanDescription

        try:
            return PlanDescription.from_dict({**json.loads(self.text), "threads": self.program.threads})
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise ModelError(f"the plan's description cannot be read ({error}); compile it again") from error

    def describe(self) -> PlanDescription:
        """Return the steps, kernels, host steps and memory, as they were when the file was written."""
        return self.description

    def __str__(self) -> str:
        return str(self.description)

    def _repr_html_(self) -> str:
        return self.description._repr_html_()


@dataclass(frozen=True)
class SizedPlan:
    """A plan for all sizes of a class: the program's template and its description, JSON in which numbers that depend
    on the sizes are written as {{position}}. `made_with`: the shapes of inputs that it was first compiled for.
    `inputs` and `outputs` name the program's; where shapes depend on content, `tail` is the rest of the model."""

    template: Template
    text: bytes
    made_with: tuple[tuple[int, ...], ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tail: Tail | None = None
    graph: Graph | None = field(default=None, compare=False, repr=False)

    def at(self, numbers: Sequence[int], workplaces: Workplaces | None = None) -> StoredPlan | None:
        """Return the plan for these sizes; None where this one does not hold for them. `workplaces`: the model's."""
        program = self.template.at(numbers, workplaces)
        if program is None:
            return None
        same = tuple(type.shape for type in program.inputs) == self.made_with
        return _PlanOfSizes(
            program, self.text, self.template.formulas, tuple(numbers), self.graph if same else None
        )


@dataclass
class Classes:
    """Plans of a model's classes of sizes, or of those of the rest behind a cut; the last used first. `failed` are
    patterns that cannot be planned for other than the current sizes."""

    plans: list[tuple[Pattern, SizedPlan]] = field(default_factory=list)
    failed: set[Pattern] = field(default_factory=set)

    def find(
        self, pattern: Pattern, numbers: Sequence[int], workplaces: Workplaces
    ) -> tuple[SizedPlan, StoredPlan] | None:
        """Return the class and the plan for these numbers in this pattern, if there is one among the existing
        plans."""
        for index, (other, sized) in enumerate(self.plans):
            if other == pattern and (plan := sized.at(numbers, workplaces)) is not None:
                if index:
                    self.plans.insert(0, self.plans.pop(index))
                return sized, plan
        return None


@dataclass
class Tail:
    """The rest of a model behind a part that ends at a cut: its plans, whose numbers are those of the part, then
    those that the run computed. `rest` returns the graph to compile for further plans, given the part's numbers; None
    where the model is not available."""

    cut: Cut
    classes: Classes = field(default_factory=Classes)
    rest: Callable[[Sequence[int]], Continuation] | None = None


@dataclass(frozen=True)
class _PlanOfSizes(StoredPlan):
    """A plan for some sizes of a class: formulas of its description's numbers, and the sizes."""

    formulas: Formulas
    dimensions: tuple[int, ...]
    graph: Graph | None

    @cached_property
    def description(self) -> PlanDescription:
        """The steps, kernels, host steps and memory."""
        numbers = self.formulas.shown(self.dimensions)
        text = _POSITION.sub(lambda match: str(numbers[int(match[1])]), self.text.decode())
        stored = StoredPlan(self.program, text.encode()).description
        steps = [
            replace(shown, kernel=step.symbol, items=step.items, grain=step.grain, scratch_bytes=step.scratch)
            if isinstance(step, KernelStep)
            else shown
            for shown, step in zip(stored.steps, self.program.steps, strict=True)
        ]
        memory = replace(
            stored.memory,
            arena=self.program.arena_bytes,
            peak=self.program.arena_bytes,
            scratch=self.program.scratch_bytes,
        )
        return replace(stored, steps=tuple(steps), memory=memory)


_POSITION = re.compile(r"\{\{(\d+)\}\}")


@dataclass(frozen=True)
class StoredModel:
    """Content of a plan file: plans for sets of input shapes and for classes of sizes, and the options of the load.

    `options` are those of `cenote.load`; a file holds a part of them (`LoadOptions.record`). `tails` are the rests of
    the model behind plans, by the shapes of those, where shapes depend on content. `source` is the path of the model
    that it was made from ("" for unknown), `content` the digest of that model, and `external` names the files beside
    it that hold its weights, with the digest of each. `metadata` are the file's own key-value pairs, `about` its
    description of itself.
    """

    inputs: tuple[Declared, ...]
    outputs: tuple[Declared, ...]
    metadata: Mapping[str, str]
    options: LoadOptions
    plans: Mapping[tuple[tuple[int, ...], ...], Plan | StoredPlan]
    sized: Sequence[tuple[Pattern, SizedPlan]] = ()
    tails: Mapping[tuple[tuple[int, ...], ...], Tail] = field(default_factory=dict)
    source: str = ""
    content: str = ""
    external: Mapping[str, str] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)


def is_plan_file(start: bytes) -> bool:
    """Return whether these first bytes of a file are those of a plan file (of any version)."""
    return start[:11] == MAGIC[:11]


def is_plan_at(path: str | os.PathLike[str]) -> bool:
    """Return whether there is a plan file (of any version) at this path."""
    try:
        handle = open_regular(path)
        try:
            return is_plan_file(os.read(handle, 16))
        finally:
            os.close(handle)
    # ValueError: a path with a null byte.
    except (OSError, ValueError):
        return False


def world(target: Target) -> dict[str, str]:
    """Return the state that a plan for this target depends on besides the model."""
    return {
        "version": __version__,
        "generator": cache.generator_digest(),
        "target": repr(target),
    }
