"""Several callers wait for the threads of one model."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context
from cenote.profile.data import Finding, Treatment

ONE_THREAD = Treatment(threads=1)
LEAST = 0.3  # of the latency: Python's account, in which the wait for the team is
TAKEN = 0.5  # of the moments between calls: the team works for others


def look(context: Context) -> Finding | None:
    """The team works for others while this caller rests, and most of a call is neither kernels nor waits of its own
    threads."""
    profile = context.profile
    lost = profile.accounts.python
    if profile.threads < 2 or lost < LEAST * profile.wall_ms:
        return None
    taken = context.team_is_taken()
    if taken < TAKEN:
        return None
    native = profile.accounts.kernels + profile.accounts.waits + profile.accounts.driver
    # What cores idle while callers wait for them, and as much again as they are handed over.
    idle = 2 * profile.wall_ms * (1 - profile.accounts.kernels / native)
    return Finding(
        "contention", (), lost / profile.wall_ms,
        f"{taken:.0%} of the time the model's {profile.threads} threads, which serve one caller at a time, work for "
        f"others; a call spends {lost:.3g} ms outside of them",
        0.7, f"{ONE_THREAD}: as many callers as cores then compute side by side",
        (0.0, min(idle, lost), min(3 * idle, lost)), treatments=(ONE_THREAD,),
    )  # fmt: skip


CAUSE = Cause("contention", look)
