"""Description of a compiled plan: its steps, their kernels, the steps left to the host and why, memory.

`print(model.plan)` and `cenote inspect` show it; `PlanDescription.as_dict` is the same as JSON-able data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from cenote.compiler.barriers import StepKind, StepOrigin, flow
from cenote.compiler.html import plan_html
from cenote.compiler.memory import Placement
from cenote.compiler.memory_report import MemoryDescription, described_blocks
from cenote.compiler.schedule import BY_COST, Schedule
from cenote.core.deferred import dataclass
from cenote.core.sizes import plain
from cenote.core.text import Report
from cenote.core.types import short_name
from cenote.graph.graph import Graph, Node
from cenote.ops.base import Alias, Lowering, Op
from cenote.runtime.program import Program
from cenote.runtime.steps import KernelStep

_WIDEST = 56  # most letters of a column of text


@dataclass(frozen=True)
class StepDescription:
    """One step of a program. `kind` is "kernel", "host" (NumPy), "halo" (zeros around a convolution's input) or
    "check" (a check of what a kernel noted: an index out of range is an error).

    `node` is the node's name in its file (its first output where it has none), `op` the operator with its attributes,
    `algorithm` the lowering, `output` type and layout of the first output, `kernel` the symbol. `items` independent
    pieces, `grain` of them at a time; `barrier`: all threads meet after it. `reason` says why a host step is one, and
    of a kernel, where there were several algorithms to choose from, why this one: the cost model's estimates for it
    and its rivals, or the measured times.

    Work: `operations` of its part of the operator and those that the kernel executes, multiply-adds counted as 2;
    `read_bytes` and `written_bytes` that must be moved at least once; `dtype`, the type it computes in. `seconds`:
    the cost model's estimate of the node's lowering on one thread; `rivals`: its estimates of other lowerings, by
    name. `origin`: of a user's algorithm, its name, file and line. `not_narrower`: why a layer is not in the narrower
    numbers that `precision` asks for or that a quantised model has, empty where it is, where there are none, and where
    that is the choice of an algorithm (`reason`). `reads`: the steps that make what it reads; -1 is the plan's first
    input. `shares`: the last step before it that reads the same largest constant, -1 for none.
    """

    kind: str
    node: str
    op: str
    algorithm: str
    output: str
    kernel: str = ""
    items: int = 1
    grain: int = 1
    barrier: bool = True
    scratch_bytes: int = 0
    reason: str = ""
    operations: int = 0
    executed_operations: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    dtype: str = "float32"
    seconds: float = 0.0
    rivals: tuple[tuple[str, float], ...] = ()
    not_narrower: str = ""
    origin: str = ""
    reads: tuple[int, ...] = ()
    shares: int = -1

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> StepDescription:
        """Read the result of `as_dict`. Numbers that depended on sizes are texts in JSON."""
        whole = {name: int(data[name]) for name in _WORK}
        rivals = tuple((name, seconds) for name, seconds in data["rivals"])
        return StepDescription(**{**data, **whole, "rivals": rivals, "reads": tuple(data["reads"])})


_WORK = ("operations", "executed_operations", "read_bytes", "written_bytes")


@dataclass(frozen=True, repr=False)
class PlanDescription(Report):
    """Description of a plan. `free` names the nodes that cost nothing, with the reason; `kernels` counts the
    launches.

    `between` are the nodes that run on the host after this plan and before the next stage's, where there are stages.
    `guards`: of a plan for all sizes of a class, the questions that the class has the same answers to. `rewritten`: the
    rewrites of users that changed the graph, with file and line, and at how many places. `made_by`: of each output the
    steps that make it.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    threads: int
    steps: tuple[StepDescription, ...]
    free: tuple[tuple[str, str], ...]
    kernels: tuple[tuple[str, int], ...]
    memory: MemoryDescription
    between: tuple[str, ...] = ()
    guards: int = 0
    rewritten: tuple[tuple[str, int], ...] = ()
    made_by: tuple[tuple[int, ...], ...] = ()

    def count(self, kind: str) -> int:
        """Return the number of steps of a kind."""
        return sum(step.kind == kind for step in self.steps)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        data: dict[str, Any] = _plain(self)
        return data

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> PlanDescription:
        """Read the result of `as_dict`, also after a trip through JSON."""
        return PlanDescription(
            name=data["name"],
            inputs=tuple(data["inputs"]),
            outputs=tuple(data["outputs"]),
            threads=data["threads"],
            steps=tuple(map(StepDescription.from_dict, data["steps"])),
            free=tuple((name, reason) for name, reason in data["free"]),
            kernels=tuple((symbol, count) for symbol, count in data["kernels"]),
            memory=MemoryDescription.from_dict(data["memory"]),
            between=tuple(data["between"]),
            guards=data["guards"],
            rewritten=tuple((origin, count) for origin, count in data["rewritten"]),
            made_by=tuple(map(tuple, data["made_by"])),
        )

    @property
    def from_outside(self) -> tuple[str, ...]:
        """Lines on the algorithms and rewrites of users: name, file and line, and how often each is used."""
        steps = Counter(step.origin for step in self.steps if step.origin)
        lines = [f"{origin}: {count} step(s)" for origin, count in steps.items()]
        return *lines, *(f"{origin}: replaced at {count} place(s)" for origin, count in self.rewritten)

    @property
    def head(self) -> tuple[str, ...]:
        """Lines above the steps: the signature, and the number of steps of each kind."""
        return tuple(_head(self))

    @property
    def rows(self) -> tuple[tuple[str, str, str, str], ...]:
        """Rows of the steps: node, how it is computed, output, operator."""
        return tuple((step.node or step.algorithm, _how(step), step.output, step.op) for step in self.steps)

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines below the steps: nodes that cost nothing, how algorithms were chosen, memory."""
        return tuple(_notes(self))

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def _repr_html_(self) -> str:
        return plan_html(self.head, self.rows, self.notes, self.kernels)


_SCALARS = frozenset({str, int, float, bool})


def _plain(value: Any) -> Any:
    """Return dicts instead of dataclasses. Nothing is copied, unlike `asdict`: a Size cannot be."""
    kind: Any = type(value)
    if kind in _SCALARS:
        return value
    names = _fields_of(kind)
    if names is not None:
        return {name: _plain(getattr(value, name)) for name in names}
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value


@cache
def _fields_of(kind: type) -> tuple[str, ...] | None:
    """Return the names of the fields of a dataclass; None for any other class."""
    return tuple(each.name for each in fields(kind)) if is_dataclass(kind) else None


def describe_plan(
    schedule: Schedule,
    memory: Placement,
    program: Program,
    origins: Sequence[StepOrigin],
    between: Sequence[Node] = (),
) -> PlanDescription:
    """Describe the result of `compile_graph`; `origins`: the origins of the program's steps, `between`: nodes after
    it."""
    graph = schedule.graph
    values = _Values(graph)
    reads, made_by = flow(graph, origins)
    steps = tuple(_steps(schedule, program, origins, list(zip(reads, _shares(graph, origins), strict=True))))
    return PlanDescription(
        name=graph.name,
        inputs=tuple(values.shown(declared.name) for declared in graph.inputs),
        outputs=tuple(map(values.shown, graph.outputs)),
        threads=program.threads,
        steps=steps,
        free=tuple(_free(schedule, steps)),
        kernels=tuple(Counter(step.kernel for step in steps if step.kernel).items()),
        memory=MemoryDescription(
            arena=memory.arena_bytes,
            peak=memory.peak,
            constants=sum({id(array): array.nbytes for array in program.constants}.values()),
            scratch=program.scratch_bytes,
            buffers=len(memory.buffers),
            blocks=tuple(described_blocks(graph, memory, origins)),
        ),
        between=tuple(f"{node.title}: {node.op}" for node in between),
        rewritten=graph.rewritten,
        made_by=tuple(made_by),
    )


# ---- steps back to nodes ----------------------------------------------------------------------------------------


def _steps(
    schedule: Schedule,
    program: Program,
    origins: Sequence[StepOrigin],
    flows: Sequence[tuple[tuple[int, ...], int]],
) -> Iterator[StepDescription]:
    """Describe the steps. A program has no graph: `origins` holds the node of each step. `flows`: what each step reads,
    and with which one it shares a constant."""
    operators: dict[int, str] = {}  # many nodes share one, and it takes 20 us to print
    values = _Values(schedule.graph)
    for step, origin, (read, shared) in zip(program.steps, origins, flows, strict=True):
        node = schedule.graph.nodes[origin.node]
        output = values.shown(node.outputs[0])
        if id(node.op) not in operators:
            operators[id(node.op)] = str(node.op)
        title, shown, algorithm = node.title, operators[id(node.op)], origin.algorithm
        reason = schedule.reasons[origin.node] if schedule.reasons else ""
        said: dict[str, Any] = {"reads": read, "shares": shared}
        if origin.kind is StepKind.HALO:
            title, shown, algorithm, output = "", "", step.label, ""
        elif origin.kind is StepKind.CHECK:
            said["reason"] = "of what the kernel noted in its input"
        elif origin.kind is StepKind.HOST:
            said["reason"] = reason or _why_host(schedule.graph, node)
        elif schedule.reasons:
            said |= {"reason": reason, "rivals": schedule.rivals[origin.node]}
        if origin.kind in (StepKind.KERNEL, StepKind.HOST):
            said["not_narrower"] = schedule.graph.reasons.get(node.outputs[0], "")
        if isinstance(step, KernelStep):
            said |= _of_kernel(step, origin, schedule.lowerings[origin.node])
        yield StepDescription(origin.kind, title, shown, algorithm, output, **said)


def _shares(graph: Graph, origins: Sequence[StepOrigin]) -> list[int]:
    """Return, for each step, the last one before it that reads its node's largest constant; -1 for none."""
    made = {declared.name for declared in graph.inputs} | {
        name for node in graph.nodes for name in node.outputs
    }
    last: dict[str, int] = {}
    found = []
    for number, origin in enumerate(origins):
        if origin.kind is not StepKind.KERNEL:
            found.append(-1)
            continue
        names = {name for name in graph.nodes[origin.node].inputs if name and name not in made}
        sizes = {name: plain(kind.nbytes) for name in names if (kind := graph.type_of(name)) is not None}
        largest = max(sizes, key=lambda name: sizes[name], default="")
        found.append(last.get(largest, -1))
        if largest:
            last[largest] = number
    return found


def _of_kernel(step: KernelStep, origin: StepOrigin, option: Lowering | None) -> dict[str, Any]:
    """Return the fields that only the description of a kernel step has."""
    known = origin.kind is StepKind.KERNEL and option is not None
    extension = None if option is None else option.extension
    return {
        "origin": "" if extension is None else extension.origin,
        "operations": origin.work.operations,
        "executed_operations": origin.work.executed,
        "read_bytes": origin.work.read,
        "written_bytes": origin.work.written,
        "dtype": origin.work.dtype,
        "seconds": plain(option.seconds) if known and option is not None else 0.0,
        "kernel": step.symbol,
        "items": step.items,
        "grain": step.grain,
        "barrier": step.barrier,
        "scratch_bytes": step.scratch,
    }


class _Values:
    """The values of a graph, each type shown once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._types: dict[int, tuple[str, object]] = {}  # by the ids of types, which stay theirs

    def shown(self, name: str) -> str:
        """Return the text of a value, such as `%y: f32[1,8,4,4] c8`."""
        type, layout = self.graph.type_of(name), self.graph.layouts.get(name)
        if id(type) not in self._types:
            self._types[id(type)] = str(type), type
        border = f" {layout}" if layout is not None and layout.is_blocked else ""
        return f"%{name}: {self._types[id(type)][0]}{border}"


def _why_host(graph: Graph, node: Node) -> str:
    """Return the reason why no kernel runs this node."""
    if node.op.view:
        return "a copy of elements that kernels do not move"
    if type(node.op).lowerings is Op.lowerings:
        return f"{node.op.name} has no kernel"
    types = dict.fromkeys(short_name(x.dtype) for x in graph.input_types(node) if x is not None)
    return f"{node.op.name} has no kernel for these inputs or attributes ({', '.join(types)})"


def _free(schedule: Schedule, steps: tuple[StepDescription, ...]) -> Iterator[tuple[str, str]]:
    """Yield nodes without a step, with the reason: they share memory."""
    busy = {step.node for step in steps}
    reasons = {
        Alias.VIEW: "shares memory with its input",
        Alias.JOINED: "its inputs are written straight into it",
        Alias.PARTS: "its outputs are parts of its input",
    }
    for node, option in zip(schedule.graph.nodes, schedule.lowerings, strict=True):
        title = node.title
        if title not in busy:
            shared = None if option is None else option.alias
            yield title, f"{node.op.name}: {'no work' if shared is None else reasons[shared]}"


# ---- text -------------------------------------------------------------------------------------------------------


def _lines(plan: PlanDescription) -> Iterator[str]:
    yield from _head(plan)
    rows = plan.rows
    widths = [min(_WIDEST, max((len(row[column]) for row in rows), default=0)) for column in range(3)]
    for number, row in enumerate(rows):
        cells = [_cut(text, width).ljust(width) for text, width in zip(row, widths, strict=False)]
        yield f"  {number:3}  {'  '.join((*cells, row[3]))}".rstrip()
    yield from _notes(plan)
    for symbol, count in plan.kernels:
        yield f"kernel {count:3} x  {symbol}"


def _head(plan: PlanDescription) -> Iterator[str]:
    yield f"plan {plan.name} ({', '.join(plan.inputs)}) -> {', '.join(plan.outputs)}"
    kernels, halos, host = map(plan.count, (StepKind.KERNEL, StepKind.HALO, StepKind.HOST))
    yield (
        f"{len(plan.steps)} steps on {plan.threads} thread(s): {kernels} kernels, {halos} halos, {host} on the host; "
        f"{len(plan.free)} nodes need no step"
    )
    if plan.guards:
        yield f"serves all sizes that have the same answers to {plan.guards} questions"


def _notes(plan: PlanDescription) -> Iterator[str]:
    for title, reason in plan.free:
        yield f"    -  {title}: {reason}"
    for node in plan.between:
        yield f"  then on the host, before the next stage: {node}"
    yield from _choices(plan)
    yield from (f"from outside: {line}" for line in plan.from_outside)
    wider = {step.node: step.not_narrower for step in plan.steps if step.not_narrower}
    if wider:
        yield f"precision: {len(wider)} layer(s) in wider numbers than asked for"
    yield from (f"        {node}: {reason}" for node, reason in wider.items())
    memory = plan.memory
    yield f"memory: arena {memory.arena:,} bytes in {memory.buffers} buffers (largest live set {memory.peak:,})"
    yield f"        constants {memory.constants:,} bytes, scratch {memory.scratch:,} bytes per thread"


def _choices(plan: PlanDescription) -> Iterator[str]:
    """Yield lines on the choices where there were several algorithms: estimated or measured times."""
    chosen = {step.node: step for step in plan.steps if step.kind == StepKind.KERNEL and step.reason}
    measured = sum(not step.reason.startswith(BY_COST) for step in chosen.values())
    if chosen:
        yield f"choices: {len(chosen) - measured} by the cost model, {measured} measured"
    for step in chosen.values():
        yield f"        {step.node}: {step.algorithm}, {step.reason}"


def _how(step: StepDescription) -> str:
    if step.kind == StepKind.HOST:
        return f"host: {step.reason}"
    if step.kind == StepKind.CHECK:
        return f"check {step.reason}"
    return f"{step.algorithm}, {step.items} piece(s)" if step.kind == StepKind.KERNEL else ""


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
