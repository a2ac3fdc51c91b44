"""The cause "dilation": dilated 3x3 convolutions, which Winograd's algorithm does not compute."""

from __future__ import annotations

import re

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context
from cenote.diagnosis.gains import gain
from cenote.profile.data import Finding, Treatment

REWRITE = Treatment(rewrites=("space_to_batch",))
# Any dilation other than 1.
DILATED = re.compile(r"dilations=\([\d,]*([2-9]|\d\d)")
# Part of the time, about, where no trial is possible: Winograd F(4x4, 3x3) on the sub-maps, and their rearrangement.
FEWER = 0.5


def look(context: Context) -> Finding | None:
    """Look for dilated convolutions. On every d-th row and column such a convolution is a plain one, for which there
    is Winograd's algorithm. A trial measures the gain; where it gains nothing, dilation is no loss."""
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
        "dilation",
        tuple(step.index for step in steps),
        context.share(steps),
        f"{steps[0].title} is dilated and computed by {steps[0].algorithm}: "
        f"{steps[0].executed_operations / max(steps[0].operations, 1):.2f} of the plain operations",
        0.6 if tried is None else 0.95,
        str(REWRITE),
        estimate if tried is None else tried.gain_ms,
        treatments=(REWRITE,),
    )


CAUSE = Cause("dilation", look)
