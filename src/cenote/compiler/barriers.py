"""Barriers: which steps of a program may run at once, where threads must meet, and the order that lets most steps
overlap.

A step waits for those before it that write what it touches, or read what it writes. Nothing else keeps two steps
apart: threads that find no more pieces of one begin with the next.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import field
from enum import StrEnum

from cenote.core.deferred import dataclass
from cenote.core.formulas.expressions import Symbolic
from cenote.core.sizes import plain
from cenote.graph.graph import Graph
from cenote.kernels.base import Call
from cenote.runtime.steps import HostStep, Slot


@dataclass(frozen=True)
class Extent:
    """Bytes that a step touches; `root` names the buffer they belong to."""

    slot: Slot
    nbytes: int
    root: str = ""

    @staticmethod
    def at_hand(slot: Slot, nbytes: int, root: str) -> Extent:
        """Return the extent for the shapes at hand. One of an open size counts at least one byte, as other sizes have
        some."""
        least = isinstance(nbytes, Symbolic)
        return Extent(Slot(slot.kind, slot.index, plain(slot.offset)), max(least, plain(nbytes)), root)


class StepKind(StrEnum):
    """Kind of a step: a kernel; NumPy on the host; zeros around a convolution's input; a check of a kernel's notes."""

    KERNEL = "kernel"
    HOST = "host"
    HALO = "halo"
    CHECK = "check"


# Steps that compute; others prepare or check a buffer of theirs.
COMPUTE = (StepKind.KERNEL, StepKind.HOST)


@dataclass(frozen=True)
class Work:
    """Work of a step: `operations`, its share of those of the operator; those `executed`, which differ for other
    algorithms and lanes of padding; the bytes that must be `read` and `written` at least once; and the type it computes
    in. Numbers may be Sizes."""

    operations: int = 0
    executed: int = 0
    read: int = 0
    written: int = 0
    dtype: str = "float32"

    @property
    def numbers(self) -> tuple[int, ...]:
        return self.operations, self.executed, self.read, self.written


@dataclass(frozen=True)
class StepOrigin:
    """Origin of a step: the index of its node in the schedule, its kind, the name of its lowering, and its work."""

    node: int
    kind: StepKind
    algorithm: str = ""
    work: Work = Work()


@dataclass
class PendingStep:
    """Step that is not yet part of a program.

    Steps of equal nodes share their `call`; `words` give the places of their own operands. Steps of one node and one
    `batch` may run at once. `halo_of` is the buffer whose halo the step fills with zeros.
    """

    label: str
    origin: StepOrigin
    call: Call | None
    host: HostStep | None
    reads: list[Extent] = field(default_factory=list)
    writes: list[Extent] = field(default_factory=list)
    halo_of: str = ""
    batch: int = 0
    words: tuple[int | Slot, ...] = ()


def levels_of(steps: Sequence[PendingStep]) -> list[int]:
    """Return the level of each step, one more than the last level with a step that it waits for: the steps of a level
    may run at once."""
    earlier = _Touched()
    levels: list[int] = []
    before: PendingStep | None = None
    for step in steps:
        if before is None or not _same_node(before, step):
            level = earlier.highest(step) + 1
        else:  # the batches of one node wait for each other, the steps within a batch do not
            level = levels[-1] + (before.batch != step.batch)
        if before is None or not (touch_the_same(before, step) and levels[-1] == level):
            earlier.add(step, level)
        levels.append(level)
        before = step
    return _late_halos(steps, levels)


def _same_node(a: PendingStep, b: PendingStep) -> bool:
    """Whether two neighbours are calls of one node."""
    return a.origin.node == b.origin.node and not (a.halo_of or b.halo_of or a.host or b.host)


def touch_the_same(a: PendingStep, b: PendingStep) -> bool:
    """Whether two steps share their lists of extents: a Concat has as many calls as parts, and each lists all parts as
    read."""
    return a.reads is b.reads and a.writes is b.writes


def _late_halos(steps: Sequence[PendingStep], levels: Sequence[int]) -> list[int]:
    """Return the levels, with those of halos as late as possible, up to that of the step behind them. A halo that is
    filled early displaces other values from the caches (DenseNet-121 on two threads: 0.7 %)."""
    late, later, limit = list(levels), _Touched(), None
    for index in reversed(range(len(steps))):
        step, level = steps[index], levels[index]
        if step.halo_of:
            # The first level of the steps that wait for the halo.
            first = -later.highest(step, nothing=-len(steps) - 1)
            late[index] = max(level, min(level if limit is None else limit, first - 1))
        else:
            limit = level
        if not (
            index + 1 < len(steps) and touch_the_same(step, steps[index + 1]) and levels[index + 1] == level
        ):
            later.add(step, -level)
    return late


_NEVER = -(1 << 60)
_FIRST = -(1 << 62)  # before every offset
# Spans of memory that a read or a halo keeps apart; beyond so many, steps may wait for more than necessary.
_MOST_SPANS = 64


@dataclass
class _Span:
    """Bytes with one history: the highest levels of steps that wrote them as part of the buffer `root`, that zeroed
    its halo, that wrote them as part of others, and that read them."""

    root: str = ""
    wrote: int = _NEVER
    zeroed: int = _NEVER
    others: int = _NEVER
    read: int = _NEVER

    def copy(self) -> _Span:
        return _Span(self.root, self.wrote, self.zeroed, self.others, self.read)

    def belong_to(self, root: str) -> None:
        """Assign these bytes to another buffer."""
        if self.root != root:
            self.others = max(self.others, self.wrote, self.zeroed)
            self.root, self.wrote, self.zeroed = root, _NEVER, _NEVER

    def join(self, other: _Span) -> None:
        """Add the history of other bytes of the same buffer."""
        self.wrote, self.zeroed = max(self.wrote, other.wrote), max(self.zeroed, other.zeroed)
        self.others, self.read = max(self.others, other.others), max(self.read, other.read)


class _Touched:
    """Index of the bytes that steps have touched, which finds the highest level that a further step must stay behind.

    Two steps must not run at once if one is a host step, or writes bytes that the other reads or writes. A buffer's
    halo and its inside are different memory: filling the one and writing the other may overlap in time. Steps are added
    in an order in which those that exclude each other have rising levels. So the level of a write covers all that
    happened to its bytes before, and a step costs time only for the few spans that it touches.
    """

    def __init__(self) -> None:
        self.starts: dict[tuple[str, int], list[int]] = {}
        self.spans: dict[tuple[str, int], list[_Span]] = {}
        self.of_any = self.of_host = _NEVER

    def highest(self, step: PendingStep, nothing: int = -1) -> int:
        """Return the highest level of the steps that touched the same bytes; `nothing` when there are none."""
        if step.host is not None:
            return max(nothing, self.of_any)
        level = max(nothing, self.of_host)
        for extent in step.reads:
            for span in self._over(extent):
                level = max(level, span.wrote, span.zeroed, span.others)
        for extent in step.writes:
            for span in self._over(extent):
                level = max(level, span.others, span.read)
                if not step.halo_of or span.root != extent.root:
                    level = max(level, span.wrote)
                if step.halo_of or span.root != extent.root:
                    level = max(level, span.zeroed)
        return level

    def add(self, step: PendingStep, level: int) -> None:
        """Record that a step of this level touches its bytes."""
        self.of_any = max(self.of_any, level)
        if step.host is not None:
            self.of_host = max(self.of_host, level)
            return
        for extent in step.reads:
            spans = self._cut(extent)
            for span in spans:
                span.read = max(span.read, level)
            if len(spans) > _MOST_SPANS:
                self._join(extent)
        for extent in step.writes:
            spans = self._cut(extent)
            for span in spans:
                span.belong_to(extent.root)
                if step.halo_of:
                    span.zeroed = max(span.zeroed, level)
                else:
                    span.wrote = max(span.wrote, level)
            if len(spans) > (_MOST_SPANS if step.halo_of else 1):
                self._join(extent)

    def _over(self, extent: Extent) -> Sequence[_Span]:
        """Return the spans that an extent touches."""
        key, (first, stop) = (extent.slot.kind, extent.slot.index), self._range(extent)
        return self.spans[key][first:stop] if first < stop else ()

    def _range(self, extent: Extent) -> tuple[int, int]:
        starts, begin = self.starts.get((extent.slot.kind, extent.slot.index)), extent.slot.offset
        if not starts or not extent.nbytes:
            return 0, 0
        return bisect.bisect_right(starts, begin) - 1, bisect.bisect_left(starts, begin + extent.nbytes)

    def _cut(self, extent: Extent) -> Sequence[_Span]:
        """Return the spans that an extent consists of, after cuts at its ends."""
        if not extent.nbytes:
            return ()
        key, begin = (extent.slot.kind, extent.slot.index), extent.slot.offset
        if key not in self.starts:
            self.starts[key], self.spans[key] = [_FIRST], [_Span()]
        starts, spans, ends = self.starts[key], self.spans[key], []
        for place in (begin, begin + extent.nbytes):
            at = bisect.bisect_left(starts, place)
            if at == len(starts) or starts[at] != place:
                starts.insert(at, place)
                spans.insert(at, spans[at - 1].copy())
            ends.append(at)
        return spans[ends[0] : ends[1]]

    def _join(self, extent: Extent) -> None:
        """Join the spans of an extent to one."""
        first, stop = self._range(extent)
        key = (extent.slot.kind, extent.slot.index)
        starts, spans = self.starts[key], self.spans[key]
        for span in spans[first + 1 : stop]:
            span.belong_to(spans[first].root)
            spans[first].join(span)
        del starts[first + 1 : stop], spans[first + 1 : stop]


# ---- edges ------------------------------------------------------------------------------------------------------


def flow(graph: Graph, origins: Sequence[StepOrigin]) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Return for each step, and for each output of the graph, the steps that it reads from.

    -1 is the graph's first input, -2 the second. Nodes without a step (they share memory) hand on what they read. Of
    several steps of a node each reads from the one before, the first from other nodes.
    """
    makers: dict[str, tuple[int, ...]] = {
        declared.name: (-1 - place,) for place, declared in enumerate(graph.inputs)
    }
    steps_of: dict[int, list[int]] = {}
    for number, origin in enumerate(origins):
        if origin.kind in COMPUTE:
            steps_of.setdefault(origin.node, []).append(number)
    reads: list[tuple[int, ...]] = [()] * len(origins)
    for place, node in enumerate(graph.nodes):
        source = tuple(dict.fromkeys(maker for name in node.inputs for maker in makers.get(name, ())))
        for number in steps_of.get(place, ()):
            reads[number], source = source, (number,)
        makers.update(dict.fromkeys(node.outputs, source))
    return reads, [makers.get(name, ()) for name in graph.outputs]
