"""Maps that no cache holds pass through memory."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause, Sample
from cenote.diagnosis.context import Context
from cenote.diagnosis.gains import at_best, gain
from cenote.diagnosis.samples import Node, noise
from cenote.diagnosis.samples import model as made
from cenote.profile.data import Finding

NEAR = 0.5  # of the roof
_SMALL = 128  # pixels of the healthy twin: its maps lie in the level 2 cache


def look(context: Context) -> Finding | None:
    """Steps that only move data, at the roof of memory."""
    steps = context.heavy(
        lambda step: (
            step.kind == "kernel"
            and step.bound == "memory"
            and at_best(step) >= NEAR
            and step.read_bytes <= 4 * step.written_bytes
            and step.operations < 2 * step.bytes
        )
    )
    if not steps:
        return None
    moved, took = sum(step.bytes for step in steps), sum(step.ms for step in steps)
    return Finding(
        "DRAM maps", tuple(step.index for step in steps), context.share(steps),
        f"{moved / 1e6:.0f} MB of maps pass through memory at {moved / took / 1e6:.1f} GB/s",
        0.8, "smaller batches or pictures, whose maps stay in a cache",
        gain(context.profile, {step.index: 0.5 for step in steps}, doubt=0.8),
    )  # fmt: skip


def _sample(pixels: int) -> Sample:
    shape = (1, 8, pixels, pixels)
    nodes: list[Node] = [
        ("Add", ["x", "z"], ["sum"], {}),
        ("MaxPool", ["sum"], ["y"], {"kernel_shape": [4, 4], "strides": [4, 4]}),
        ("GlobalAveragePool", ["sum"], ["mean"], {}),
    ]
    graph = made(nodes, {"x": shape, "z": shape}, ["y", "mean"], {})
    return Sample(graph, {"x": noise(*shape), "z": noise(*shape)}, work=(pixels / _SMALL) ** 2)


def planted() -> Sample:
    return _sample(2048)


def healthy() -> Sample:
    return _sample(_SMALL)


CAUSE = Cause("DRAM maps", look, planted, healthy)
