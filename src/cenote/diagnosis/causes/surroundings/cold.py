"""The cause "cold": between calls the program fills the caches with other data."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context
from cenote.profile.data import Finding

# Part of the latency.
LEAST = 0.1


def look(context: Context) -> Finding | None:
    """Compare a call right after another with one after the program's work in between."""
    tried = context.gain_hot()
    if (
        tried is None
        or not tried.certain
        or tried.middle < LEAST * tried.before_ms
        or context.rests_between()
    ):
        return None
    return Finding(
        "cold",
        (),
        tried.middle / tried.before_ms,
        f"a call that follows another takes {tried.before_ms - tried.middle:.3g} ms, not {tried.before_ms:.3g}: "
        "weights and maps have left the caches in between",
        0.85,
        "none: calls in a row, or less memory swept in between",
        tried.gain_ms,
    )


CAUSE = Cause("cold", look)
