"""Numbers below the smallest normal one, with which processors compute slowly."""

from __future__ import annotations

import numpy as np

from cenote.diagnosis.cause import Cause, Sample
from cenote.diagnosis.context import Context
from cenote.diagnosis.samples import convolution
from cenote.profile.data import Finding, Treatment

LEAST = 0.05  # of the latency
FLUSH = Treatment(denormals="flush")


def look(context: Context) -> Finding | None:
    """An experiment: the same call with denormals flushed to zero."""
    tried = context.gain_of(denormals="flush")
    if tried is None or not tried.certain or tried.middle < LEAST * tried.before_ms:
        return None
    return Finding(
        "denormals", tuple(step.index for step in context.profile.heaviest()[:1]), tried.middle / tried.before_ms,
        f"flushed to zero, a call takes {tried.before_ms - tried.middle:.3g} ms instead of {tried.before_ms:.3g}",
        0.95, f"{FLUSH} (numbers below 1.2e-38 become 0)", tried.gain_ms, treatments=(FLUSH,),
    )  # fmt: skip


def planted() -> Sample:
    model, inputs = convolution(32, 32, 56, kernel=1, count=2)
    return Sample(model, {name: (value * 1e-39).astype(np.float32) for name, value in inputs.items()})


def healthy() -> Sample:
    model, inputs = convolution(32, 32, 56, kernel=1, count=2)
    return Sample(model, inputs)


CAUSE = Cause("denormals", look, planted, healthy)
