"""Transposes as exporters write them around operators."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause, Sample
from cenote.diagnosis.context import Context
from cenote.diagnosis.gains import gain
from cenote.diagnosis.samples import Node, noise
from cenote.diagnosis.samples import model as made
from cenote.profile.data import Finding

SIZE = 48  # of each dimension: maps of 0.4 MB


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
    """Maps and other maps added to them, thrice, where an exporter thinks of channels last: what is added comes in its
    order, so that the transposes cannot cancel."""
    nodes: list[Node] = []
    value, shape = "x", (1, SIZE, SIZE, SIZE)

    def add(operator: str, *more: str, **attributes: object) -> None:
        nonlocal value
        made = f"v{len(nodes)}"
        nodes.append((operator, [value, *more], [made], attributes))
        value = made

    for index in range(3):
        for perm in ([0, 2, 3, 1], [0, 3, 1, 2]) if turned else ([],):
            if turned:
                add("Transpose", perm=perm)
            if perm != [0, 3, 1, 2]:
                add("Add", f"z{index}")
        add("Relu")
    inputs = {name: noise(*shape) for name in ("x", "z0", "z1", "z2")}
    return Sample(made(nodes, dict.fromkeys(inputs, shape), [value], {}), inputs)


def planted() -> Sample:
    return _sample(True)


def healthy() -> Sample:
    return _sample(False)


CAUSE = Cause("reorder", look, planted, healthy)
