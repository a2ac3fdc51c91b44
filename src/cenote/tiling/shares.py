"""Shares of a plan's work: what each core executes, in full tiles and in smaller ones at the ends of axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.tiling.problem import TilingPlan
from cenote.tiling.reduction import ReductionPlan


@dataclass(frozen=True)
class CoreShare:
    """Work of one core: the number of its `tasks` (task `core`, `core + cores`, …), of which `tails` are smaller than
    the plan's tile, and the outputs that it computes."""

    core: int
    tasks: int
    tails: int
    outputs: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return dict(vars(self))


def shares_of(plan: TilingPlan) -> list[CoreShare]:
    """Return the share of each core that has work. Tasks are dealt out in turn, as `simulate` executes them; those of
    several passes are added up."""
    if isinstance(plan, ReductionPlan):
        own: dict[int, CoreShare] = {}
        for share in (share for each in plan.passes for share in shares_of(each)):
            before = own.get(share.core, CoreShare(share.core, 0, 0, 0))
            tasks, tails = before.tasks + share.tasks, before.tails + share.tails
            own[share.core] = CoreShare(share.core, tasks, tails, before.outputs + share.outputs)
        return [own[core] for core in sorted(own)]
    layer, tile = plan.layer, plan.tile
    blocks = layer.bounds(tile.nc, plan.policy.batch == "apart")
    planes = blocks[:, 1] - blocks[:, 0]
    extents = [axis.cut(size).outputs for axis, size in zip(layer.axes, tile.spatial, strict=True)]
    outputs = planes
    for each in extents:
        outputs = np.multiply.outer(outputs, each)
    outputs = outputs.ravel()
    full = tile.nc * tile.d * tile.h * tile.w
    cores = min(plan.hardware.cores, len(outputs))
    found = []
    for core in range(cores):
        mine = outputs[core::cores]
        found.append(CoreShare(core, len(mine), int((mine < full).sum()), int(mine.sum())))
    return found
