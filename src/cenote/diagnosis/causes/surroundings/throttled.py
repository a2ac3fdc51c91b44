"""The cause "throttled": the control group's quota of processor time is used up."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context
from cenote.profile.data import Finding, Treatment


def look(context: Context) -> Finding | None:
    """Look for periods in which the group was stopped."""
    environment, profile = context.profile.environment, context.profile
    if not environment.throttled_periods or not environment.throttled_ms:
        return None
    # Number of CPUs whose stopped times are added up.
    running = max(1, min(profile.threads, environment.cpus))
    share = min(0.95, environment.throttled_ms / running / (environment.seconds * 1e3))
    if share < 0.05:
        return None
    fewer = Treatment(threads=max(1, int(environment.quota_cores or 1)))
    lost = share * profile.wall_ms
    return Finding(
        "throttled",
        (),
        share,
        f"the group was stopped {environment.throttled_periods} times, {environment.throttled_ms / running:.0f} ms of "
        f"{environment.seconds * 1e3:.0f}; its quota is {environment.quota_cores or 0:.2g} cores",
        0.95,
        f"a larger quota, or {fewer}",
        (0.2 * lost, 0.7 * lost, lost),
        treatments=(fewer,),
    )


CAUSE = Cause("throttled", look)
