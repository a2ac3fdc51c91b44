"""Compilation of a specialised graph to a program: the one module that sees every stage."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from cenote.codegen import jit
from cenote.compiler.assembler import Assembler
from cenote.compiler.barriers import StepOrigin
from cenote.compiler.constants import ConstantPool
from cenote.compiler.decide import Decide
from cenote.compiler.levels import in_ranks
from cenote.compiler.memory import Placement, place_values
from cenote.compiler.report import PlanDescription, describe_plan
from cenote.compiler.schedule import Schedule, schedule
from cenote.compiler.templates import with_positions
from cenote.core.deferred import dataclass
from cenote.core.extensions.switched import UserExtension, considering
from cenote.core.load_options import LoadOptions
from cenote.core.target import Target
from cenote.core.trace import Trace
from cenote.core.types import TensorType
from cenote.graph.graph import Graph, Node, OwnedGraph
from cenote.kernels.base import KernelSpec
from cenote.kernels.cost_model import WORTH_THREADS
from cenote.ops.base import Lowering, no_calls
from cenote.passes.pipeline import optimize
from cenote.runtime.program import Program
from cenote.runtime.template import Template
from cenote.runtime.threads import resolve_threads

# The most memory, relative to a plan step by step, that a plan may take so that branches run side by side.
_MORE_MEMORY = 1.1
# Sizes of the caches that blocks are made for, relative to the machine's.
_CACHES = {"usual": 1.0, "smaller": 0.5, "larger": 2.0}


@dataclass(frozen=True, repr=False)
class Plan:
    """Compiled graph: the optimised graph, the lowering of each node, the places of values, and the program.

    `origins` gives the node and the kind of each step. `between` are nodes that run on the host after the program,
    before the next stage.
    """

    graph: Graph
    schedule: Schedule
    memory: Placement
    program: Program
    origins: tuple[StepOrigin, ...]
    between: tuple[Node, ...] = ()

    def describe(self) -> PlanDescription:
        """Return steps, kernels, host steps with their reasons, and memory as data: the content of `print(plan)`."""
        return describe_plan(self.schedule, self.memory, self.program, self.origins, self.between)

    def __str__(self) -> str:
        return str(self.describe())

    def _repr_html_(self) -> str:
        return self.describe()._repr_html_()

    def __repr__(self) -> str:
        steps, arena = len(self.program.steps), self.memory.arena_bytes
        return f"<cenote.Plan {self.graph.name}, {steps} steps, arena {arena:,} bytes>"


@dataclass(frozen=True)
class Compilation:
    """Parameters of a compilation: the options of `cenote.load`, the pool of weights that plans share, the function
    that decides between algorithms (see `schedule`), and the machine that the program is for; None: this one. For
    another one no kernel is compiled: `Plan.program` cannot run here."""

    options: LoadOptions
    pool: ConstantPool | None = None
    decide: Decide | None = None
    foreign: Target | None = None

    @property
    def target(self) -> Target:
        """Machine that the program is for, with caches that blocks of the wanted sizes suit."""
        target = self.foreign or replace(jit.host_target(), threads=int(self.threads))
        scale = _CACHES[self.options.blocks]
        if scale == 1:
            return target
        return replace(target, l1_bytes=int(target.l1_bytes * scale), l2_bytes=int(target.l2_bytes * scale))

    @property
    def threads(self) -> int:
        """Number of threads per inference."""
        return resolve_threads(self.options.threads)

    @property
    def algorithms(self) -> tuple[UserExtension, ...]:
        """Algorithms of users that are switched on."""
        return tuple(each for each in self.options.switched_on() if each.of)

    def optimized(self, graph: Graph) -> Graph:
        """Return the specialised graph after all passes."""
        return optimize(graph, self.target, self.options, inferred=True)


def compile_graph(source: Graph | OwnedGraph, how: Compilation) -> Plan:
    """Optimise, schedule, plan memory, generate code and assemble the program of a specialised graph."""
    return assemble(_scheduled(source, how), how.threads, how.pool)


def compile_foreign(source: Graph | OwnedGraph, how: Compilation) -> tuple[Plan, Mapping[str, KernelSpec]]:
    """Compile a specialised graph for the machine `how.foreign`: return the plan, whose program this process cannot run
    (addresses of kernels are 0), and the kernels by symbol."""
    assembler, _ = _assembled(_scheduled(source, how), how.pool, None, how.foreign)
    return _plan(assembler, 1, False), assembler.kernels


def compile_sized(
    source: Graph | OwnedGraph, how: Compilation, trace: Trace, between: Sequence[Node] = ()
) -> tuple[Template, str, Graph]:
    """Compile a graph whose types hold Sizes of the trace: return a template, its description (JSON in which numbers
    that depend on the sizes stand as {{position}}), and the optimised graph. `between` as in `Plan`."""
    assembler, seconds = _assembled(_scheduled(source, how, trace), how.pool, trace)
    template, positions = assembler.template(how.threads, seconds, WORTH_THREADS, trace)
    program = template.at(trace.values[: trace.dimensions])
    assert program is not None, "a template holds for the sizes that it was made with"
    origins = [step.origin for step in assembler.steps]
    with trace.showing_formulas():
        shown = describe_plan(assembler.scheduled, assembler.memory, program, origins, between)
        text = json.dumps({**shown.as_dict(), "guards": len(trace.guards)}, default=str)
        return template, with_positions(text, positions), assembler.graph


def planned_sized(source: Graph | OwnedGraph, how: Compilation, trace: Trace) -> Assembler:
    """Plan a graph whose types hold Sizes of the trace, with formulas of its memory; nothing is compiled."""
    assembler, _ = _assembled(_scheduled(source, how, trace), how.pool, trace)
    assembler.open_arena(trace)
    return assembler


def _scheduled(
    source: Graph | OwnedGraph, how: Compilation, trace: Trace | None = None
) -> Callable[[], Schedule]:
    target = how.target
    handover = source if isinstance(source, OwnedGraph) else OwnedGraph(source)

    def make() -> Schedule:
        optimized = how.optimized(handover.take())
        with considering(how.algorithms):
            return schedule(optimized, target, how.decide, trace)

    return make


def assemble(make: Callable[[], Schedule], threads: int, pool: ConstantPool | None = None) -> Plan:
    """Plan memory, generate code and build the program of the schedule that `make` returns (and keeps no reference
    to)."""
    assembler, seconds = _assembled(make, pool, None)
    return _plan(assembler, threads, seconds < WORTH_THREADS)


def _plan(assembler: Assembler, threads: int, alone: bool) -> Plan:
    """Return the plan of assembled steps."""
    program = assembler.program(threads, alone)
    origins = tuple(step.origin for step in assembler.steps)
    return Plan(assembler.graph, assembler.scheduled, assembler.memory, program, origins)


def _assembled(
    make: Callable[[], Schedule],
    pool: ConstantPool | None,
    trace: Trace | None,
    foreign: Target | None = None,
) -> tuple[Assembler, float]:
    """Return the steps of a schedule, and their estimated seconds."""
    target, scheduled = foreign or jit.host_target(), make()
    seconds = _seconds(scheduled.lowerings)
    scheduled, memory = _in_memory(scheduled, trace is not None)
    constants = dict(scheduled.graph.constants)
    binds = [None if option is None else option.bind for option in scheduled.lowerings]
    scheduled = _without_weights(scheduled)
    assembler = Assembler(
        scheduled, memory, target, pool or ConstantPool(), constants, binds, trace, foreign is None
    )
    assembler.make_steps()
    return assembler, seconds


def _seconds(lowerings: Sequence[Lowering | None]) -> float:
    """Return the estimated seconds of nodes; a formula has those of each lowering once."""
    distinct = {id(option): option for option in lowerings if option is not None}
    times = Counter(map(id, lowerings))
    return sum(times[key] * option.seconds for key, option in distinct.items())


def _in_memory(scheduled: Schedule, open_sizes: bool) -> tuple[Schedule, Placement]:
    """Return the placement; with branches side by side where that takes little more."""
    least = place_values(scheduled, open_sizes=open_sizes)
    ranked, ranks = in_ranks(scheduled)
    if len(set(ranks)) == len(ranks):
        return scheduled, least
    roomy = place_values(ranked, ranks, open_sizes)
    return (ranked, roomy) if roomy.arena_bytes <= least.arena_bytes * _MORE_MEMORY else (scheduled, least)


def _without_weights(scheduled: Schedule) -> Schedule:
    """Return the schedule without the constants, and without the binds, which have them in their closures."""
    graph = scheduled.graph
    types = {name: type.bare for name, type in graph.types.items()}
    types.update({name: TensorType.known(x).bare for name, x in graph.constants.items()})
    distinct = {id(option): option for option in scheduled.lowerings}
    unbound = {key: option and replace(option, bind=no_calls) for key, option in distinct.items()}
    lowerings = tuple(unbound[id(option)] for option in scheduled.lowerings)
    return replace(scheduled, graph=graph.replace(constants={}, types=types), lowerings=lowerings)
