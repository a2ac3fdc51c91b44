"""Where threads must meet: which steps of a program may run at once, and the order that lets most of them.

A step waits for those before it that write what it touches, or read what it writes. Nothing else keeps two steps apart:
threads that find no more pieces of one begin with the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from cenote.kernels.base import Call
from cenote.runtime.program import HostStep, Slot


@dataclass(frozen=True)
class Extent:
    """Bytes that a step touches; `root` names the buffer they belong to."""

    slot: Slot
    nbytes: int
    root: str = ""

    def meets(self, other: Extent) -> bool:
        a, b = self.slot, other.slot
        if (a.kind, a.index) != (b.kind, b.index):
            return False
        return a.offset < b.offset + other.nbytes and b.offset < a.offset + self.nbytes


class StepKind(StrEnum):
    """What a step is for: a kernel; NumPy; zeros around a convolution's input; a look at what a kernel noted."""

    KERNEL = "kernel"
    HOST = "host"
    HALO = "halo"
    CHECK = "check"


@dataclass(frozen=True)
class Origin:
    """Where a step comes from: its node's index in the schedule, and the lowering's name."""

    node: int
    kind: StepKind
    algorithm: str = ""


@dataclass
class PendingStep:
    """A step on its way into the program.

    Of a node's steps those of one `batch` may run at once. `halo_of` is the buffer whose halo it zeroes.
    """

    label: str
    origin: Origin
    call: Call | None
    host: HostStep | None
    reads: list[Extent] = field(default_factory=list)
    writes: list[Extent] = field(default_factory=list)
    halo_of: str = ""
    batch: int = 0


def levels_of(steps: Sequence[PendingStep]) -> list[int]:
    """Per step one more than the last level with a step that it waits for: the steps of a level may run at once."""
    levels: list[int] = []
    members: list[list[PendingStep]] = []
    for step in steps:
        level = len(members)
        while level and not any(_conflict(earlier, step) for earlier in members[level - 1]):
            level -= 1
        if level == len(members):
            members.append([])
        members[level].append(step)
        levels.append(level)
    for index, step in enumerate(steps):
        if step.halo_of:
            levels[index] = _latest(steps, levels, index)
    return levels


def _latest(steps: Sequence[PendingStep], levels: Sequence[int], index: int) -> int:
    """The last level for a halo, up to that of the step behind it: zeroed early it is in the way of other values in
    the caches (DenseNet-121 on two threads: 0.7 %)."""
    after = range(index + 1, len(steps))
    limit = next((levels[at] for at in after if not steps[at].halo_of), levels[index])
    near = [at for at in after if levels[index] < levels[at] <= limit]
    readers = [levels[at] - 1 for at in near if _conflict(steps[index], steps[at])]
    return max(levels[index], min([limit, *readers]))


def _conflict(a: PendingStep, b: PendingStep) -> bool:
    """Must the later step wait for the earlier one?

    A buffer's halo and its inside are different memory, so zeroing the one and writing the other may overlap in time.
    """
    if a.host is not None or b.host is not None:
        return True
    if a.origin.node == b.origin.node and not a.halo_of and not b.halo_of:
        return a.batch != b.batch
    if _touch(a.writes, b.reads) or _touch(a.reads, b.writes):
        return True
    if bool(a.halo_of) != bool(b.halo_of):
        halo, inside = (a, b) if a.halo_of else (b, a)
        return _touch(halo.writes, [extent for extent in inside.writes if extent.root != halo.halo_of])
    return _touch(a.writes, b.writes)


def _touch(a: Sequence[Extent], b: Sequence[Extent]) -> bool:
    return any(x.meets(y) for x in a for y in b)
