"""The cause "unfused": an activation is a step of its own, because the value before it is needed too."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context
from cenote.diagnosis.gains import gain
from cenote.profile.data import Finding

ACTIVATIONS = (
    "relu",
    "sigmoid",
    "clip",
    "leaky_relu",
    "hardswish",
    "silu",
    "activation",
    "elementwise",
    "tanh",
)


def look(context: Context) -> Finding | None:
    """Look for activations right behind a convolution or product that could have included them."""
    steps = []
    for before, step in zip(context.profile.steps, context.profile.steps[1:], strict=False):
        fits = step.op.startswith(ACTIVATIONS) and before.op.startswith(("conv", "gemm", "matmul", "reorder"))
        if fits and step.kind == "kernel":
            steps.append(step)
    if context.share(steps) < 0.05:
        return None
    return Finding(
        "unfused",
        tuple(step.index for step in steps),
        context.share(steps),
        f"{steps[0].title} passes once more over what the step before it has made",
        0.8,
        "in the model: do not give the value before the activation out, then both are one step",
        gain(
            context.profile, {step.index: 1 - min(step.roof_share or 0.5, 1.0) for step in steps}, doubt=0.5
        ),
    )


CAUSE = Cause("unfused", look)
