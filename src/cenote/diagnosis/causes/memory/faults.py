"""The cause "faults": the system clears each page of new memory when it is first touched."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context
from cenote.profile.data import Finding

# Part of the latency.
LEAST = 0.05


def look(context: Context) -> Finding | None:
    """Try calls that touch new pages again, with outputs in memory that has been touched before."""
    profile = context.profile
    # Page faults per call: ordinary and recorded calls count.
    each = (profile.environment.minor_faults or 0) / (2 * profile.calls)
    tried = context.gain_kept() if each >= 1 else None
    if tried is None or not tried.certain or tried.middle < LEAST * tried.before_ms:
        return None
    return Finding(
        "faults",
        (),
        tried.middle / tried.before_ms,
        f"outputs are fresh memory, cleared page by page ({each:.0f} page faults a call): into memory that was touched "
        f"before, a call takes {tried.before_ms - tried.middle:.3g} ms instead of {tried.before_ms:.3g}",
        0.95,
        "hold fewer results, whose memory is used again when nobody does; ask for fewer or smaller outputs "
        "(`run(outputs=[…])`)",
        tried.gain_ms,
    )


CAUSE = Cause("faults", look)
