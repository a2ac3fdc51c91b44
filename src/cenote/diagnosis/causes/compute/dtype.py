"""The cause "dtype": a type for which there is no fast kernel."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context, refused_for_type
from cenote.diagnosis.gains import gain
from cenote.profile.data import Finding, Treatment

CAST = Treatment(rewrites=("float32",))
SLOW = ("float64", "int32", "int64", "uint64")


def look(context: Context) -> Finding | None:
    """Look for steps of a wide type, native or on the host because of it."""
    steps = context.heavy(
        lambda step: (
            (step.dtype in SLOW and step.op.startswith(("conv", "gemm", "matmul", "linear")))
            or refused_for_type(step)
        )
    )
    if not steps:
        return None
    tried = context.gain_of(rewrites=CAST.rewrites)
    helps = tried is not None and tried.certain
    factors = {step.index: 0.1 if step.kind == "host" else 0.5 for step in steps}
    return Finding(
        "dtype",
        tuple(step.index for step in steps),
        context.share(steps),
        f"{steps[0].title}: {steps[0].reason if steps[0].kind == 'host' else 'computes in ' + steps[0].dtype}",
        0.9,
        f"{CAST} (needs a tolerance)",
        tried.gain_ms if tried is not None and helps else gain(context.profile, factors, doubt=0.5),
        treatments=(CAST,) if helps or tried is None else (),
    )


CAUSE = Cause("dtype", look)
