"""The cause "lanes": channels do not fill vectors, and lanes of padding are computed too."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context
from cenote.diagnosis.gains import gain
from cenote.profile.data import Finding

# Times the operator's own operations.
MUCH = 1.5


def look(context: Context) -> Finding | None:
    """Compare the executed operations with those of the operator."""
    steps = context.heavy(
        lambda step: (
            step.operations > 0 and step.executed_operations > MUCH * step.operations and step.bound == "fma"
        )
    )
    if not steps:
        return None
    factors = {step.index: step.operations / step.executed_operations for step in steps}
    first = steps[0]
    return Finding(
        "lanes",
        tuple(step.index for step in steps),
        context.share(steps),
        f"{first.title} executes {first.executed_operations / first.operations:.1f} times its operations: "
        "channels (of a group) do not fill the vectors",
        0.8,
        "in the model: numbers of channels per group that are multiples of the vector, or fewer groups",
        gain(context.profile, factors, doubt=0.5),
    )


CAUSE = Cause("lanes", look)
