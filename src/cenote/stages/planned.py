"""Plans of a model: a stage (a compiled program) for every set of input shapes so far.

A new batch size or picture size needs a new plan, not new kernels. The plan comes from a class of sizes, the cache or a
plan file, or is compiled. Where a shape depends on the content of a value that only a run computes, a stage is followed
by others, which are compiled when that content is known, and kept as well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from cenote.core.deferred import dataclass
from cenote.core.errors import refusals
from cenote.core.load_options import LoadOptions
from cenote.core.locks import importing
from cenote.core.types import FLOAT32, Array, Declared, TensorType
from cenote.plans.cache import CacheEntry
from cenote.plans.classes import Pattern, SizeClasses, SizedPlan, StoredPlan, Tail
from cenote.plans.format import StoredModel
from cenote.runtime.program import Program
from cenote.runtime.signature import Shapes, Signature
from cenote.stages.sized import check_stage, compile_class, fall_back, part_of, supply
from cenote.stages.stage import Shared, Stage, Stages, closed, no_plan_for

if TYPE_CHECKING:
    from cenote.compiler.compile import Plan
    from cenote.graph.graph import Graph, OwnedGraph
    from cenote.plans.later import Later


@dataclass(frozen=True)
class Interface:
    """Declarations of a model: inputs, outputs, the file's own key-value pairs, and its facts about itself."""

    inputs: tuple[Declared, ...]
    outputs: tuple[Declared, ...]
    metadata: Mapping[str, str] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(declared.name for declared in self.outputs)


class Planned:
    """Stages of a model by the shapes of its inputs. `source` returns the graph for new shapes. `named`: nodes and
    operators that the caller has named, which a model must have."""

    def __init__(
        self,
        interface: Interface,
        signature: Signature,
        shared: Shared,
        cache_entry: CacheEntry | None = None,
        named: Collection[str] = (),
    ) -> None:
        self.interface, self.signature, self.shared, self.named = interface, signature, shared, named
        self.by_shapes = Stages()
        self.classes = SizeClasses()
        self.source: Callable[[], Graph] | None = None
        self.unwritten: Later | None = None  # a plan, written after the next answer
        self._cache_entry = cache_entry
        self._closed = False

    # ---- where they come from -------------------------------------------------------------------------------------

    def compile(self, source: OwnedGraph) -> None:
        """Compile the graph now if its shapes are fixed, else keep it for later shapes."""
        with importing():
            from cenote.graph.graph import OwnedGraph

        known = self.signature.static_shapes()
        graph = source.take()
        if known is None:
            if self.named:
                with importing():
                    from cenote.compiler.algorithms import check_names

                check_names(self.named, graph)
            whole = graph
            self.source = lambda: whole  # other shapes need the weights again
            self.keep()
            self.reserve()
            return
        bare = graph.replace(constants={}, types={}) if self.named else None
        handover = OwnedGraph(graph)
        del graph
        stage = self.by_shapes[known] = Stage.compile(handover, self.signature.types(known), self.shared)
        if bare is not None:
            check_stage(self.named, bare, stage.made, stage.tail, stage.numbers)
        stage.plan.program.prepare()
        self.keep()

    def take(self, stored: StoredModel, source: Callable[[], Graph] | None) -> None:
        """Use the plans of a file or of the cache. `source` returns the graph for shapes without a plan."""
        self.source = source
        self.classes.plans.extend(stored.sized)
        tails = [*((pattern, sized.tail) for pattern, sized in stored.sized), *stored.tails.items()]
        for pattern, tail in tails:
            if source is not None and tail is not None:
                supply(tail, part_of(source, self.signature, pattern))
        for shapes, plan in stored.plans.items():
            self._adopt(shapes, plan, stored.tails.get(shapes))
        self.reserve()

    def _adopt(self, shapes: Shapes, plan: Plan | StoredPlan, tail: Tail | None = None) -> Stage:
        """Add the stage of a plan that was read."""
        outputs = self.interface.output_names if tail is None else tail.cut.made
        stage = Stage(plan, [*self.signature.by_name], outputs, self.shared, tail)
        stage.plan.program.prepare()
        self.by_shapes[shapes] = stage
        return stage

    def reserve(self) -> None:
        """Allocate the memory for the largest sizes, if bounds define them."""
        if largest := self.signature.largest():
            self.at(largest).reserve()

    def check_open(self) -> None:
        """Raise InputError where the model has been closed."""
        if self._closed:
            closed()

    def at(self, shapes: Shapes) -> Stage:
        """Return the stage for these shapes: an earlier one, one of a class or of the cache, or a new one."""
        with refusals("a plan for new shapes"), self.shared.guard.lock:
            self.check_open()
            stage = self.by_shapes.get(shapes)
            if stage is not None:
                self.by_shapes.move_to_end(shapes)
                return stage
            types = self.signature.types(shapes)
            return self.by_shapes.get_or_make(shapes, lambda: self._new(shapes, types))

    def _new(self, shapes: Shapes, types: Mapping[str, TensorType]) -> Stage:
        pattern, numbers = self.signature.dimensions(shapes)
        found = self.classes.find(pattern, numbers, self.shared.workplaces)
        if found is not None:
            return Stage.of_class(found, numbers, self.shared)
        stored = None if self._cache_entry is None else self._cache_entry.find(shapes, self.shared.threads)
        if stored is not None and shapes in stored.plans:
            tail = stored.tails.get(shapes)
            if tail is not None and self.source is not None:
                supply(tail, part_of(self.source, self.signature, shapes))
            return self._adopt(shapes, stored.plans[shapes], tail)
        if self.source is not None:
            part = part_of(self.source, self.signature, pattern)
            found = compile_class(
                self.classes, pattern, numbers, part, self.shared.compilation, self.shared.workplaces
            )
            if found is not None:
                if self.named:
                    check_stage(self.named, self.source(), found[0].graph, found[0].tail, numbers)
                self.keep()
                return Stage.of_class(found, numbers, self.shared)
        if self.source is None:
            names = [declared.name for declared in self.interface.inputs]
            raise no_plan_for(names, shapes, self.by_shapes, len(self.classes.plans))
        with importing():
            from cenote.graph.graph import OwnedGraph

        stage = self.by_shapes[shapes] = Stage.compile(OwnedGraph(self.source()), types, self.shared)
        if self.named:
            check_stage(self.named, self.source(), stage.made, stage.tail, stage.numbers)
        fall_back(self.classes, pattern)
        self.keep(shapes)
        return stage

    # ---- what is kept of them -------------------------------------------------------------------------------------

    def own(self) -> Mapping[Any, Stage]:
        """Stages that were compiled for their shapes alone."""
        return {key: stage for key, stage in self.by_shapes.items() if stage.plan.program.workplaces is None}

    def stored(self, shapes: Sequence[Any], sized: Sequence[tuple[Pattern, SizedPlan]]) -> StoredModel:
        """Return the model and its plans for these shapes and for classes of sizes, for storage."""
        return StoredModel(
            self.interface.inputs,
            self.interface.outputs,
            self.interface.metadata,
            self.shared.options,
            {key: self.by_shapes[key].plan for key in shapes},
            sized,
            {key: tail for key in shapes if (tail := self.by_shapes[key].tail) is not None},
            about=self.interface.about,
        )

    def keep(self, shapes: Shapes | None = None) -> None:
        """Store the plan for these shapes in the cache after the answer; None: all plans that loading has made."""
        if self._cache_entry is None:
            return
        whole = shapes is None and self.signature.static_shapes() is not None
        wanted = [key for key in self.own() if whole or key == shapes]
        stored = self.stored(wanted, () if shapes is not None else tuple(self.classes.plans))
        self.unwritten = self._cache_entry.keep(shapes, stored)

    def close(self) -> None:
        """Release plans, weights and memory; runs in progress end normally."""
        with self.shared.guard.lock:
            self._closed = True
            self.by_shapes.clear()
            self.by_shapes.taken = 0
            self.source = self._cache_entry = None
            self.classes.plans.clear()
            self.answered()
            self.shared.close()

    # ---- running --------------------------------------------------------------------------------------------------

    def answered(self) -> None:
        """Start writing the plan that waits for an answer."""
        unwritten = self.unwritten
        if unwritten is not None:
            self.unwritten = None
            unwritten.release()

    def run(self, stage: Stage, arrays: Sequence[Array]) -> list[Array]:
        """Run a stage that others follow; return the outputs in order as values of graphs: sequences are packed."""
        with refusals("a run in stages"):
            results = stage.run(dict(zip(self.signature.by_name, arrays, strict=True)))
            if self.shared.changed and self._cache_entry is not None:
                with self.shared.guard.lock:
                    self.shared.changed = False
                    self.keep()
        return [results[name] for name in self.interface.output_names]


class _Inside:
    """Submodel that is compiled when it first runs."""

    def __init__(self, graph: Graph, around: Shared) -> None:
        outputs = tuple(Declared(name, FLOAT32, None) for name in graph.outputs)
        self._planned = Planned(Interface(graph.inputs, outputs), Signature(graph.inputs), around.inside())
        self._planned.source = lambda: graph
        self._stages = self._planned.by_shapes

    def __call__(self, arrays: Sequence[Array]) -> Sequence[Array]:
        stage = self._stage(arrays)
        if stage.tail is None:  # a short body is run thousands of times: straight to its program
            return stage.plan.program.run(arrays)
        return self._planned.run(stage, arrays)

    def program(self, arrays: Sequence[Array]) -> Program | None:
        """Return the program for these arrays; None where it is not all of the graph."""
        stage = self._stage(arrays)
        return stage.plan.program if stage.tail is None else None

    def _stage(self, arrays: Sequence[Array]) -> Stage:
        key = tuple([x.shape for x in arrays])
        return self._stages.get(key) or self._planned.at(key)


def shared_under(options: LoadOptions) -> Shared:
    """Return the shared state of all stages of a model under these options."""
    return Shared(options, _Inside)
