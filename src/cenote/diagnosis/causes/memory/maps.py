"""The cause "DRAM maps": maps that no cache holds pass through memory."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context
from cenote.diagnosis.gains import at_best, gain
from cenote.profile.data import Finding

# Part of the roof.
NEAR = 0.5


def look(context: Context) -> Finding | None:
    """Look for steps that only move data, at the roof of memory."""
    steps = context.heavy(
        lambda step: (
            step.kind == "kernel"
            and step.bound == "memory"
            and at_best(step) >= NEAR
            and step.read_bytes <= 4 * step.written_bytes
            and step.operations < 2 * step.bytes
        )
    )
    if not steps:
        return None
    moved, took = sum(step.bytes for step in steps), sum(step.ms for step in steps)
    return Finding(
        "DRAM maps",
        tuple(step.index for step in steps),
        context.share(steps),
        f"{moved / 1e6:.0f} MB of maps pass through memory at {moved / took / 1e6:.1f} GB/s",
        0.8,
        "smaller batches or pictures, whose maps stay in a cache",
        gain(context.profile, {step.index: 0.5 for step in steps}, doubt=0.8),
    )


CAUSE = Cause("DRAM maps", look)
