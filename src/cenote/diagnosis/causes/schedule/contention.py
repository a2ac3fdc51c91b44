"""Several callers wait for the threads of one model."""

from __future__ import annotations

import threading

from cenote.diagnosis.cause import Cause, Sample
from cenote.diagnosis.context import Context
from cenote.diagnosis.samples import convolution
from cenote.profile.data import Finding, Treatment

ONE_THREAD = Treatment(threads=1)
LEAST = 0.3  # of the latency: Python's account, in which the wait for the team is


def look(context: Context) -> Finding | None:
    """Others in this process call too, and most of a call is neither kernels nor waits of its own threads."""
    profile = context.profile
    others = threading.active_count() - 1
    if profile.threads < 2 or others < 1 or profile.accounts.python < LEAST * profile.wall_ms:
        return None
    lost = profile.accounts.python
    return Finding(
        "contention", (), lost / profile.wall_ms,
        f"{others} other threads of Python run in this process; a call spends {lost:.3g} ms outside of the model's "
        f"{profile.threads} threads, which serve one caller at a time",
        0.7, f"{ONE_THREAD}: as many callers as cores then compute side by side", (0.3 * lost, 0.6 * lost, lost),
        treatments=(ONE_THREAD,),
    )  # fmt: skip


def planted() -> Sample:
    model, inputs = convolution(64, 64, 56, count=4)
    return Sample(model, inputs, {"threads": 2}, callers=3)


def healthy() -> Sample:
    model, inputs = convolution(64, 64, 56, count=4)
    return Sample(model, inputs, {"threads": 2})


CAUSE = Cause("contention", look, planted, healthy)
