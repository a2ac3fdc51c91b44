"""How many cases the fuzz tests of a reader take together: CENOTE_FUZZ_CASES, 200 by default."""

from __future__ import annotations

import math
import os

import numpy as np
from hypothesis import settings

from cenote.graph.graph import Graph

CASES = int(os.environ.get("CENOTE_FUZZ_CASES", "200"))


def share(tests: int) -> settings:
    """The settings of each of so many tests."""
    return settings(max_examples=math.ceil(CASES / tests))


def small_inputs(graph: Graph) -> dict[str, np.ndarray] | None:
    """Arrays for the inputs; None where they would be large."""
    feed = {}
    for declared in graph.inputs:
        extents = [
            2 if extent is None or isinstance(extent, str) else extent for extent in declared.shape or ()
        ]
        if declared.shape is None or math.prod(extents) > 10_000:
            return None
        feed[declared.name] = np.ones(extents, declared.dtype)
    return feed
