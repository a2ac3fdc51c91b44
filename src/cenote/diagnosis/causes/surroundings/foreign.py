"""The cause "foreign": other processes use the cores."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context
from cenote.profile.data import Finding

# Cores.
LEAST = 0.25


def look(context: Context) -> Finding | None:
    """Compare the cores that other processes keep busy, and that the hypervisor takes, with those that are left."""
    environment = context.profile.environment
    taken = (environment.foreign_cores or 0.0) + (environment.steal_cores or 0.0)
    short = context.short_of_cores()
    if taken < LEAST or short <= LEAST / 2:
        return None
    share = min(0.9, short / environment.cpus)
    wall = context.profile.wall_ms
    return Finding(
        "foreign",
        (),
        share,
        f"other processes keep {environment.foreign_cores or 0:.1f} cores busy"
        + (f", the hypervisor takes {environment.steal_cores:.1f}" if environment.steal_cores else "")
        + f"; {context.profile.threads} thread(s) of {environment.cpus} CPUs are wanted here",
        0.9,
        "measure again on a quiet machine, or give the process cores of its own",
        (0.2 * share * wall, 0.6 * share * wall, share * wall),
    )


CAUSE = Cause("foreign", look)
