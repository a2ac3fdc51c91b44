"""The cause "fma": multiply-adds at the machine's roof, where an algorithm with fewer of them is not allowed."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context
from cenote.diagnosis.gains import at_best
from cenote.profile.data import Finding, Treatment

FAST = Treatment(precision="fast")
# Part of the roof: a step further away is bound by something else.
NEAR = 0.5


def look(context: Context) -> Finding | None:
    """Look for convolutions at the roof. Only Winograd's algorithm needs fewer multiply-adds than the plain sum, and
    `precision="exact"` forbids it."""
    steps = context.heavy(
        lambda step: step.bound == "fma" and at_best(step) >= NEAR and step.op.startswith("conv")
    )
    if not steps or context.profile.precision != "exact":
        return None
    tried = context.gain_of(precision="fast")
    if tried is None or not tried.certain:
        return None
    least = min(at_best(step) for step in steps)
    return Finding(
        "fma",
        tuple(step.index for step in steps),
        context.share(steps),
        f"convolutions compute at {least:.0%} and more of the multiply-add roof, without Winograd's algorithm",
        0.95,
        f"{FAST} (rounding error two to three times that of a plain sum)",
        tried.gain_ms,
        treatments=(FAST,),
    )


CAUSE = Cause("fma", look)
