"""The cause "host": operators without a kernel, which run as NumPy."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context, refused_for_type
from cenote.diagnosis.gains import gain
from cenote.profile.data import Finding


def look(context: Context) -> Finding | None:
    """Look for steps on the host, and for nodes that run there between two stages."""
    steps = context.heavy(lambda step: step.kind in ("host", "between") and not refused_for_type(step))
    if not steps:
        return None
    return Finding(
        "host",
        tuple(step.index for step in steps),
        context.share(steps),
        f"{steps[0].title} runs as NumPy: {steps[0].reason or steps[0].algorithm}",
        0.95,
        "in the model: an operator that has a kernel (docs/operators.md lists them)",
        gain(context.profile, {step.index: 0.1 for step in steps}, doubt=0.3),
    )


CAUSE = Cause("host", look)
