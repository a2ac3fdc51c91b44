"""The cause "contention": several callers wait for the threads of one model."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context
from cenote.profile.data import Finding, Treatment

ONE_THREAD = Treatment(threads=1)
# Part of the latency: Python's account, which contains the wait for the team of threads.
LEAST = 0.3
# Part of the moments between calls in which the team works for other callers.
TAKEN = 0.5


def look(context: Context) -> Finding | None:
    """Look for a team that works for other callers between this caller's calls, while most of a call is neither
    kernels nor waits of its own threads."""
    profile = context.profile
    lost = profile.accounts.python
    if profile.threads < 2 or lost < LEAST * profile.wall_ms:
        return None
    taken = context.team_is_taken()
    if taken < TAKEN:
        return None
    native = profile.accounts.kernels + profile.accounts.waits + profile.accounts.driver
    # The time that cores are idle while callers wait for them, and as much again for handing them over.
    idle = 2 * profile.wall_ms * (1 - profile.accounts.kernels / native)
    return Finding(
        "contention",
        (),
        lost / profile.wall_ms,
        f"{taken:.0%} of the time the model's {profile.threads} threads, which serve one caller at a time, work for "
        f"others; a call spends {lost:.3g} ms outside of them",
        0.7,
        f"{ONE_THREAD}: as many callers as cores then compute side by side",
        (0.0, min(idle, lost), min(3 * idle, lost)),
        treatments=(ONE_THREAD,),
    )


CAUSE = Cause("contention", look)
