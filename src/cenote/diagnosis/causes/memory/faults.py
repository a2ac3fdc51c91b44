"""Fresh memory: the system clears each page when it is first touched."""

from __future__ import annotations

import numpy as np

from cenote.diagnosis.cause import Cause, Sample
from cenote.diagnosis.context import Context
from cenote.diagnosis.samples import model as made
from cenote.diagnosis.samples import noise
from cenote.profile.data import Finding

LEAST = 0.05  # of the latency
SCALES = np.array([1, 1, 4, 4], np.float32)


def look(context: Context) -> Finding | None:
    """Page faults per call, at what one costs here."""
    profile = context.profile
    if not profile.environment.minor_faults or profile.roofs is None:
        return None
    calls = 2 * profile.calls  # ordinary and recorded
    each = profile.environment.minor_faults / calls
    lost = each * profile.roofs.page_fault_us.value / 1e3
    if lost < LEAST * profile.wall_ms:
        return None
    lost = min(lost, 0.9 * profile.wall_ms)
    return Finding(
        "faults", (), lost / profile.wall_ms,
        f"{each:.0f} pages of 4 KiB are touched first in each call, {profile.roofs.page_fault_us.value:.2g} us each: "
        "large outputs are fresh memory",
        0.8, "drop the outputs of a call before the next one, so that their memory comes back; ask for fewer outputs "
        "(`run(outputs=[…])`)",
        (0.5 * lost, lost, 1.2 * lost),
    )  # fmt: skip


def _sample(pixels: int) -> Sample:
    shape = (1, 3, pixels, pixels)
    graph = made([("Resize", ["x", "", "scales"], ["y"], {})], {"x": shape}, ["y"], {"scales": SCALES})
    return Sample(graph, {"x": noise(*shape)})


def planted() -> Sample:
    return _sample(1024)


def healthy() -> Sample:
    return _sample(32)


CAUSE = Cause("faults", look, planted, healthy)
