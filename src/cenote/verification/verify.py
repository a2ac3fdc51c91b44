"""`cenote.verify`: the first value at which a model's plan and another engine differ, and the part that is at
fault."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cenote.codegen import jit
from cenote.compiler.compile import assemble
from cenote.compiler.schedule import schedule
from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, InputError, refusals, shown
from cenote.core.load_options import NO_OPTIONS, LoadOptions
from cenote.core.options import Format, Precision
from cenote.core.options.checks import names
from cenote.core.types import Array, Declared, TensorType, is_float
from cenote.frontends.formats import format_of_file
from cenote.graph.graph import Graph
from cenote.models import cutting
from cenote.models.loading import load_with
from cenote.models.origin import main_file
from cenote.passes.specialize import run_in_stages
from cenote.runtime.inputs import fitting, foreign
from cenote.stages.planned import shared_under
from cenote.stages.stage import Shared
from cenote.verification.blame import import_fault, is_optimised_wrongly, turned
from cenote.verification.errors import allowed_of, relative_error_to
from cenote.verification.fields import Divergence, ValueErrors
from cenote.verification.found import Verification
from cenote.verification.peers import REFERENCE, chosen, open_peer
from cenote.verification.production import Made, Production
from cenote.verification.sizes import Checked, Sizes, is_open, other_feeds, outputs_of_the_peer
from cenote.verification.spill import Spill
from cenote.verification.stream import Feed, RecordedValues, Subject

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

# Bytes of the peer's values at a time.
_LEAST_BUDGET = 64 << 20


def verify(
    source: str | os.PathLike[str] | bytes,
    *,
    against: str | None = None,
    inputs: Mapping[str, ArrayLike] | None = None,
    tolerance: float | None = None,
    precision: Precision = "fast",
    sizes: int = 2,
    format: Format | None = None,
    signature: str | None = None,
    feed: Sequence[str] | None = None,
    fetch: Sequence[str] | None = None,
) -> Verification:
    """Compare a model's plan, fused as it is, value by value with another engine and with references.

    `source`, `format`, `signature` and `precision` as for `cenote.load`, whose `inputs` and `outputs` are `feed` and
    `fetch` here; a path or bytes. `against`: "onnxruntime", "litert", "tensorflow", "keras", "torch" (the network
    beside the model, MODEL.pt2 or MODEL.pt: outputs only) or "reference" (the operators' own float64 references); by
    default the engine of the model's format if it is installed, else the references. `inputs` by name; those that are
    not given are standard normal numbers, seeded, and zeros for integers (a first axis without a size counts as 1).
    `tolerance` is the error that a value may inherit, relative to the largest element of the peer's: by default 1e-4,
    with precision="bfloat16" 0.2; for models of quantised integers only wrong kernels and imports are reported.

    Sizes of symbolic dimensions are those of the inputs: a plan for these alone is run step by step on one thread,
    which gives the bits of any number of threads. A model whose sizes are open, or follow from content, has plans that
    hold for many sizes: the loaded model itself is called as well, at these sizes and at `sizes` others that the
    graph takes (chosen by Cenote, filled with the inputs' numbers repeated), and its outputs are compared. The peer
    runs first, and its values are kept in a temporary file: at no time are both engines in memory.

    Raises the errors of `cenote.load`; InputError for inputs that do not fit; ArgumentError for an engine that does
    not exist, a tolerance below 0, or `sizes` that is no whole number from 0 on; UnsupportedError for an engine that
    is not installed or cannot run the model.
    """
    options = LoadOptions(
        precision=precision,
        format=format,
        signature=signature,
        inputs=None if feed is None else names("feed", feed),
        outputs=None if fetch is None else names("fetch", fetch),
    )
    return verify_with(source, options, against=against, inputs=inputs, tolerance=tolerance, sizes=sizes)


def verify_with(
    source: str | os.PathLike[str] | bytes,
    options: LoadOptions = NO_OPTIONS,
    *,
    against: str | None = None,
    inputs: Mapping[str, ArrayLike] | None = None,
    tolerance: float | None = None,
    sizes: int = 2,
) -> Verification:
    """`verify` of a model under any options of `cenote.load`, as one value. `shapes` and `denormals` are those of the
    loaded model that is called as well, not of the plans that are run step by step."""
    tolerance = allowed_of(options.precision) if tolerance is None else tolerance
    _check_arguments(tolerance, sizes)
    with refusals("verifying a model"), Spill() as spill:
        source = main_file(source)
        imported = spill.model(cutting.read(source, options))
        subject = Subject(source, imported, options.format or format_of_file(source), options.signature)
        name = chosen(
            against, None if imported.operators else subject.form
        )  # other engines do not have such operators

        def check(given: Feed) -> Checked:
            made = _Check(subject, name, given, tolerance, shared_under(options), spill)
            outputs = run_in_stages(imported.graph, given, made.stage)
            return Checked(outputs, made.first, tuple(made.rows), made.stages)

        given = completed(imported.graph, inputs or {})
        checked = check(given)
        if checked.first is not None or not (is_open(imported.graph) or checked.stages > 1):
            return Verification(name, tolerance, checked.first, checked.rows)
        feeds, refused = other_feeds(imported.graph, given, sizes)
        theirs = outputs_of_the_peer(name, subject, [given, *feeds], spill)
        spill.settle()
        with load_with(source, options) as model:
            beside = Sizes(model, imported.graph, tolerance, check)
            beside.run(given, theirs[0], checked)
            for other, made in zip(feeds, theirs[1:], strict=True):
                beside.run(other, made)
        return Verification(name, tolerance, beside.first, checked.rows, (*beside.runs, *refused))


def _check_arguments(tolerance: float, sizes: object) -> None:
    if not tolerance >= 0:
        raise ArgumentError(f"tolerance: {tolerance} is below 0 or no number")
    if isinstance(sizes, bool) or not isinstance(sizes, int) or sizes < 0:
        raise ArgumentError(f"sizes: {shown(sizes)} is not a whole number from 0 on")


def completed(graph: Graph, given: Mapping[str, ArrayLike]) -> dict[str, Array]:
    """Return an array for every input. Raises InputError for unknown names, and where a size is not known."""
    names = [declared.name for declared in graph.inputs]
    for name in given:
        if name not in names:
            raise InputError(f"'{name}' is no input of the model (its inputs: {', '.join(names)})")
    generator, feed = np.random.default_rng(0), {}
    for declared in graph.inputs:
        if declared.name in given:
            array, _ = foreign(given[declared.name], declared)
            feed[declared.name] = np.ascontiguousarray(fitting(array, declared)).reshape(array.shape)
            continue
        extents = _extents(declared)
        if is_float(declared.dtype):
            feed[declared.name] = generator.standard_normal(extents).astype(declared.dtype)
        else:
            feed[declared.name] = np.zeros(extents, declared.dtype)
    return feed


def _extents(declared: Declared) -> tuple[int, ...]:
    """Return the size of an input that is not given; a first axis without one counts as 1."""
    extents = []
    for axis, extent in enumerate(declared.shape or ()):
        if not isinstance(extent, int) and axis:
            break
        extents.append(extent if isinstance(extent, int) else 1)
    if declared.shape is None or len(extents) < len(declared.shape):
        raise InputError(
            f"input {declared}: its size is open; give the input (on the command line --input or --shape)"
        )
    return tuple(extents)


@dataclass(frozen=True)
class _Suspect:
    """A value that is wrong or inherited too much: the value as made, its row, its name in the imported graph, and
    the order of axes that gives it."""

    made: Made
    row: ValueErrors
    value: str
    order: tuple[int, ...] | None


class _Check:
    """Check of a model, stage by stage."""

    def __init__(
        self,
        subject: Subject,
        name: str,
        feed: Feed,
        tolerance: float,
        shared: Shared,
        spill: Spill,
    ) -> None:
        self.subject, self.peer_name, self.feed, self.tolerance = subject, name, feed, tolerance
        self.spill = spill
        self.how = shared.compilation
        self.stages = 0
        self.rows: list[ValueErrors] = []
        self.first: Divergence | None = None

    def stage(self, graph: Graph, feed: Mapping[str, Array]) -> dict[str, Array]:
        """Compile and run one stage; return its outputs."""
        self.stages += 1
        graph = self.spill.graph(graph)
        theirs = self._of_the_peer(graph)
        target = jit.host_target()
        optimised = self.how.optimized(graph)
        scheduled = schedule(self.spill.graph(optimised), target, self.how.decide)
        del optimised
        self.spill.settle()
        plan = assemble(lambda: scheduled, self.how.threads, self.how.pool)
        shapes = {name: kind.shape for name, kind in graph.types.items()}
        names = [name for node in plan.graph.nodes for name in node.outputs if name]
        views = plan.memory.views
        aligned = {name: turned(name, shapes, views[name].shape, theirs.known) for name in names}
        suspects: list[_Suspect] = []
        compared: set[str] = set()

        def tell(made: Made) -> None:
            value, order = aligned[made.name]
            inherited = None
            if value in theirs and value not in compared:
                compared.add(value)
                ours = made.array if order is None else made.array.transpose(order)
                inherited = relative_error_to(theirs.value(value), ours)
            row = ValueErrors(value or made.name, made.node.title, inherited, made.local)
            self.rows.append(row)
            if made.wrong or (inherited is not None and not inherited <= self.tolerance):
                light = replace(made, wanted=None, inputs=())  # other values' memory is free
                suspects.append(_Suspect(light, row, value, order))
            self.spill.forget()

        self.spill.settle()
        run = Production(plan, scheduled.graph.constants, tell)
        arrays = [np.asarray(feed[declared.name], order="C") for declared in graph.inputs]
        # Native code trusts sizes.
        for declared, array in zip(graph.inputs, arrays, strict=True):
            if TensorType(array.dtype, array.shape) != graph.types[declared.name]:
                raise InputError(f"'{declared.name}' is {TensorType.known(array)}, not as planned")
        results = run.run(arrays)
        if suspects and self.first is None:
            self.first = self._explained(graph, scheduled.graph, feed, theirs, suspects)
        return dict(zip(graph.outputs, results, strict=True))

    def _of_the_peer(self, graph: Graph) -> RecordedValues:
        """Return the peer's values of the stage; the peer's memory is free afterwards."""
        peer = open_peer(self.peer_name, self.subject)
        names = [declared.name for declared in graph.inputs if declared.name not in self.feed]
        names += [name for node in graph.nodes for name in node.outputs if name]
        budget = max(_LEAST_BUDGET, sum(x.nbytes for x in graph.constants.values()) // 2)
        recorded = RecordedValues(peer, self.feed, names, graph.types, budget, self.spill)
        del peer
        self.spill.settle()
        return recorded

    def _explained(
        self,
        graph: Graph,
        optimised: Graph,
        feed: Mapping[str, Array],
        theirs: RecordedValues,
        suspects: Sequence[_Suspect],
    ) -> Divergence | None:
        """Return the first fault. None, where a model of quantised integers has no wrong import and no wrong kernel:
        engines round halves to other integers, and layers behind amplify the step."""
        first, *_ = suspects
        quantised = any(node.op.name == "quantize_linear" for node in graph.nodes)
        suspect = next((each for each in suspects if each.made.wrong), first) if quantised else first
        row = suspect.row
        shapes = {name: array.shape for name, array in self.feed.items()}
        if suspect.made.wrong and (suspect is first or self.peer_name == REFERENCE):
            return Divergence(row.value, row.node, "kernel", row.inherited, row.local, shapes)
        if self.peer_name != REFERENCE:
            leads = graph.outputs if quantised else (suspect.value,)
            fault = import_fault(graph, feed, leads, theirs)
            if fault is not None:
                local = next((each.local for each in self.rows if each.value == fault.value), 0.0)
                return Divergence(fault.value, fault.node.title, "import", fault.error, local, shapes)
        wrong = suspect.made.wrong or is_optimised_wrongly(
            graph, optimised, feed, suspect.value, suspect.made.name, suspect.order
        )
        if quantised and not wrong:
            return None
        return Divergence(
            row.value, row.node, "kernel" if wrong else "rounding", row.inherited, row.local, shapes
        )
