"""The cause "algorithm": an algorithm is pinned although a rival is faster."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context
from cenote.profile.data import Finding, Pin, Treatment

# Part of the estimate that a rival's must not exceed.
BETTER = 0.9


def look(context: Context) -> Finding | None:
    """Look for steps for which the cost model itself estimates less time for a rival, and a trial agrees."""
    steps = context.heavy(
        lambda step: (
            step.estimate_ms is not None
            and any(rival.ms < BETTER * step.estimate_ms for rival in step.rivals)
        )
    )
    pins = {step.node: min(step.rivals, key=lambda rival: rival.ms).algorithm for step in steps}
    if not pins:
        return None
    tried = context.gain_of(pins=pins)
    if tried is None or not tried.certain:
        return None
    first = steps[0]
    treatment = Treatment(pins=tuple(Pin(node, algorithm) for node, algorithm in pins.items()))
    return Finding(
        "algorithm",
        tuple(step.index for step in steps),
        context.share(steps),
        f"{first.title} is computed by {first.algorithm}; {pins[first.node]} is estimated at "
        f"{min(rival.ms for rival in first.rivals):.3g} ms against {first.estimate_ms:.3g}, and a trial agrees",
        0.95,
        str(treatment),
        tried.gain_ms,
        treatments=(treatment,),
    )


CAUSE = Cause("algorithm", look)
