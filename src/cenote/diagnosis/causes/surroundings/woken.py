"""After a pause threads are asleep, and woken on a core that is taken."""

from __future__ import annotations

import time

from cenote.diagnosis.cause import Cause, Sample
from cenote.diagnosis.context import Context
from cenote.diagnosis.samples import convolution
from cenote.profile.data import Finding, Treatment

ONE_THREAD = Treatment(threads=1)
LEAST = 0.1  # of the latency


def look(context: Context) -> Finding | None:
    """A call after a pause beside one right after another: more waiting, not more computing."""
    if context.profile.threads < 2:
        return None
    tried = context.gain_hot()
    if (
        tried is None
        or not tried.certain
        or tried.middle < LEAST * tried.before_ms
        or not context.waiting_grows()
    ):
        return None
    return Finding(
        "woken", (), tried.middle / tried.before_ms,
        f"the first call after a pause takes {tried.before_ms:.3g} ms, the next {tried.before_ms - tried.middle:.3g}: "
        "its threads have to be woken",
        0.7, f"calls in a row; {ONE_THREAD} where latency after pauses matters and the model is small", tried.gain_ms,
    )  # fmt: skip


def pause() -> None:
    """As a server rests between requests."""
    time.sleep(0.04)


def planted() -> Sample:
    model, inputs = convolution(64, 64, 28, count=2)
    return Sample(model, inputs, {"threads": 2}, between=pause)


def healthy() -> Sample:
    model, inputs = convolution(64, 64, 28, count=2)
    return Sample(model, inputs, {"threads": 2})


CAUSE = Cause("woken", look, planted, healthy)
