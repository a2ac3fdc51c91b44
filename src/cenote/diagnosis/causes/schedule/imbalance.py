"""Few large pieces of work, unevenly spread over the threads."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause, Sample
from cenote.diagnosis.context import Context
from cenote.diagnosis.gains import balanced
from cenote.diagnosis.samples import convolution
from cenote.profile.data import Finding

UNEVEN = 1.15  # of the mean: what the slowest thread computes


def look(context: Context) -> Finding | None:
    """The slowest thread beside the mean, in steps of several pieces."""
    if context.profile.threads < 2:
        return None
    steps = context.heavy(
        lambda step: (
            step.items > 1
            and step.kind == "kernel"
            and max(step.busy_ms) * len(step.busy_ms) > UNEVEN * sum(step.busy_ms)
            and -(-step.items // max(step.grain, 1)) < 8 * len(step.busy_ms)
            and min(step.busy_ms) > 0
        )
    )
    saved = sum(balanced(context.profile, step.index) for step in steps)
    if saved < 0.05 * context.profile.wall_ms:
        return None
    first = steps[0]
    return Finding(
        "imbalance", tuple(step.index for step in steps), context.share(steps),
        f"{first.title}: {first.items} pieces, threads compute "
        + " and ".join(f"{ms:.3g}" for ms in first.busy_ms) + " ms",
        0.8, "in the model: batches or maps whose pieces divide evenly by the threads",
        (0.4 * saved, 0.8 * saved, 1.1 * saved),
    )  # fmt: skip


def planted() -> Sample:
    model, inputs = convolution(16, 48, 64, kernel=5)
    return Sample(model, inputs, {"threads": 2})


def healthy() -> Sample:
    model, inputs = convolution(16, 64, 64, kernel=3)
    return Sample(model, inputs, {"threads": 2})


CAUSE = Cause("imbalance", look, planted, healthy)
