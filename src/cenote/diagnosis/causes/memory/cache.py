"""The cause "cache": steps that are limited by the second or third level of the caches."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context
from cenote.diagnosis.gains import at_best
from cenote.profile.data import Finding

# Part of the roof.
NEAR = 0.5
# Part of the operator's operations: an algorithm that trades operations for bytes (Winograd's) executes less than
# this.
FEWER = 0.9


def look(context: Context) -> Finding | None:
    """Look for steps at the roof of level 2 or 3. Nothing is wrong with them but the bytes that they need."""
    steps = context.heavy(
        lambda step: (
            step.bound in ("L2", "L3")
            and at_best(step) >= NEAR
            and 0 < FEWER * step.operations <= step.executed_operations
            and step.op.startswith("conv")
        )
    )
    if not steps:
        return None
    first = steps[0]
    return Finding(
        "cache",
        tuple(step.index for step in steps),
        context.share(steps),
        f"{first.title} moves {first.bytes / 1e6:.1f} MB at {at_best(first):.0%} of what {first.bound} gives",
        0.7,
        "none: the layer does little with each number",
    )


CAUSE = Cause("cache", look)
