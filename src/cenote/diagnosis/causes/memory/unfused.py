"""An activation of its own, because the value before it is needed too."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context
from cenote.diagnosis.gains import gain
from cenote.profile.data import Finding

ACTIVATIONS = (
    "relu", "sigmoid", "clip", "leaky_relu", "hardswish", "silu", "activation", "elementwise", "tanh",
)  # fmt: skip


def look(context: Context) -> Finding | None:
    """Activations right behind a convolution or product that could have taken them along."""
    found = []
    for before, step in zip(context.profile.steps, context.profile.steps[1:], strict=False):
        fits = step.op.startswith(ACTIVATIONS) and before.op.startswith(("conv", "gemm", "matmul", "reorder"))
        if fits and step.kind == "kernel":
            found.append(step)
    if context.share(found) < 0.05:
        return None
    return Finding(
        "unfused", tuple(step.index for step in found), context.share(found),
        f"{found[0].title} passes once more over what the step before it has made",
        0.8, "in the model: do not give the value before the activation out, then both are one step",
        gain(context.profile, {step.index: 1 - min(step.roof_share or 0.5, 1.0) for step in found}, doubt=0.5),
    )  # fmt: skip


CAUSE = Cause("unfused", look)
