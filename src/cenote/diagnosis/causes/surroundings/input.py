"""The cause "input": an input must be copied before the program can read it."""

from __future__ import annotations

import numpy as np

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context
from cenote.profile.data import Finding

# Part of the latency.
LEAST = 0.05


def look(context: Context) -> Finding | None:
    """Look for inputs whose elements are not in order, and try the same call with ordered copies."""
    odd = [
        name
        for name, array in context.inputs.items()
        if isinstance(array, np.ndarray) and not (array.flags.c_contiguous and array.dtype.isnative)
    ]
    if not odd:
        return None
    ordered = {
        name: np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="))) if name in odd else array
        for name, array in context.inputs.items()
    }
    tried = context.gain_with(ordered)
    if not tried.certain or tried.middle < LEAST * tried.before_ms:
        return None
    return Finding(
        "input",
        (),
        tried.middle / tried.before_ms,
        f"{', '.join(odd)}: strides {context.inputs[odd[0]].strides}, copied in order before each call",
        0.95,
        "np.ascontiguousarray where the input is made, or make it in order",
        tried.gain_ms,
    )


CAUSE = Cause("input", look)
