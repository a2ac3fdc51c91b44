"""Stages: compiled parts of a model, and the options that all stages of a model share.

What compiles (passes, kernels, operators: 0.3 s of imports) is imported when something must be compiled: a model whose
plan comes from a file or from the cache needs none of it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

from cenote.core import settings
from cenote.core.collector import collector_paused
from cenote.core.deferred import cached_property
from cenote.core.errors import InputError, ShapeError
from cenote.core.load_options import LoadOptions
from cenote.core.locks import Guard, importing
from cenote.core.types import Array, Declared, TensorType
from cenote.plans.classes import SizedPlan, StoredPlan, Tail
from cenote.runtime.outputs import OUTPUTS
from cenote.runtime.program import Program
from cenote.runtime.rounds import Feedback, Rounded, run_rounds
from cenote.runtime.threads import resolve_threads
from cenote.runtime.workplaces import Workplaces
from cenote.stages.sized import check_stage, compile_class, fall_back, part_after

if TYPE_CHECKING:
    from cenote.compiler.compile import Compilation, Plan
    from cenote.compiler.constants import ConstantPool
    from cenote.compiler.decide import Decide
    from cenote.graph.cut import CutFindings
    from cenote.graph.graph import Graph, Node, OwnedGraph
    from cenote.graph.loops import Body

_MEGABYTE = 1_000_000


class Stage:
    """A compiled part of a model for inputs of certain shapes.

    Where it ends at a cut, `tail` is the rest of the model, and `following` are the stages that have run next, by the
    findings at the cut. `numbers`: sizes of the model's symbolic dimensions, then those found at earlier cuts.
    """

    def __init__(
        self,
        plan: Plan | StoredPlan,
        inputs: Sequence[str],
        outputs: Sequence[str],
        shared: Shared,
        tail: Tail | None = None,
        numbers: tuple[int, ...] = (),
    ) -> None:
        if shared.denormals == "flush":
            plan = replace(plan, program=plan.program.changed(flush=True))
        self.plan, self.tail, self.shared, self.numbers = plan, tail, shared, numbers
        self.input_names, self.output_names = tuple(inputs), tuple(outputs)
        self.following = Stages()
        self._bound: dict[int, Node] = {}  # host nodes with compiled bodies, by the id of the cut's node

    @staticmethod
    def of_class(found: tuple[SizedPlan, StoredPlan], numbers: tuple[int, ...], shared: Shared) -> Stage:
        """Return the stage of a class's plan for these sizes, ready to run."""
        sized, plan = found
        stage = Stage(plan, sized.inputs, sized.outputs, shared, sized.tail, numbers)
        stage.plan.program.prepare()
        return stage

    @property
    def chain(self) -> list[Stage]:
        """This stage, and the stages that followed it in the last run."""
        return [self, *(next(reversed(self.following.values())).chain if self.following else ())]

    @property
    def made(self) -> Graph | None:
        """The optimised graph, where the stage was compiled in this process for its sizes alone."""
        return None if isinstance(self.plan, StoredPlan) else self.plan.graph

    @property
    def outputs(self) -> dict[str, Declared]:
        """Values that the chain computes, by name."""
        outputs: dict[str, Declared] = {}
        for stage in self.chain:
            for name, type in zip(stage.output_names, stage.plan.program.outputs, strict=True):
                outputs[name] = Declared(name, type.dtype, type.shape)
        return outputs

    def reserve(self) -> None:
        """Allocate the memory that its runs need, for all plans that share it. Raises CapacityError."""
        program = self.plan.program
        if program.workplaces is not None:
            program.workplaces.reserve(program)

    @property
    def nbytes(self) -> int:
        """Approximate bytes of memory that belong to this stage alone."""
        return self.plan.program.kept_bytes

    @staticmethod
    @collector_paused()
    def compile(source: OwnedGraph, types: Mapping[str, TensorType], shared: Shared) -> Stage:
        """Specialise a graph to these types and compile it up to the first cut."""
        with importing():
            from cenote.compiler.compile import compile_graph
            from cenote.graph.graph import OwnedGraph
            from cenote.passes.specialize import specialize

        specialized = specialize(source.take(), types)
        rest = specialized.rest
        inputs = [declared.name for declared in specialized.graph.inputs]
        outputs = specialized.graph.outputs
        graph = OwnedGraph(specialized.graph)
        del specialized
        plan = compile_graph(graph, shared.compilation)
        if rest is None:
            return Stage(plan, inputs, outputs, shared)
        tail = Tail(rest.cut, rest=lambda _: rest)
        return Stage(replace(plan, between=rest.host), inputs, outputs, shared, tail)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run this stage and those behind it; return all outputs of the model by name."""
        results = self.plan.program.run([inputs[name] for name in self.input_names])
        values = dict(zip(self.output_names, results, strict=True))
        if self.tail is None:
            return values
        known = self.tail.cut.run({**inputs, **values}, self._prepared, self.shared.threads)
        if self.tail.cut.ends:
            return known
        finding = self.tail.cut.finding(known)
        with self.shared.guard.lock:
            stage = self.following.get_or_make(finding, lambda: self._next(finding))
        known.update(stage.run(stage.taken(known)))
        return known

    def _prepared(self, node: Node) -> Node:
        """Return the node to run for a host node between stages: a loop with its body compiled, others as they are."""
        if not node.op.apart:
            return node
        assert self.tail is not None
        prepared = self._bound.get(id(node))
        if prepared is None:
            with importing():
                from cenote.graph.loops import CompiledLoop, ControlFlow

            prepared = node
            if isinstance(node.op, ControlFlow):
                fixed = node.op.fixed(node.inputs, self.tail.cut.constants)
                prepared = replace(
                    node, op=CompiledLoop(node.op, CompiledBody(node.op.body, fixed, self.shared))
                )
            self._bound[id(node)] = prepared
        return prepared

    def taken(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """Return the inputs among these values, in row-major order. Raises ShapeError for one that does not fit the
        plan: native code does not check sizes."""
        taken = {name: np.asarray(values[name], order="C") for name in self.input_names}
        for (name, array), type in zip(taken.items(), self.plan.program.inputs, strict=True):
            if (array.shape, array.dtype) != (type.shape, type.dtype):
                raise ShapeError(f"'{name}' is {TensorType.known(array)}, where the plan expects {type}")
        return taken

    def _next(self, found: CutFindings) -> Stage:
        """Return the stage for the findings at the cut, of a plan that exists or is compiled now."""
        tail, shared = self.tail, self.shared
        assert tail is not None
        numbers = (*self.numbers, *found.numbers)
        plan = tail.classes.find(found.pattern, numbers, shared.workplaces)
        if plan is not None:
            return Stage.of_class(plan, numbers, shared)
        if tail.rest is None:
            raise InputError(
                "the plan file has no plan for what these inputs lead to; save it after such a run"
            )
        with importing():
            from cenote.graph.graph import OwnedGraph

        part = part_after(tail, found.pattern)
        plan = compile_class(
            tail.classes, found.pattern, numbers, part, shared.compilation, shared.workplaces
        )
        named = shared.options.algorithms
        if plan is not None:
            if named:
                check_stage(named, part(numbers)[0], plan[0].graph, plan[0].tail, numbers, whole=False)
            shared.changed = True
            return Stage.of_class(plan, numbers, shared)
        graph, types = part(numbers)
        handover = OwnedGraph(graph)
        del graph
        stage = Stage.compile(handover, types, shared)
        if named:
            check_stage(named, part(numbers)[0], stage.made, stage.tail, numbers, whole=False)
        fall_back(tail.classes, found.pattern)
        return stage


class Submodel(Protocol):
    """A graph inside of a model as a function: from arrays that fit its inputs, in order, to outputs."""

    def __call__(self, arrays: Sequence[Array]) -> Sequence[Array]: ...

    def program(self, arrays: Sequence[Array]) -> Program | None:
        """Return the program for these arrays; None where it is not all of the graph."""


class CompiledBody:
    """Body of a loop that runs as a model of its own, one for each combination of dtypes and ranks.

    `fixed`: captured values that are constants.
    """

    def __init__(self, body: Body, fixed: Mapping[str, Array], shared: Shared) -> None:
        self.body, self.fixed, self.shared = body, fixed, shared
        names = (*body.formals, *body.captured)
        self._open = [index for index, name in enumerate(names) if name not in fixed]
        self._models: dict[Any, Submodel] = {}

    def __call__(self, values: Sequence[Array]) -> Sequence[Array]:
        """Return the outputs for the formal inputs followed by the captured values."""
        return self._model(values)([np.asarray(values[index], order="C") for index in self._open])

    def rounds(self, values: Sequence[Array], feedback: Feedback, most: int) -> Rounded | None:
        """Run up to `most` rounds at once, at least one; None where the body is not one program that `feedback` fits.

        `values` hold whole arrays for inputs that are walked; formal inputs have the numbers of `feedback`.
        """
        first = [
            x[-1 if feedback.walked[i] else 0] if i in feedback.walked else x for i, x in enumerate(values)
        ]
        program = self._model(first).program([first[index] for index in self._open])
        if program is None or not feedback.fits(program):
            return None
        return run_rounds(program, feedback, [values[index] for index in self._open], most)

    def _model(self, values: Sequence[Array]) -> Submodel:
        key = tuple([(value.dtype, value.ndim) for value in values])
        model = self._models.get(key)
        if model is None:
            model = self._models[key] = self.shared.submodel(self.body.graph(values, self.fixed), self.shared)
        return model


class NoPlan:
    """Placeholder for the plan of a model with symbolic dimensions before its first run. False; prints what to do."""

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return "no plan yet: the model has symbolic dimensions; run it once, or call plan_for(shapes)"

    def __repr__(self) -> str:
        return f"<{self}>"

    def describe(self) -> NoReturn:
        """Raise InputError: there is no plan yet."""
        raise InputError(str(self))


def closed() -> NoReturn:
    """Raise the InputError of a model that has been closed."""
    raise InputError("the model is closed; load it again")


class Shared:
    """State that all stages of a model share: its options, memory, weights, and the lock of its plans.

    `submodel` makes a model of a graph inside of it, a loop's body (`planned.shared_under`).
    """

    def __init__(self, options: LoadOptions, submodel: Callable[[Graph, Shared], Submodel]) -> None:
        self.threads = resolve_threads(options.threads)
        self.denormals = options.denormals or settings.DENORMALS.choice()
        self.options = options.changed(threads=self.threads, denormals=self.denormals)
        self.guard = Guard()
        # Memory that all plans for sizes share.
        self.workplaces = Workplaces()
        self.submodel = submodel
        self.changed = False  # whether a later stage has a class that is not in the cache yet

    def close(self) -> None:
        """Release memory and weights."""
        OUTPUTS.clear()
        self.workplaces = Workplaces()
        for name in ("compilation", "pool", "decide"):
            self.__dict__.pop(name, None)

    def inside(self) -> Shared:
        """Return the state for a graph inside of the model, without `shapes`, which name the model's inputs."""
        assert self.compilation, "it is made once, and shared by the copy"
        inner = copy(self)
        inner.options, inner.changed = self.options.changed(shapes={}), False
        return inner

    @cached_property
    def compilation(self) -> Compilation:
        """Options and shared parts of every compilation."""
        with importing():
            from cenote.compiler.compile import Compilation

        return Compilation(self.options, self.pool, self.decide)

    @cached_property
    def decide(self) -> Decide:
        """Choice between algorithms: those that the caller has named, then measurements."""
        with importing():
            from cenote.compiler.algorithms import NamedAlgorithms
            from cenote.compiler.tune import Tuner

        tuner, algorithms = Tuner(self.options.tune), self.options.algorithms
        return NamedAlgorithms(algorithms, tuner) if algorithms else tuner

    @cached_property
    def pool(self) -> ConstantPool:
        """Weights that several plans share."""
        with importing():
            from cenote.compiler.constants import ConstantPool

        return ConstantPool()


_SHOWN = 4  # shapes in an error


def no_plan_for(
    names: Sequence[str],
    wanted: Sequence[Sequence[int]],
    kept: Iterable[Sequence[Sequence[int]]],
    classes: int,
) -> InputError:
    """Return the error for shapes without a plan in the plan file, by the inputs' names; `kept` are shapes with one,
    `classes` those of sizes that it has plans for."""

    def shown_shapes(shapes: Sequence[Sequence[int]]) -> str:
        return ", ".join(f"{name} {[*shape]}" for name, shape in zip(names, shapes, strict=True))

    has = f"{classes} class(es) of sizes, such as that of " if classes else ""
    such = "; ".join(map(shown_shapes, islice(kept, _SHOWN)))
    call = {name: (*shape,) for name, shape in zip(names, wanted, strict=True)}
    return InputError(
        f"the plan file has no plan for {shown_shapes(wanted)} (it has: {has}{such}): load the model, call "
        f"plan_for({call}), and save it again"
    )


class Stages(OrderedDict[Any, Stage]):
    """Stages by shapes or findings, in the order of their last use. `taken`: approximate bytes of their memory."""

    taken = 0

    def __setitem__(self, key: Any, stage: Stage) -> None:
        self.taken += stage.nbytes - (self[key].nbytes if key in self else 0)
        super().__setitem__(key, stage)

    def get_or_make(self, key: Any, make: Callable[[], Stage]) -> Stage:
        """Return the stage of a key, made if there is none; drop the longest unused ones beyond CENOTE_SHAPES_KEPT."""
        stage = self.get(key)
        if stage is None:
            stage = self[key] = make()
            self.move_to_end(key)
            most = settings.SHAPES_KEPT.integer() * _MEGABYTE
            while self.taken > most and len(self) > 1:
                self.taken -= self.popitem(last=False)[1].nbytes
        self.move_to_end(key)
        return stage
