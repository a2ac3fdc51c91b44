"""The cause "oversubscribed": more threads than cores."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context
from cenote.profile.data import Finding, Treatment

# Part of the time that the threads together wait for a core.
LEAST = 0.1


def look(context: Context) -> Finding | None:
    """Compare the number of threads with the machine's CPUs, and measure how long threads were ready without a core.
    Where the process may not use all CPUs, the cause is "pinned"."""
    profile, cpus = context.profile, context.profile.environment.cpus
    if profile.threads <= cpus or cpus < (profile.environment.online or 0):
        return None
    waited, took = profile.environment.run_queue_ms or 0.0, profile.environment.seconds * 1e3
    tried = context.gain_of(threads=cpus)
    if tried is None or not (tried.certain or waited > LEAST * took):
        return None
    fewer = Treatment(threads=cpus)
    return Finding(
        "oversubscribed",
        (),
        min(1.0, max(tried.middle / tried.before_ms, waited / took / profile.threads)),
        f"{profile.threads} threads on {cpus} CPUs; ready and without a core for {waited:.0f} ms of {took:.0f}",
        0.95,
        str(fewer),
        tried.gain_ms,
        treatments=(fewer,),
    )


CAUSE = Cause("oversubscribed", look)
