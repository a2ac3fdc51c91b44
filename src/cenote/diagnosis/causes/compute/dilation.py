"""Dilated 3x3 convolutions, which Winograd's algorithm does not compute."""

from __future__ import annotations

import re

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context
from cenote.diagnosis.gains import gain
from cenote.profile.data import Finding, Treatment

REWRITE = Treatment(rewrites=("space_to_batch",))
DILATED = re.compile(r"dilations=\([\d,]*([2-9]|\d\d)")  # anything but ones
FEWER = 0.5  # of the time, about, where it cannot be tried: Winograd F(4x4, 3x3) on the sub-maps, and turning them


def look(context: Context) -> Finding | None:
    """The same convolution on every d-th row and column is a plain one, which has Winograd's algorithm. A trial says
    what that gains; where it gains nothing, dilation is no loss."""
    steps = context.heavy(
        lambda step: (
            step.op.startswith("conv") and bool(DILATED.search(step.op)) and "winograd" not in step.algorithm
        )
    )
    if not steps:
        return None
    tried = context.gain_of(rewrites=REWRITE.rewrites)
    if tried is not None and not tried.certain:
        return None
    estimate = gain(context.profile, {step.index: FEWER for step in steps}, doubt=0.6)
    return Finding(
        "dilation", tuple(step.index for step in steps), context.share(steps),
        f"{steps[0].title} is dilated and computed by {steps[0].algorithm}: "
        f"{steps[0].executed_operations / max(steps[0].operations, 1):.2f} of the plain operations",
        0.6 if tried is None else 0.95, str(REWRITE), estimate if tried is None else tried.gain_ms,
        treatments=(REWRITE,),
    )  # fmt: skip


CAUSE = Cause("dilation", look)
