"""Accuracy of a plan's algorithms: each node's result beside its float64 reference on the inputs that its kernels had,
as the model is loaded and with precision="exact"."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cenote.codegen import jit
from cenote.compiler.compile import assemble
from cenote.compiler.schedule import schedule
from cenote.core.deferred import dataclass
from cenote.core.errors import refusals
from cenote.core.load_options import NO_OPTIONS, LoadOptions
from cenote.core.text import Report, aligned, ending
from cenote.core.types import Array, TensorType, is_float
from cenote.graph.graph import Graph
from cenote.models import cutting
from cenote.models.origin import main_file
from cenote.passes.specialize import run_in_stages
from cenote.profile.plain import from_plain, to_plain
from cenote.stages.planned import shared_under
from cenote.stages.stage import Shared
from cenote.verification.errors import relative_error
from cenote.verification.production import Made, Production
from cenote.verification.stream import Feed
from cenote.verification.verify import completed

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

SCHEMA = "cenote.accuracy/1"
LONG_SUM = 8192  # operations for each number of a result: sums of 4,096 products
_TOP = 20
_NODE, _ALGORITHM = 38, 18  # letters
# Advice is given where an error is above a few roundings of float32, and exact algorithms make it a third or less.
_NOTABLE, _BETTER = 2e-6, 3.0


@dataclass(frozen=True)
class StepAccuracy:
    """Error of one value that the plan makes, against float64 on the inputs that the node's kernels had.

    `error` is the largest difference, relative to the largest element; `ulps` the same in units in the last place of
    that element, `typical_ulps` the median over elements other than 0, each in units of its own last place.
    `operations`: of the node for each number of its result; `is_long`: these are sums of 4,096 products or more.
    `exact_error`: `error` of the value under precision="exact", None where that plan has no such value.
    """

    value: str
    node: str
    op: str
    algorithm: str
    error: float
    ulps: float
    typical_ulps: float
    operations: int
    is_long: bool
    exact_error: float | None = None


@dataclass(frozen=True, repr=False)
class Accuracy(Report):
    """Accuracy of a model's algorithms on given inputs: `steps` in the order in which the plan makes values, under a
    `precision`. Printed, it is a table, the largest errors first, with advice."""

    model: str
    precision: str
    steps: tuple[StepAccuracy, ...]

    @property
    def worst(self) -> StepAccuracy | None:
        """The value with the largest error."""
        return max(self.steps, key=lambda step: step.error, default=None)

    @property
    def advice(self) -> tuple[str, ...]:
        """Sentences about what could be done."""
        return tuple(_advice(self))

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"accuracy of {self.model}, precision {self.precision}: each step beside float64 on its own inputs"
        ordered = sorted(self.steps, key=lambda step: -step.error)
        rows = [
            (
                ending(each.node, _NODE),
                ending(each.algorithm, _ALGORITHM),
                f"{each.error:.1e}",
                f"{each.ulps:.1f}",
                f"{each.typical_ulps:.1f}",
                f"{each.operations:,}{' long' if each.is_long else ''}",
                "" if each.exact_error is None else f"{each.exact_error:.1e}",
            )
            for each in ordered[:_TOP]
        ]
        heads = ("node", "algorithm", "error", "ulps", "typical", "operations", "exact")
        yield from aligned([heads, *rows], (0, 1))
        if len(ordered) > _TOP:
            yield f"and {len(ordered) - _TOP} more values, none worse than {ordered[_TOP].error:.1e}"
        yield from self.advice

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON: {"schema": "cenote.accuracy/1", ...} with the fields' names."""
        return {"schema": SCHEMA, **to_plain(self)}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Accuracy:
        """Return the accuracy of `to_dict`'s data, also after a trip through JSON. Raises ArgumentError for other
        data."""
        return from_plain(Accuracy, data, SCHEMA)


def accuracy(
    source: str | os.PathLike[str] | bytes,
    options: LoadOptions = NO_OPTIONS,
    *,
    inputs: Mapping[str, ArrayLike] | None = None,
) -> Accuracy:
    """Compare what each step of a model's plan computes with float64 on the step's own inputs: the error of its
    algorithm, relative and in units in the last place, also under precision="exact", and advice.

    `source`: a model as `cenote.load` takes it; `options`: under which it is loaded. `inputs` by name, random numbers
    for others. The plan runs step by step; the references are slow, seconds for a large network.
    Raises as `cenote.verify`: InputError for inputs that the model does not take, ModelError and UnsupportedError for a
    model that cannot be loaded.
    """
    with refusals("measuring a model's accuracy"):
        source = main_file(source)
        graph = cutting.read(source, options).graph
        feed = completed(graph, inputs or {})
        steps = _measured(graph, options, feed)
        if options.precision != "exact":
            exact = _measured(graph, options.changed(precision="exact"), feed)
            errors = {each.value: each.error for each in exact}
            steps = [replace(each, exact_error=errors.get(each.value)) for each in steps]
    name = "model" if isinstance(source, bytes) else os.path.basename(os.fspath(source))
    return Accuracy(name, options.precision, tuple(steps))


def _measured(graph: Graph, options: LoadOptions, feed: Feed) -> list[StepAccuracy]:
    run = _Run(shared_under(options))
    run_in_stages(graph, feed, run.stage)
    return run.steps


class _Run:
    """Runs of the stages of a model. `steps`: what was found so far."""

    def __init__(self, shared: Shared) -> None:
        self.how = shared.compilation
        self.steps: list[StepAccuracy] = []

    def stage(self, graph: Graph, feed: Mapping[str, Array]) -> dict[str, Array]:
        """Compile and run one stage step by step; return its outputs."""
        scheduled = schedule(self.how.optimized(graph), jit.host_target(), self.how.decide)
        plan = assemble(lambda: scheduled, self.how.threads, self.how.pool)
        algorithms = {step.node: step.algorithm for step in plan.describe().steps if step.kind != "halo"}

        def tell(made: Made) -> None:
            title = made.node.title
            if made.wanted is not None and is_float(made.array.dtype) and title in algorithms:
                self.steps.append(_step(made, made.wanted, algorithms[title]))

        production = Production(plan, scheduled.graph.constants, tell)
        results = production.run([np.asarray(feed[declared.name], order="C") for declared in graph.inputs])
        return dict(zip(graph.outputs, results, strict=True))


def _step(made: Made, wanted: Array, algorithm: str) -> StepAccuracy:
    node, array = made.node, made.array
    types = [None if x is None else TensorType.known(x) for x in made.inputs]
    operations = node.op.cost(types).operations // max(1, array.size)
    ulps, typical = _ulps(array, wanted)
    return StepAccuracy(
        made.name,
        node.title,
        str(node.op),
        algorithm,
        relative_error(array, wanted),
        ulps,
        typical,
        operations,
        operations >= LONG_SUM,
    )


def _ulps(got: Array, wanted: Array) -> tuple[float, float]:
    """Return the largest difference in units in the last place of the largest element, and the median of those of
    elements other than 0, each in its own."""
    dtype = got.dtype if got.dtype.kind == "f" else np.dtype(np.float32)
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    if not finite.any():
        return 0.0, 0.0
    differences = np.abs(a[finite] - b[finite])
    with np.errstate(over="ignore"):
        size = np.abs(b[finite]).astype(dtype)
        last, own = np.spacing(size.max()), np.spacing(size)
    own = own[size > 0]
    typical = float(np.median(differences[size > 0] / own)) if own.size else 0.0
    return float(differences.max() / last), typical


def _advice(found: Accuracy) -> Iterator[str]:
    worst = found.worst
    if worst is None:
        yield "no step has a reference to be compared with"
        return
    better = [
        step
        for step in found.steps
        if step.error > _NOTABLE and step.exact_error is not None and step.exact_error * _BETTER <= step.error
    ]
    if better:
        most = max(better, key=lambda step: step.error)
        yield (
            f'precision="exact" makes {len(better)} of these errors a third or less, of {most.node} '
            f"{most.exact_error:.1e} in place of {most.error:.1e}"
        )
    elif found.precision == "fast":
        yield 'precision="exact" would change little: the errors are those of rounding'
    long = [step for step in found.steps if step.is_long]
    if long:
        longest = max(long, key=lambda step: step.operations)
        yield (
            f"{len(long)} long sums, the longest of {longest.node}, {longest.operations:,} operations a number: "
            f"its error is {longest.ulps:.1f} units in the last place of the largest number"
        )
