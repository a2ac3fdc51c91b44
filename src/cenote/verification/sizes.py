"""Runs of the loaded model itself: its plan holds for many sizes, so it is called at the inputs' sizes and at others.

Its outputs are compared with the peer's. Where the difference is more than the tolerance, plans for these sizes alone
are checked value by value, which distinguishes a wrong kernel from a plan whose numbers do not fit its sizes.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import FAULTS, CenoteError
from cenote.core.types import Array
from cenote.graph.graph import Graph
from cenote.models.model import Model
from cenote.passes.specialize import specialize
from cenote.runtime.signature import Signature
from cenote.verification.errors import perturbed, relative_error, relative_error_to
from cenote.verification.fields import Divergence, Shapes, SizesRun, ValueErrors
from cenote.verification.peers import open_peer
from cenote.verification.spill import Spill
from cenote.verification.stream import Feed, RecordedValues, Subject

# Bytes of the peer's outputs at a time.
_BUDGET = 64 << 20
# Networks that halve their maps five times need sizes that are multiples of this.
_LARGEST_STEP = 32
# The outputs of two correct plans may differ by so many times the effect of a rounding of the inputs.
_TIMES = 4.0


@dataclass(frozen=True)
class Checked:
    """The result of plans for exactly these sizes: the outputs, the first of their values that is wrong, a row for
    each value, and the number of plans, one after another."""

    outputs: Mapping[str, Array]
    first: Divergence | None
    rows: tuple[ValueErrors, ...]
    stages: int


Outputs = Mapping[str, Array]


def is_open(graph: Graph) -> bool:
    """Return whether the model takes inputs of several sizes."""
    return Signature(graph.inputs).static_shapes() is None


def other_feeds(graph: Graph, feed: Feed, count: int) -> tuple[list[dict[str, Array]], list[SizesRun]]:
    """Return inputs of so many other sizes that the graph takes, filled with the given inputs' numbers repeated, and
    the sizes that it refuses."""
    signature = Signature(graph.inputs)
    pattern, numbers = signature.dimensions(tuple(feed[name].shape for name in signature.by_name))
    feeds: list[dict[str, Array]] = []
    refused: list[SizesRun] = []
    for others in other_numbers(numbers) if count else ():
        types = signature.typed(pattern, others)
        shapes = {name: kind.shape for name, kind in types.items()}
        try:
            specialize(graph, types)
        except (CenoteError, *FAULTS) as error:
            refused.append(SizesRun(shapes, refused=str(error)))
            if len(refused) > 4 * count:
                break
            continue
        feeds.append({name: np.resize(feed[name], shape) for name, shape in shapes.items()})
        if len(feeds) == count:
            break
    return feeds, refused


def other_numbers(numbers: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield other sizes of some dimensions, in turns: each dimension changed independently; equal ones changed alike
    (maps may have to be square); one changed alone."""
    rungs = [_rungs(number) for number in numbers]
    kinds = list(dict.fromkeys(numbers))
    seen = {tuple(numbers)}
    for turn in range(max(map(len, rungs), default=0)):
        tried = [
            [each[(turn + place) % len(each)] for place, each in enumerate(rungs)],
            [each[(turn + kinds.index(n)) % len(each)] for n, each in zip(numbers, rungs, strict=True)],
        ]
        for place, each in enumerate(rungs):
            tried.append([*numbers[:place], each[turn % len(each)], *numbers[place + 1 :]])
        for others in map(tuple, tried):
            if others not in seen:
                seen.add(others)
                yield others


def _rungs(number: int) -> list[int]:
    """Return other sizes of a dimension, smaller and larger: some divisible by the power of two that divides it, some
    not."""
    step = min(number & -number, _LARGEST_STEP)
    tried = (number + step, number - step, number + 1, number // 2, number + 2 * step, 2 * number)
    return list(dict.fromkeys(each for each in tried if each > 0 and each != number))


def outputs_of_the_peer(
    name: str, subject: Subject, feeds: Sequence[Feed], spill: Spill
) -> list[RecordedValues | str]:
    """Return the peer's outputs for some inputs, or the reason why it has none."""
    peer = open_peer(name, subject)
    outputs: list[RecordedValues | str] = []
    for feed in feeds:
        try:
            outputs.append(RecordedValues(peer, feed, subject.imported.graph.outputs, {}, _BUDGET, spill))
        except Exception as error:
            # Each engine has errors of its own.
            outputs.append(f"{name}: {error}")
    return outputs


class Sizes:
    """Runs of the loaded model. `check` returns the results of plans for the exact sizes of some inputs."""

    def __init__(
        self, model: Model, graph: Graph, tolerance: float, check: Callable[[Feed], Checked]
    ) -> None:
        self.model, self.graph, self.tolerance, self.check = model, graph, tolerance, check
        self.runs: list[SizesRun] = []
        self.first: Divergence | None = None

    def run(self, feed: Feed, theirs: RecordedValues | str, checked: Checked | None = None) -> None:
        """Compare the outputs for some inputs with the peer's, and where they differ with those of plans for these
        sizes alone: `checked`, if they have been computed already."""
        shapes = {name: array.shape for name, array in feed.items()}
        if isinstance(theirs, str):
            self.runs.append(SizesRun(shapes, refused=theirs))
            return
        try:
            ours = self._outputs(feed)
        except CenoteError as error:
            self.runs.append(SizesRun(shapes, refused=str(error)))
            # Suppressed: then nothing can be run at these sizes.
            with contextlib.suppress(CenoteError):
                self._blame(shapes, next(iter((checked or self.check(feed)).outputs), ""), None, math.inf)
            return
        inherited = {
            name: relative_error_to(theirs.value(name), ours[name]) for name in ours if name in theirs
        }
        worst = max(inherited, key=inherited.__getitem__, default=next(iter(ours), ""))
        self.runs.append(SizesRun(shapes, worst, inherited.get(worst)))
        near = len(inherited) == len(ours) and all(error <= self.tolerance for error in inherited.values())
        if self.first is None and not near:
            self._explain(feed, shapes, ours, inherited, checked or self.check(feed))

    def _outputs(self, feed: Feed) -> dict[str, Array]:
        """Return the outputs that are tensors of numbers."""
        outputs = self.model.run(feed)
        return {
            name: array
            for name, array in outputs.items()
            if isinstance(array, np.ndarray) and array.dtype.kind not in "OSUT"
        }

    def _explain(
        self, feed: Feed, shapes: Shapes, ours: Outputs, inherited: Mapping[str, float], checked: Checked
    ) -> None:
        if checked.first is not None and checked.first.kind != "rounding":
            self.first = checked.first
            return
        apart = {name: relative_error(array, checked.outputs[name]) for name, array in ours.items()}
        if all(error <= self.tolerance for error in apart.values()):
            self.first = checked.first
            return
        moved = self._moved(feed, ours)
        for name, error in apart.items():
            if error > max(self.tolerance, _TIMES * moved[name]):
                self._blame(shapes, name, inherited.get(name), error)
                return
        self.first = checked.first

    def _blame(self, shapes: Shapes, name: str, inherited: float | None, error: float) -> None:
        if self.first is None:
            node = next((node.title for node in self.graph.nodes if name in node.outputs), "")
            self.first = Divergence(name, node, "sizes", inherited, error, shapes)

    def _moved(self, feed: Feed, ours: Outputs) -> dict[str, float]:
        """Return the distance that a rounding of the inputs moves each output: two correct plans, which may sum in
        another order, differ as much where halves are rounded to integers or the largest is chosen."""
        moved = dict.fromkeys(ours, 0.0)
        for sign in (1, -1):
            generator = np.random.default_rng(0)
            changed = {name: perturbed(array, generator, sign) for name, array in feed.items()}
            others = self._outputs(changed)
            moved |= {name: max(moved[name], relative_error(others[name], ours[name])) for name in ours}
        return moved
