"""Dilated 3x3 convolutions, which Winograd's algorithm does not compute."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause, Sample
from cenote.diagnosis.context import Context
from cenote.diagnosis.gains import gain
from cenote.diagnosis.samples import convolution
from cenote.profile.data import Finding, Treatment

REWRITE = Treatment(rewrites=("space_to_batch",))
FEWER = 0.5  # of the multiply-adds, and so of the time, about: Winograd F(4x4, 3x3) on the four sub-maps


def look(context: Context) -> Finding | None:
    """The same convolution on every d-th row and column is a plain one, which has Winograd's algorithm."""
    steps = context.heavy(
        lambda step: step.op.startswith("conv") and "dilation" in step.op and "winograd" not in step.algorithm
    )
    if not steps:
        return None
    return Finding(
        "dilation", tuple(step.index for step in steps), context.share(steps),
        f"{steps[0].title} is dilated and computed by {steps[0].algorithm}: "
        f"{steps[0].executed_operations / max(steps[0].operations, 1):.2f} of the plain operations",
        0.6, str(REWRITE), gain(context.profile, {step.index: FEWER for step in steps}, doubt=0.6),
        treatments=(REWRITE,),
    )  # fmt: skip


def planted() -> Sample:
    model, inputs = convolution(512, 512, 28, dilations=[2, 2])
    return Sample(model, inputs)


def healthy() -> Sample:
    model, inputs = convolution(512, 512, 28)
    return Sample(model, inputs)


CAUSE = Cause("dilation", look, planted, healthy)
