"""The cause "woken": after a pause threads are asleep, and cores have a lower clock and cold caches."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context
from cenote.profile.data import Finding, Treatment

ONE_THREAD = Treatment(threads=1)
# Part of the latency.
LEAST = 0.1


def look(context: Context) -> Finding | None:
    """Compare a call after a pause with one right after another call, where the program is idle in between."""
    tried = context.gain_hot()
    if (
        tried is None
        or not tried.certain
        or tried.middle < LEAST * tried.before_ms
        or not context.rests_between()
    ):
        return None
    fewer = f"; {ONE_THREAD} where latency after pauses matters and the model is small"
    return Finding(
        "woken",
        (),
        tried.middle / tried.before_ms,
        f"the first call after a pause takes {tried.before_ms:.3g} ms, the next {tried.before_ms - tried.middle:.3g}: "
        "threads have to be woken, and cores come back to their clock and caches",
        0.7,
        "calls in a row" + fewer * (context.profile.threads > 1),
        tried.gain_ms,
    )


CAUSE = Cause("woken", look)
