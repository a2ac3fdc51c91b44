"""The search: its bounds hold for every tile, it finds the best of all tiles, and more room is never worse."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import numpy as np
import pytest

import cenote
from bench.tiling import MACHINES, SETTINGS, every_tile
from bench.tiling_layers import newer_layer, random_layer
from cenote.tiling import ReductionPlan, TilingPlan, search
from cenote.tiling.bounds import fitting, least_cycles
from cenote.tiling.layer import Tile
from cenote.tiling.search import SearchSpace

SMALL = {"base": "npu", "ub_bytes": 2048, "cores": 3}
LAYERS: list[tuple[str, dict[str, Any]]] = [
    ("maxpool", {"input": (1, 6, 9, 11), "kernel": 3, "stride": 2, "padding": 1}),
    ("avgpool", {"input": (2, 5, 8, 7), "kernel": 2}),
    ("maxpool", {"input": (1, 3, 5, 6, 5), "kernel": 3, "stride": 1, "padding": 1, "indices": "int64"}),
    ("adaptive_avgpool", {"input": (1, 7, 13, 9), "output": (5, 4)}),
    ("conv", {"input": (1, 4, 7, 7), "kernel": 3, "padding": 1, "filters": 6, "groups": 2}),
    ("conv", {"input": (2, 5, 6, 6), "kernel": 3, "filters": 3, "bias": True}),
    ("maxpool_backward", {"input": (1, 6, 9, 11), "kernel": 3, "stride": 2, "padding": 1}),
    ("avgpool_backward", {"input": (2, 5, 8, 7), "kernel": 2}),
    (
        "conv_transpose",
        {"input": (1, 4, 4, 4), "kernel": 3, "stride": 2, "filters": 6, "groups": 2, "bias": True},
    ),
    ("conv_transpose", {"input": (2, 6, 3, 4), "kernel": 2, "stride": 3, "filters": 5}),
    ("matmul", {"input": (9, 14), "other": (14, 20)}),
    ("matmul", {"input": (3, 5, 6), "other": (3, 6, 7)}),
    ("layer_norm", {"input": (3, 5, 40)}),
]


def searched(kind: str, given: dict[str, Any], machine: Any, **policy: Any) -> TilingPlan:
    return cenote.tiling.plan(kind, **given, hardware=machine, strategy="search", **policy)


@pytest.mark.parametrize("machine", [SMALL, {**SMALL, "double_buffering": False}, "npu-small"], ids=str)
@pytest.mark.parametrize(("kind", "given"), LAYERS)
def test_no_tile_is_better_than_what_the_search_finds(kind: str, given: dict[str, Any], machine: Any) -> None:
    """Every tile by itself, with the exact cost of its plan."""
    plan = searched(kind, given, machine)
    conv = plan.layer.conv
    channels = [conv.group_channels if conv else 0]
    while channels[-1] > 1:
        channels.append(-(-channels[-1] // 2))
    ranges = [range(1, axis.out + 1) for axis in plan.layer.axes]
    best = None
    for nc, d, h, w, c in product(range(1, plan.layer.most_planes + 1), *ranges, channels):
        if conv and c < conv.group_channels and nc > conv.group_filters:
            continue
        tile = Tile(nc, d, h, w, c)
        if plan.problem.fits(tile):
            cycles = plan.problem.cost(tile).cycles
            best = cycles if best is None else min(best, cycles)
    if isinstance(plan, ReductionPlan):
        assert best is None or plan.cycles < best
        return
    assert plan.cycles == best == plan.lower_bound
    assert plan.is_optimal


@pytest.mark.parametrize("seed", range(8))
def test_no_tile_of_a_larger_layer_is_better(seed: int) -> None:
    chance = random.Random(seed)
    while True:
        kind, given = random_layer(chance, most=500)
        machine = chance.choice(MACHINES)
        plan = searched(kind, given, machine)
        if 2000 < SearchSpace(plan.problem).count < 40_000:
            break
    best = min(int(plan.problem.cycles(tiles).min()) for tiles in every_tile(plan.problem))
    if isinstance(plan, ReductionPlan):
        assert plan.cycles < best
        return
    assert plan.cycles == best
    assert plan.is_optimal


@pytest.mark.parametrize("make", [random_layer, newer_layer])
@pytest.mark.parametrize("seed", range(30))
def test_bounds_hold(seed: int, make: Any) -> None:
    """Of tiles at random: bounds are not above the exact cycles, those of groups not above those of members; `fitting`
    says what the footprint does."""
    chance = random.Random(1000 + seed)
    kind, given = make(chance, most=300)
    machine = chance.choice([*MACHINES, {**SMALL, "ub_bytes": 1 << 16}])
    plan = searched(kind, given, machine, **chance.choice(SETTINGS))
    space = SearchSpace(plan.problem)
    tables = [space.planes, *space.axes]
    picks = [np.array([chance.randrange(len(table.size)) for _ in range(60)]) for table in tables]
    planes, deep, high, wide = (table.at(where) for table, where in zip(tables, picks, strict=True))
    bounds = least_cycles(plan.problem, planes, (deep, high, wide))
    fits = fitting(plan.problem, planes, (deep, high, wide))
    groups, of_groups = space.groups(float("inf"))
    known = {tuple(column): bound for column, bound in zip(groups.T.tolist(), of_groups, strict=True)}
    numbers = [
        np.searchsorted(starts, where, side="right") - 1
        for starts, where in zip(space.starts, picks, strict=True)
    ]
    for place in range(60):
        sizes = (int(axis.size[place]) for axis in (planes, deep, high, wide))
        tile = Tile(*sizes, channels=int(planes.channels[place]))
        assert plan.problem.fits(tile) == fits[place]
        assert bounds[place] <= plan.problem.cost(tile).cycles
        if fits[place]:
            assert known[tuple(int(number[place]) for number in numbers)] <= bounds[place]


@pytest.mark.parametrize("seed", range(55))
def test_more_room_is_never_worse(seed: int) -> None:
    chance = random.Random(2000 + seed)
    kind, given = random_layer(chance, most=400)
    base = chance.choice(("npu", "npu-small", "host"))
    cycles = []
    for size in (512, 1 << 10, 1 << 12, 3 << 12, 1 << 14, 1 << 16, 1 << 18):
        try:
            cycles.append(searched(kind, given, {"base": base, "ub_bytes": size, "cores": 5}).cycles)
        except cenote.CapacityError:
            assert not cycles, "fits into less, but not into more"
    assert cycles == sorted(cycles, reverse=True)
    assert cycles


def test_the_search_is_never_worse_than_the_three_stages() -> None:
    for kind, given in LAYERS:
        three = cenote.tiling.plan(kind, **given, hardware=SMALL)
        assert searched(kind, given, SMALL).cycles <= three.cycles


def test_what_is_too_large_to_prove_says_how_far_the_bound_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more tiles than are searched to the end a small gap is enough, and the plan does not claim a proof."""
    monkeypatch.setattr(search, "EXHAUSTIVE", 10)
    monkeypatch.setattr(search, "EFFORT", 0)
    plan = searched("conv", {"input": (1, 64, 30, 30), "kernel": 3, "padding": 1}, "npu")
    assert plan.cycles <= plan.lower_bound * (1 + search.TOLERANCE)
    assert not plan.is_optimal
    assert "no proof" in plan.trace[-1]
