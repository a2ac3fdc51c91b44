"""Transposes as exporters write them around operators."""

from __future__ import annotations

import numpy as np

from cenote.diagnosis.cause import Cause, Sample
from cenote.diagnosis.context import Context
from cenote.diagnosis.gains import gain
from cenote.diagnosis.samples import Node, noise
from cenote.diagnosis.samples import model as made
from cenote.profile.data import Finding


def look(context: Context) -> Finding | None:
    """Transposes of the model that are left after those that cancel are gone."""
    steps = context.heavy(lambda step: step.op.startswith(("transpose", "permute")))
    if not steps:
        return None
    return Finding(
        "reorder", tuple(step.index for step in steps), context.share(steps),
        f"{len(steps)} transposes, {sum(step.ms for step in steps):.3g} ms of {context.profile.wall_ms:.3g}",
        0.9, "in the model: export with one layout throughout, so that no transposes are left",
        gain(context.profile, {step.index: 0.0 for step in steps}, doubt=0.3),
    )  # fmt: skip


def _sample(turned: bool) -> Sample:
    """Maps as rows of another length and back, thrice, where an exporter thinks of channels last."""
    nodes: list[Node] = []
    value = "x"

    def add(operator: str, *more: str, **attributes: object) -> None:
        nonlocal value
        made = f"v{len(nodes)}"
        nodes.append((operator, [value, *more], [made], attributes))
        value = made

    for _ in range(3):
        for perm, shape in (([0, 2, 3, 1], "rows"), ([0, 3, 1, 2], "maps")):
            if turned:
                add("Transpose", perm=perm)
            add("Reshape", shape)
        add("Relu")
    constants = {"rows": np.array([1, 32, 128, 64]), "maps": np.array([1, 64, 64, 64])}
    return Sample(made(nodes, {"x": (1, 64, 64, 64)}, [value], constants), {"x": noise(1, 64, 64, 64)})


def planted() -> Sample:
    return _sample(True)


def healthy() -> Sample:
    return _sample(False)


CAUSE = Cause("reorder", look, planted, healthy)
