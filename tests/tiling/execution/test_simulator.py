"""Plans are executed: random layers, and plans that are wrong on purpose; errors of bad input."""

from __future__ import annotations

import copy
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import cenote
from bench.tiling import MACHINES, data, difference, limit_of, must_be_exact
from bench.tiling_layers import newer_layer, random_layer
from cenote.core.types import TensorType
from cenote.ops.base import Box
from cenote.ops.conv.conv import Conv
from cenote.ops.movement.transpose import Transpose
from cenote.ops.pool.average import AveragePool
from cenote.ops.pool.window import MaxPool
from cenote.ops.values import seeded
from cenote.tiling import PlanError, TilingPlan

SMALL = {"base": "npu", "ub_bytes": 2048, "cores": 3}


@pytest.mark.parametrize("make", [random_layer, newer_layer])
@pytest.mark.parametrize("seed", range(24))
def test_random_layers_compute_what_the_operator_does(seed: int, make: Any) -> None:
    kind, given = make(random.Random(seed), most=300)
    for machine in (*MACHINES, SMALL):
        for strategy in ("three-stage", "search"):
            try:
                plan = cenote.tiling.plan(kind, **given, hardware=machine, strategy=strategy)  # type: ignore[arg-type]
            except cenote.CapacityError:
                assert machine is SMALL
                continue
            assert plan.fits
            if plan.tasks > 600:
                continue
            x = data(plan, seed)
            values, counts = cenote.tiling.simulate(plan, x)
            gap = difference(values, cenote.tiling.reference(plan, x), must_be_exact(plan))
            assert gap <= limit_of(plan)
            for name in ("cycles", "bytes_in", "bytes_out", "bursts", "tasks"):
                assert counts[name] == plan.to_dict().get(name), name


def pooled(**fields: Any) -> TilingPlan:
    return cenote.tiling.plan(
        "maxpool", input=(1, 4, 8, 8), kernel=3, stride=1, padding=1, hardware=SMALL, **fields
    )


def test_a_tile_that_is_too_large_overflows() -> None:
    plan = pooled()
    wrong = replace(plan, tile=replace(plan.tile, nc=4, h=8, w=8))
    assert not wrong.fits
    with pytest.raises(PlanError, match="the buffer has"):
        cenote.tiling.simulate(wrong, seeded((1, 4, 8, 8)))


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [(0, -1, "is needed, but"), (1, 0, "is needed, but"), (0, 1, "overflow|shape|larger|exceed")],
)
def test_a_planner_that_reads_the_wrong_rows_is_found(low: int, high: int, message: str) -> None:
    """Tiles that load a row too few are read outside of what they loaded; with a row too many they overflow."""
    plan = pooled()
    axis = plan.layer.axes[1]
    wrong = replace(plan.layer, axes=(plan.layer.axes[0], _shifted(axis, low, high), plan.layer.axes[2]))
    problem = replace(plan.problem, layer=wrong)
    with pytest.raises((PlanError, ValueError), match=message):
        cenote.tiling.simulate(replace(plan, problem=problem), seeded((1, 4, 8, 8)))


def _shifted(axis: Any, low: int, high: int) -> Any:
    made = copy.copy(axis)
    made.low, made.high = axis.low + low, axis.high + high
    return made


def test_cells_that_are_never_or_twice_written_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = pooled()
    whole = type(plan.layer).bounds
    monkeypatch.setattr(type(plan.layer), "bounds", lambda self, nc, apart=False: whole(self, nc, apart)[:-1])
    with pytest.raises(PlanError, match="never written"):
        cenote.tiling.simulate(plan, seeded((1, 4, 8, 8)))
    monkeypatch.setattr(
        type(plan.layer), "bounds", lambda self, nc, apart=False: np.tile(whole(self, nc, apart), (2, 1))
    )
    with pytest.raises(PlanError, match="more than once"):
        cenote.tiling.simulate(plan, seeded((1, 4, 8, 8)))


def test_parts_of_operators_compute_their_box() -> None:
    x = seeded((1, 4, 11, 9))
    for op in (
        MaxPool((3, 2), (2, 2), ((1, 1), (1, 0)), ceil_mode=True),
        AveragePool((3, 3), (2, 2), ((1, 1), (1, 1)), ceil_mode=True, count_include_pad=True),
        AveragePool((3, 3), (2, 2), auto_pad="SAME_LOWER"),
    ):
        types = (TensorType.of(x.dtype, x.shape),)
        (y,) = op.reference(x)
        for first, stop in ((0, 2), (1, y.shape[2]), (2, 3)):
            box = Box(((0, 1), (1, 3), (first, stop), (0, y.shape[3])))
            (region,) = op.region(box, types)
            assert region is not None
            here = x[tuple(slice(*bounds) for bounds in region.ranges)]
            (part,) = op.part(box, types).reference(here)
            assert np.array_equal(part, y[:, 1:3, first:stop])


def test_filters_of_a_part_are_of_whole_groups_or_one() -> None:
    op = Conv(groups=2)
    types = (TensorType.of(np.float32, (1, 4, 5, 5)), TensorType.of(np.float32, (6, 2, 3, 3)))
    assert op.part(Box(((0, 1), (0, 2), (0, 3), (0, 3))), types) == replace(
        op, groups=1, pads=((0, 0), (0, 0))
    )
    with pytest.raises(cenote.ArgumentError, match="not all whole"):
        op.part(Box(((0, 1), (2, 4), (0, 3), (0, 3))), types)
    with pytest.raises(cenote.UnsupportedError, match="in parts"):
        Transpose((1, 0)).part(Box(()), ())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"input": (0, 4, 8, 8)}, "input must have extents of 1 or more"),
        ({"input": (1, -4, 8, 8)}, "input must have extents of 1 or more"),
        ({"input": (8, 8)}, "input must be"),
        ({"kernel": 0}, "kernel_size"),
        ({"kernel": 11}, "kernel_size 11"),
        ({"stride": 0}, "stride"),
        ({"padding": 5}, "padding"),
        ({"dtype": "floaty"}, "dtype"),
        ({"indices": "int8"}, "indices"),
        ({"filters": 3}, "filters means nothing to maxpool"),
        ({"strategy": "best"}, "strategy"),
        ({"bufers": 1}, "bufers is not known"),
        ({"buffers": 3}, "buffers must be 1, 2 or None"),
        ({"hardware": "tpu"}, "'tpu' is not known"),
        ({"hardware": "missing.json"}, "there is no file"),
        ({"hardware": {"cores": 4}}, "field ub_bytes, .* is missing"),
        ({"hardware": {"base": "npu", "cores": 0}}, "field cores must be a whole number from 1"),
        ({"hardware": {"base": "npu", "cores": 1.5}}, "field cores"),
        ({"hardware": {"base": "npu", "clock_ghz": float("nan")}}, "field clock_ghz"),
        ({"hardware": {"base": "npu", "block_bytes": 12}}, "block_bytes must be a multiple of 8"),
        ({"hardware": {"base": "npu", "cache": 1}}, "field cache is not known"),
        ({"hardware": {"base": "npu", "ub_bytes": 64}}, "one output needs 256 bytes.*has 64"),
    ],
)
def test_errors_name_the_field(given: dict[str, Any], message: str) -> None:
    layer: dict[str, Any] = {"input": (1, 4, 8, 8), "kernel": 3, "stride": 1, "padding": 1, **given}
    with pytest.raises(cenote.CenoteError, match=message):
        cenote.tiling.plan("maxpool", **layer)


def test_a_hardware_file_of_the_users_own(tmp_path: Any) -> None:
    path = tmp_path / "mine.json"
    path.write_text('{"base": "npu", "name": "mine", "cores": 2}', encoding="utf-8")
    assert cenote.tiling.hardware_of(str(path)).cores == 2
    path.write_text("[1]", encoding="utf-8")
    with pytest.raises(cenote.ArgumentError, match="must hold an object"):
        cenote.tiling.hardware_of(str(path))
    path.write_text("{", encoding="utf-8")
    with pytest.raises(cenote.ArgumentError, match="cannot read"):
        cenote.tiling.hardware_of(str(path))
