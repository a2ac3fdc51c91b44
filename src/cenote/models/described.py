"""Description of a model: its inputs, outputs and plans, and how long they take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from cenote.core.errors import ArgumentError, CenoteError, InputError, shown
from cenote.core.locks import importing
from cenote.core.types import Declared
from cenote.models.origin import Origin
from cenote.plans.classes import StoredPlan
from cenote.runtime.bounds import narrowed
from cenote.runtime.signature import Shapes, Signature
from cenote.stages.planned import Interface, Planned
from cenote.stages.runnable import RunnableModel
from cenote.stages.stage import NoPlan, Shared, Stage

if TYPE_CHECKING:
    from cenote.compiler.compile import Plan
    from cenote.diagnosis.diagnose import Diagnosis
    from cenote.profile.data import Profile
    from cenote.profile.metrics.memory_usage import MemoryUsage


class Described(RunnableModel):
    """Base of `Model`: its members, and the properties that describe it."""

    def __init__(self, interface: Interface, shared: Shared, origin: Origin) -> None:
        inputs, bounds = narrowed(interface.inputs, shared.options.shapes)
        self.inputs: tuple[Declared, ...] = inputs
        self.declared_outputs = interface.outputs
        self.output_names = interface.output_names
        self.metadata = dict(interface.metadata)
        self.about = dict(interface.about)
        self.signature = Signature(inputs, bounds)
        self._shared, self._origin = shared, origin
        interface = Interface(inputs, interface.outputs, self.metadata, self.about)
        named = shared.options.algorithms if origin.is_whole else ()
        self._plans = Planned(interface, self.signature, shared, origin.entry, named)
        self._stages, self._classes = self._plans.by_shapes, self._plans.classes

    @property
    def threads(self) -> int:
        """Threads per inference, the caller's included."""
        return self._shared.threads

    @property
    def precision(self) -> str:
        """ "fast", or "exact": without Winograd's and Strassen's algorithms, sums of products in shorter chains."""
        return self._shared.options.precision

    @property
    def denormals(self) -> str:
        """ "preserve", or "flush": numbers too small for full precision count as zero."""
        return self._shared.denormals

    def last_run(self) -> tuple[Shapes, Stage]:
        """Return the shapes of the inputs of the last run, and the first stage that ran."""
        return next(reversed(self._stages.items()))

    def changed(self, **options: Any) -> Self:
        """Return the model under other options of `cenote.load_with`; `algorithms` and `rewrites` are added to those
        it has.

        Raises UnsupportedError where the model cannot be made anew, or not under these.
        """
        model: Self = self._origin.changed(**options)
        return model

    @property
    def outputs(self) -> tuple[Declared, ...]:
        """Name, dtype and shape of each output: of the plan used last, before the first as the model declares them."""
        made = next(reversed(self._stages.values())).outputs if self._stages else {}
        return tuple(made.get(declared.name, declared) for declared in self.declared_outputs)

    @property
    def plan(self) -> Plan | StoredPlan | NoPlan:
        """The plan used last: steps, kernels, arena; `print(model.plan)`. False (`NoPlan`) before there is one."""
        return next(reversed(self._stages.values())).plan if self._stages else NoPlan()

    @property
    def plans(self) -> tuple[Plan | StoredPlan, ...]:
        """The plans used last, in the order in which they run: one, or more where shapes depend on the content of
        values. Plans after the first exist once the model has run; a model with symbolic dimensions has none before its
        first run."""
        last = next(reversed(self._stages.values()), None)
        return () if last is None else tuple(each.plan for each in last.chain)

    def plan_for(self, shapes: Mapping[str, Sequence[int]]) -> Plan | StoredPlan:
        """Return the plan for inputs of these shapes, by name, compiled now if it is new.

        Raises InputError for a missing or unknown name, and for shapes that do not fit the model.
        """
        if not isinstance(shapes, Mapping):
            like = "{'x': (1, 3, 8, 8)}"
            raise InputError(f"plan_for takes the shapes by input name, like {like}, not {shown(shapes)}")
        return self._plans.at(self.signature.shapes(shapes)).plan

    def __repr__(self) -> str:
        inputs = ", ".join(map(str, self.inputs))
        classes = f", {count} class(es) of sizes" if (count := len(self._classes.plans)) else ""
        return f"<cenote.Model ({inputs}) -> {', '.join(self.output_names)}, threads={self.threads}{classes}>"

    def _repr_html_(self) -> str:
        with importing():
            from cenote.compiler.html import model_html

        title = f"cenote.Model, {self.threads} thread(s), precision {self.precision}"
        return model_html(title, self.inputs, self.outputs, self.plans)

    def profile(self, inputs: Any = None, *, seconds: float = 2.0) -> Profile:
        """Measure where the time of a call goes, step by step and thread by thread: `print(model.profile(x))`.

        `inputs`: a dict of arrays by name, an array, or several in order; None: random numbers, for a model whose
        shapes are known. `seconds`: about how long to measure, at least three calls; the machine's roofs take another
        second the first time. Raises InputError for inputs that the model does not take, ArgumentError for `seconds`.
        """
        with importing():
            from cenote.profile.measure import profile

        return profile(self, inputs, seconds=seconds)

    def memory_usage(self) -> MemoryUsage:
        """Return what a call needs of memory by the plans used last: arrays, weights, intermediate values over time,
        scratch, and what the caches have of it: `print(model.memory_usage())`.

        Raises ArgumentError where no plan exists yet: a model of open sizes has none before its first run.
        """
        if not self.plans:
            raise ArgumentError(
                "memory_usage: no plan exists yet; call plan_for(shapes), or the model, first"
            )
        with importing():
            from cenote.profile.metrics.memory_usage import memory_usage

        plans, stored = [plan.describe() for plan in self.plans], None
        with suppress(CenoteError):  # a plan file has no graph
            stored = sum(array.nbytes for array in self._origin.graph().constants.values())
        shapes, _ = self.last_run()
        inputs = [replace(each, shape=shape) for each, shape in zip(self.inputs, shapes, strict=True)]
        return memory_usage(self._origin.name, inputs, self.outputs, plans, stored)

    def graph_html(self, profile: Profile | None = None) -> str:
        """Return the steps of the plans used last as one page without external files: a box for each in the colour of
        its algorithm, lines for what it reads, with a profile of this model its time; below them as a table.

        Raises ArgumentError where no plan exists yet: a model of open sizes has none before its first run.
        """
        if not self.plans:
            raise ArgumentError("graph_html: no plan exists yet; call plan_for(shapes), or the model, first")
        with importing():
            from cenote.profile.graph_page import graph_page

        plans = [plan.describe() for plan in self.plans]
        return graph_page(self._origin.name or plans[0].name, plans, profile)

    def diagnose(self, inputs: Any = None, *, deep: bool = False) -> Diagnosis:
        """Find out why a call takes its time on this machine: `print(model.diagnose(x))`.

        A profile of two seconds, then rules, and experiments with the model under other options (other algorithms,
        threads, denormals), about a second each: docs/why_is_it_slow.md. `inputs` as `profile` takes them. `deep`
        profiles for five seconds and tries more. Raises as `profile`.
        """
        with importing():
            from cenote.diagnosis.diagnose import diagnose

        return diagnose(self, inputs, deep=deep)

    def treat(
        self, diagnosis: Diagnosis, inputs: Any = None, *, tolerance: float = 0.0
    ) -> tuple[Diagnosis, Any]:
        """Try what the findings of `diagnose` advise, each beside the model as it is; keep what helps beyond doubt.

        Algorithms and threads change no more than rounding does. What changes results (`weights`, `precision`,
        `denormals`) is tried only where `tolerance`, the largest difference of an output over its largest value, is
        above 0, and kept only within it. Returns the diagnosis with measured gains and `treatments`, and the model that
        is fastest (this one where nothing helped); `save` writes its plan. Raises ArgumentError for a bad `tolerance`.
        """
        with importing():
            from cenote.diagnosis.treat import treat

        return treat(diagnosis, self, inputs, tolerance)
