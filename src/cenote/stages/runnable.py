"""Protocol of models, as profiles and diagnoses use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

from cenote.core.types import Array, Declared
from cenote.plans.classes import StoredPlan
from cenote.runtime.signature import Shapes, Signature
from cenote.stages.stage import Stage

if TYPE_CHECKING:
    from cenote.compiler.compile import Plan


class RunnableModel(Protocol):
    """A model that runs, exposes the stages of its last run, and can be copied with other stages or other options."""

    inputs: tuple[Declared, ...]
    signature: Signature

    @property
    def precision(self) -> str: ...

    @property
    def plans(self) -> tuple[Plan | StoredPlan, ...]: ...

    def last_run(self) -> tuple[Shapes, Stage]:
        """Return the shapes of the inputs of the last run, and the first stage that ran."""

    def run(self, inputs: Mapping[str, Any], outputs: Sequence[str] | None = None) -> dict[str, Array]: ...

    def running(self, shapes: Shapes, stage: Stage) -> Self:
        """Return a model that runs inputs of these shapes by this stage, and shares all else with this one."""

    def changed(self, **options: Any) -> Self:
        """Return the model under other options of `cenote.load_with`. Raises UnsupportedError where it cannot be."""
