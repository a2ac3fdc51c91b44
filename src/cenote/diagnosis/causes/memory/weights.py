"""The cause "DRAM weights": weights are read from memory for every call, and used once."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context
from cenote.diagnosis.gains import at_best, gain
from cenote.profile.data import Finding, Treatment

HALVES = Treatment(weights="bfloat16"), Treatment(weights="float16")
# Part of the roof.
NEAR = 0.5
# Operations per byte: with fewer, memory is the limit.
USES = 8
# Operations per byte: with fewer, each weight is used once, so that it may be stored in half the bytes.
ONE_ROW = 0.75


def look(context: Context) -> Finding | None:
    """Look for linear layers of few rows at the roof of memory or of the last cache."""
    steps = context.heavy(
        lambda step: (
            step.op.startswith(("gemm", "matmul", "linear"))
            and step.bound in ("memory", "L3")
            and at_best(step) >= NEAR
            and step.operations < USES * step.read_bytes
            and step.read_bytes > 4 * step.written_bytes
        )
    )
    if not steps:
        return None
    once = all(step.operations < ONE_ROW * step.read_bytes for step in steps)
    halves = (
        f"{HALVES[0]}: half the bytes (rounds weights by up to 2**-9, float16 by 2**-12; needs a tolerance), "
    )
    moved, took = sum(step.read_bytes for step in steps), sum(step.ms for step in steps)
    return Finding(
        "DRAM weights",
        tuple(step.index for step in steps),
        context.share(steps),
        f"{moved / 1e6:.0f} MB of weights are read per call at {moved / took / 1e6:.1f} GB/s, the roof of "
        f"{steps[0].bound}; each is used {steps[0].operations * 2 / max(steps[0].read_bytes, 1):.1f} times",
        0.9,
        (halves + "or ") * once + "give several inputs at once",
        gain(context.profile, {step.index: 0.55 for step in steps}, doubt=0.25) if once else None,
        treatments=HALVES * once,
    )


CAUSE = Cause("DRAM weights", look)
