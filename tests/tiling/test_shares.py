"""What each core executes: shares add up to the layer, and say which tiles are smaller."""

from __future__ import annotations

import random

import pytest

import cenote
from bench.tiling_layers import random_layer


@pytest.mark.parametrize("seed", range(12))
def test_shares_are_what_the_simulator_executes(seed: int) -> None:
    kind, given = random_layer(random.Random(seed), most=300)
    plan = cenote.tiling.plan(kind, **given, hardware="npu-small", strategy="search")
    passes = plan.passes if isinstance(plan, cenote.tiling.ReductionPlan) else (plan,)
    assert sum(share.tasks for share in cenote.tiling.shares_of(plan)) == plan.tasks
    for each in passes:
        _check(each)


def _check(plan: cenote.tiling.TilingPlan) -> None:
    shares = cenote.tiling.shares_of(plan)
    assert sum(share.outputs for share in shares) == plan.layer.cells
    assert sum(share.tasks for share in shares) == plan.tasks
    assert [share.core for share in shares] == list(range(min(plan.tasks, plan.hardware.cores)))
    assert max(share.tasks for share in shares) - min(share.tasks for share in shares) <= 1
    tile = plan.tile
    full = tile.nc * tile.d * tile.h * tile.w
    for share in shares:
        assert share.outputs == share.tasks * full if not share.tails else share.outputs < share.tasks * full


def test_tails_are_told() -> None:
    """Ten planes in tiles of nine on two cores: the second tile has one."""
    machine = {"base": "npu", "ub_bytes": 4096, "cores": 2}
    plan = cenote.tiling.plan("maxpool", input=(1, 10, 8, 8), kernel=2, hardware=machine, buffers=1)
    assert 5 < plan.tile.nc < 10
    shares = [share.to_dict() for share in cenote.tiling.shares_of(plan)]
    assert [share["tails"] for share in shares] == [0, 1]
    assert [share["outputs"] for share in shares] == [plan.tile.nc * 16, (10 - plan.tile.nc) * 16]
