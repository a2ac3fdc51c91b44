"""Classes of plans that a network's sizes fall into, and the questions that part them: `bench.new_sizes --classes`.

Each network is planned as a model that meets the sizes in this order would plan it: a size that no plan so far holds
for makes a new one. Nothing is compiled or run. A split is told with the first question of each earlier plan that the
new size answers otherwise, and the file and line that asked. Steps that would run in Python are counted as well.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bench.any_size import Shape
from bench.files import ModelFiles
from bench.report import table
from bench.zoo.architectures import ARCHITECTURES, Architecture
from cenote.compiler.assembler import Assembler
from cenote.compiler.barriers import StepKind
from cenote.compiler.compile import Compilation, planned_sized
from cenote.core.errors import CenoteError
from cenote.core.formulas.checks import Evaluation
from cenote.core.formulas.expressions import OpenSizeError, SizeFormula
from cenote.core.load_options import LoadOptions
from cenote.core.trace import Trace
from cenote.frontends.onnx import load_onnx
from cenote.passes.specialize import specialize
from cenote.runtime.signature import Signature

BATCHES = (1, 4, 1, 2, 3)
_UNKNOWN = re.compile(r"\bu(\d+)\b")
_LONGEST = 160  # characters of a question as it is printed


@dataclass
class Split:
    """A size without a plan: for each earlier plan the questions that refused it, by the place that asked."""

    shape: Shape
    refused: list[dict[str, str]]


@dataclass
class Classes:
    """What planning one network at several sizes showed: the sizes that made classes, and what was not any size."""

    network: str
    sizes: int
    splits: list[Split] = field(default_factory=list)
    hosts: Counter[str] = field(default_factory=Counter)
    failure: str = ""
    is_cut: bool = False
    guards: int = 0
    seconds: float = 0.0


def spelled(trace: Trace, question: SizeFormula) -> str:
    """A question and its answer in terms of the dimensions d[0], d[1] …, as far as it is short."""
    text = question.code
    while len(text) < _LONGEST and (found := _UNKNOWN.search(text)):
        text = text[: found.start()] + str(trace.codes[int(found[1])]) + text[found.end() :]
    return f"{text[:_LONGEST]} is {question.value}"


def refusals(trace: Trace, numbers: Sequence[int]) -> dict[str, str]:
    """The questions that these sizes answer otherwise, the first of each place that asks; none where the plan holds."""
    evaluation = Evaluation(trace, numbers)
    refused: dict[str, str] = {}
    for text, question in trace.guards.items():
        place = trace.places[text]
        try:
            same = bool(evaluation.value(question)) == bool(question.value)
        except Exception as error:  # a formula that has no value at this size
            refused.setdefault(place, f"{type(error).__name__}: {error}")
        else:
            if not same:
                refused.setdefault(place, spelled(trace, question))
    return refused


def classes_of(name: str, path: Path, shapes: Sequence[Shape]) -> Classes:
    """Plan a network for these sizes in turn."""
    found = Classes(name, len(shapes))
    model = load_onnx(path)
    signature = Signature(model.graph.inputs)
    traces: list[Trace] = []
    for shape in shapes:
        pattern, numbers = signature.dimensions((shape,))
        refused = [refusals(trace, numbers) for trace in traces]
        if not all(refused):
            continue
        trace, begin = Trace(), time.process_time()
        types = signature.typed(pattern, [trace.dimension(number) for number in numbers])
        specialized = specialize(model.graph, types)
        found.is_cut |= specialized.rest is not None
        how = Compilation(LoadOptions(threads=2))
        try:
            assembler = planned_sized(specialized.graph, how, trace)
        except (CenoteError, OpenSizeError, AssertionError) as error:
            found.failure = f"{type(error).__name__}: {error}"
            return found
        found.splits.append(Split(shape, refused))
        found.seconds += time.process_time() - begin
        found.guards = max(found.guards, len(trace.guards))
        traces.append(trace)
        if len(traces) == 1:
            found.hosts.update(host_steps(assembler))
    return found


def host_steps(assembler: Assembler) -> Iterator[str]:
    """The operators that run in Python."""
    for step in assembler.steps:
        if step.host is not None and step.origin.kind is StepKind.HOST:
            yield assembler.graph.nodes[step.origin.node].op.name


def sizes_of(one: Architecture, count: int, seed: int) -> list[Shape]:
    """So many seeded sizes of an architecture, of one picture and of several."""
    rng = np.random.default_rng(seed)
    extents = rng.integers(one.sides[0], one.sides[1] + 1, (count, len(one.open_axes)))
    found = []
    for number, row in enumerate(extents):
        batch = BATCHES[number % len(BATCHES)] if one.any_batch else one.shape[0]
        shape = [batch, *one.shape[1:]]
        for axis, extent in zip(one.open_axes, row, strict=True):
            shape[axis] = -(-int(extent) // one.multiple) * one.multiple
        found.append(tuple(shape))
    return found


def of_zoo(folder: Path, count: int, seed: int) -> Iterator[Classes]:
    """Every architecture that `bench.zoo.export` has written into a folder with open sizes."""
    for one in ARCHITECTURES.values():
        if (path := ModelFiles(one.name, folder).of_open_sizes.onnx).exists():
            yield classes_of(one.name, path, sizes_of(one, count, seed))


def told(one: Classes) -> Iterator[str]:
    """Lines about one network: its classes, and each place that parted some with the first question that did."""
    hosts = ", ".join(f"{count} {name}" for name, count in one.hosts.items()) or "none"
    cut = ", up to the first cut" if one.is_cut else ""
    yield (
        f"{one.network}: {len(one.splits)} class(es) for {one.sizes} sizes{cut}, {one.guards} questions, planned in "
        f"{one.seconds:.1f} s of CPU, host steps: {hosts}{one.failure and '; ' + one.failure}"
    )
    places: dict[str, str] = {}
    for split in one.splits:
        for refused in split.refused:
            places = {**refused, **places}
    yield from (f"    {place}: {question}" for place, question in places.items())


def report(found: Iterable[Classes]) -> str:
    """Print what is told of each network as it comes; return the table of how many have how many classes."""
    counts: Counter[str] = Counter()
    for one in found:
        print(*told(one), sep="\n", flush=True)
        counts["no plan for all" if one.failure else str(len(one.splits))] += 1
    total = sum(counts.values())
    rows = [[classes, str(number), f"{number / total:.0%}"] for classes, number in sorted(counts.items())]
    return table(["classes", "networks", "share"], rows)
