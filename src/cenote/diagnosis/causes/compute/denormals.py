"""The cause "denormals": numbers below the smallest normal one, with which processors compute slowly."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context
from cenote.profile.data import Finding, Treatment

# Part of the latency.
LEAST = 0.05
FLUSH = Treatment(denormals="flush")


def look(context: Context) -> Finding | None:
    """Look for steps that met denormals, by the processor's flags, and try the same call with denormals flushed to
    zero. Where there are no such flags the experiment decides."""
    steps = context.steps(lambda step: bool(step.denormals))
    if not steps and any(step.denormals is not None for step in context.profile.steps):
        return None
    tried = context.gain_of(denormals="flush")
    if tried is None or not tried.certain or tried.middle < LEAST * tried.before_ms:
        return None
    met = f"{len(steps)} steps meet numbers below the smallest normal one; " if steps else ""
    return Finding(
        "denormals",
        tuple(step.index for step in steps),
        tried.middle / tried.before_ms,
        f"{met}flushed to zero, a call takes {tried.before_ms - tried.middle:.3g} ms instead of {tried.before_ms:.3g}",
        0.95,
        f"{FLUSH} (numbers below 1.2e-38 become 0)",
        tried.gain_ms,
        treatments=(FLUSH,),
    )


CAUSE = Cause("denormals", look)
