"""The cause "serial": a step of one piece, which one thread computes while the others wait."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context
from cenote.profile.data import Finding, Treatment

ONE_THREAD = Treatment(threads=1)
# Milliseconds: shorter steps are one piece because meetings cost more.
LONG = 0.02


def look(context: Context) -> Finding | None:
    """Look for steps of one piece. By Amdahl's law, the work of one thread alone limits the use of the others."""
    if context.profile.threads < 2:
        return None
    steps = context.heavy(
        lambda step: step.kind == "kernel" and step.items <= step.grain and step.low_ms > LONG
    )
    if not steps:
        return None
    saved = sum(step.waits_ms for step in steps)
    first = steps[0]
    return Finding(
        "serial",
        tuple(step.index for step in steps),
        context.share(steps),
        f"{first.title} runs on one thread of {context.profile.threads} ({first.items} piece(s))",
        0.85,
        f"in the model: an operator that works on parts; or {ONE_THREAD}, which leaves a core free",
        (0.0, 0.5 * saved, saved),
    )


CAUSE = Cause("serial", look)
