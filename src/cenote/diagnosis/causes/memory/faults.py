"""Fresh memory: the system clears each page when it is first touched."""

from __future__ import annotations

from typing import Any

import numpy as np

from cenote.diagnosis.cause import Cause, Sample
from cenote.diagnosis.context import Context
from cenote.diagnosis.samples import model as made
from cenote.diagnosis.samples import noise
from cenote.profile.data import Finding
from cenote.runtime.outputs import OUTPUTS

LEAST = 0.05  # of the latency
SCALES = np.array([1, 1, 4, 4], np.float32)


def look(context: Context) -> Finding | None:
    """Where calls touch pages first: the same calls with outputs in memory that has been touched before."""
    profile = context.profile
    each = (profile.environment.minor_faults or 0) / (2 * profile.calls)  # ordinary and recorded ones
    tried = context.gain_kept() if each >= 1 else None
    if tried is None or not tried.certain or tried.middle < LEAST * tried.before_ms:
        return None
    return Finding(
        "faults", (), tried.middle / tried.before_ms,
        f"outputs are fresh memory, cleared page by page ({each:.0f} page faults a call): into memory that was touched "
        f"before, a call takes {tried.before_ms - tried.middle:.3g} ms instead of {tried.before_ms:.3g}",
        0.95, "hold fewer results, whose memory is used again when nobody does; ask for fewer or smaller outputs "
        "(`run(outputs=[…])`)",
        tried.gain_ms,
    )  # fmt: skip


def _sample(pixels: int, **others: Any) -> Sample:
    shape = (1, 3, pixels, pixels)
    graph = made([("Resize", ["x", "", "scales"], ["y"], {})], {"x": shape}, ["y"], {"scales": SCALES})
    return Sample(graph, {"x": noise(*shape)}, work=(pixels / 32) ** 2, **others)


def planted() -> Sample:
    return _sample(1024, around=OUTPUTS.off)


def healthy() -> Sample:
    return _sample(32)


CAUSE = Cause("faults", look, planted, healthy)
