"""The cause "reorder": transposes that exporters write around operators."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context
from cenote.diagnosis.gains import gain
from cenote.profile.data import Finding


def look(context: Context) -> Finding | None:
    """Look for transposes of the model that remain after those that cancel have been removed."""
    steps = context.heavy(lambda step: step.op.startswith(("transpose", "permute")))
    if not steps:
        return None
    return Finding(
        "reorder",
        tuple(step.index for step in steps),
        context.share(steps),
        f"{len(steps)} transposes, {sum(step.ms for step in steps):.3g} ms of {context.profile.wall_ms:.3g}",
        0.9,
        "in the model: export with one layout throughout, so that no transposes are left",
        gain(context.profile, {step.index: 0.0 for step in steps}, doubt=0.3),
    )


CAUSE = Cause("reorder", look)
