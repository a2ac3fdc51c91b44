"""The cause "pinned": threads share one CPU, because the process may use no other."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context
from cenote.profile.data import Finding, Treatment


def look(context: Context) -> Finding | None:
    """Compare the affinity of the process with the machine's CPUs."""
    profile, cpus, online = (
        context.profile,
        context.profile.environment.cpus,
        context.profile.environment.online,
    )
    if online is None or cpus >= min(profile.threads, online):
        return None
    tried = context.gain_of(threads=cpus)
    gain = (0.0, 0.0, 0.0) if tried is None else tried.gain_ms
    fewer = Treatment(threads=cpus)
    return Finding(
        "pinned",
        (),
        1 - cpus / profile.threads,
        f"{profile.threads} threads may use {cpus} CPU(s) of {online} (affinity)",
        0.95,
        f"{fewer}, or let the process use more CPUs (taskset, cpuset)",
        gain,
        treatments=(fewer,),
    )


CAUSE = Cause("pinned", look)
