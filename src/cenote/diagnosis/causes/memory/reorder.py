"""Transposes as exporters write them around operators."""

from __future__ import annotations

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
    shape = (1, 64, 64, 64)
    nodes: list[Node] = []
    value = "x"
    for index in range(3):
        if turned:
            nodes.append(
                ("Transpose", [value], [f"t{index}"], {"perm": [0, 3, 1, 2] if index % 2 else [0, 2, 3, 1]})
            )
            value = f"t{index}"
        nodes.append(("Softmax", [value], [f"s{index}"], {"axis": 3}))
        value = f"s{index}"
    return Sample(made(nodes, {"x": shape}, [value], {}), {"x": noise(*shape)})


def planted() -> Sample:
    return _sample(True)


def healthy() -> Sample:
    return _sample(False)


CAUSE = Cause("reorder", look, planted, healthy)
