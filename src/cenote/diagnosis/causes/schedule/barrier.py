"""The cause "barrier": threads spend more time meeting than computing."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context
from cenote.profile.data import Finding, Treatment

ONE_THREAD = Treatment(threads=1)
# Part of the latency: driver and waits.
LEAST = 0.2


def look(context: Context) -> Finding | None:
    """Try one thread where there are many short steps that depend on each other. Where threads lack cores, that is
    the cause."""
    profile = context.profile
    if profile.threads < 2 or context.short_of_cores() > 0.25:
        return None
    meeting = profile.accounts.driver + profile.accounts.waits
    if meeting < LEAST * profile.wall_ms:
        return None
    tried = context.gain_of(threads=1)
    if tried is None or not tried.certain:
        return None
    groups = len({step.group for step in profile.steps})
    return Finding(
        "barrier",
        (),
        meeting / profile.wall_ms,
        f"{groups} meetings of {profile.threads} threads: {meeting:.3g} ms of waiting and meeting, "
        f"{profile.accounts.kernels:.3g} of computing",
        0.9,
        str(ONE_THREAD),
        tried.gain_ms,
        treatments=(ONE_THREAD,),
    )


CAUSE = Cause("barrier", look)
