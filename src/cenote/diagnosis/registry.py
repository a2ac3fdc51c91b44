"""All causes of lost time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cenote.core.deferred import dataclass
from cenote.diagnosis.causes import compute, memory, schedule, surroundings
from cenote.diagnosis.context import Context
from cenote.profile.fields import Finding


@dataclass(frozen=True)
class Cause:
    """A cause of lost time. `rule` searches a model's profile for it, with experiments where needed."""

    name: str
    rule: Callable[[Context], Finding | None]

    def look(self, context: Context) -> Finding | None:
        """Return the rule's finding under the cause's name, or None."""
        finding = self.rule(context)
        return None if finding is None else replace(finding, cause=self.name)


CAUSES: tuple[Cause, ...] = (
    Cause("fma", compute.fma),
    Cause("algorithm", compute.algorithm),
    Cause("mischoice", compute.mischoice),
    Cause("dilation", compute.dilation),
    Cause("DRAM weights", memory.weights),
    Cause("DRAM maps", memory.maps),
    Cause("cache", memory.cache),
    Cause("lanes", compute.lanes),
    Cause("host", schedule.host),
    Cause("dtype", compute.dtype),
    Cause("reorder", memory.reorder),
    Cause("unfused", memory.unfused),
    Cause("imbalance", schedule.imbalance),
    Cause("serial", schedule.serial),
    Cause("barrier", schedule.barrier),
    Cause("oversubscribed", schedule.oversubscribed),
    Cause("pinned", schedule.pinned),
    Cause("foreign", surroundings.foreign),
    Cause("throttled", surroundings.throttled),
    Cause("contention", schedule.contention),
    Cause("faults", memory.faults),
    Cause("cold", surroundings.cold),
    Cause("denormals", compute.denormals),
    Cause("input", surroundings.input),
    Cause("start", surroundings.start),
    Cause("woken", surroundings.woken),
)
