"""The cause "imbalance": few large pieces of work, unevenly spread over the threads."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context
from cenote.diagnosis.gains import by_pieces, lost_by_pieces
from cenote.profile.data import Finding

# Time of the slowest thread, relative to the mean.
UNEVEN = 1.15


def look(context: Context) -> Finding | None:
    """Compare the slowest thread with the mean, in steps of several pieces. Threads that lack cores are never
    even."""
    if context.profile.threads < 2 or context.short_of_cores() > 0.25:
        return None
    steps = context.heavy(
        lambda step: (
            step.items > step.grain
            and step.kind == "kernel"
            and step.kernels_ms + step.waits_ms > UNEVEN * step.kernels_ms
            and by_pieces(step) > UNEVEN
        )
    )
    saved = sum(min(step.waits_ms, lost_by_pieces(step)) for step in steps)
    if saved < 0.05 * context.profile.wall_ms:
        return None
    first = steps[0]
    return Finding(
        "imbalance",
        tuple(step.index for step in steps),
        context.share(steps),
        f"{first.title}: {first.items} pieces; of {first.kernels_ms + first.waits_ms:.3g} ms the threads compute "
        f"{first.kernels_ms:.3g} on average",
        0.8,
        "in the model: batches or maps whose pieces divide evenly by the threads",
        (0.4 * saved, 0.8 * saved, 1.1 * saved),
    )


CAUSE = Cause("imbalance", look)
