"""Plans at hand: read from a file or made for a class of sizes, kept and found by the sizes of a call.

Neither needs the compiler: a stored plan is a program with its description as JSON, and that of a class of sizes a
template from which both are made for each size.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from cenote.core.deferred import cached_property, dataclass
from cenote.core.errors import ModelError
from cenote.core.locks import importing
from cenote.core.text import Report
from cenote.runtime.formulas import Formulas
from cenote.runtime.program import Program
from cenote.runtime.steps import KernelStep
from cenote.runtime.template import Template
from cenote.runtime.workplaces import Workplaces

if TYPE_CHECKING:
    from cenote.compiler.report import PlanDescription
    from cenote.graph.cut import Cut
    from cenote.graph.graph import Graph
    from cenote.passes.specialize import Continuation

Pattern = tuple[tuple[Any, ...], ...]
"""Description of a class of sizes, without the sizes themselves (`runtime.signature`, `graph.cut`)."""

# A number of a description that depends on the sizes.
_POSITION = re.compile(r"\{\{(\d+)\}\}")


@dataclass(frozen=True, repr=False)
class StoredPlan(Report):
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
class SizeClasses:
    """Plans of a model's classes of sizes, or of those of the rest behind a cut; the last used first. `failed` are
    patterns that cannot be planned for other than the current sizes; `refused`: the reason, until it is told."""

    plans: list[tuple[Pattern, SizedPlan]] = field(default_factory=list)
    failed: set[Pattern] = field(default_factory=set)
    refused: dict[Pattern, Exception] = field(default_factory=dict)

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
    classes: SizeClasses = field(default_factory=SizeClasses)
    rest: Callable[[Sequence[int]], Continuation] | None = None


@dataclass(frozen=True, repr=False)
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
