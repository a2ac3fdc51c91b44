"""Pools in several passes: windows that do not fit into the buffer, and windows too few for the cores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cenote
from bench.tiling import data, difference, must_be_exact
from cenote.tiling import ReductionPlan

TINY = {"base": "npu", "ub_bytes": 4096, "cores": 3}
LARGE = {"input": (1, 2, 60, 70), "kernel": (50, 41), "stride": (3, 2), "padding": 20}


@pytest.mark.parametrize("strategy", ["three-stage", "search"])
@pytest.mark.parametrize(
    ("kind", "given", "machine"),
    [
        ("global_avgpool", {"input": (1, 3, 512, 512)}, "npu"),
        ("global_avgpool", {"input": (1, 3, 512, 512), "dtype": "float16", "fused": ("relu",)}, "npu"),
        ("global_maxpool", {"input": (1, 3, 512, 512), "dtype": "int8"}, "npu-small"),
        ("global_lppool", {"input": (1, 3, 512, 512), "p": 3.0}, "npu-small"),
        ("global_avgpool", {"input": (1, 2, 70001)}, "npu"),
        ("global_maxpool", {"input": (1, 2, 7001)}, TINY),
        ("global_lppool", {"input": (2, 2, 3, 7001)}, TINY),
        ("global_avgpool", {"input": (1, 2, 3, 4, 3001)}, TINY),
        ("maxpool", LARGE, TINY),
        ("minpool", {**LARGE, "dilation": 1, "ceil_mode": True}, TINY),
        ("avgpool", {**LARGE, "ceil_mode": True}, TINY),
        ("avgpool", {**LARGE, "count_include_pad": True}, TINY),
        ("avgpool", {**LARGE, "divisor_override": 7}, TINY),
        ("avgpool", {"input": (1, 2, 60, 70), "kernel": (40, 33), "auto_pad": "SAME_LOWER"}, TINY),
        ("adaptive_avgpool", {"input": (1, 2, 60, 70), "output": (1, 2)}, TINY),
        ("adaptive_maxpool", {"input": (1, 2, 60, 70), "output": (2, 1)}, TINY),
    ],
)
def test_windows_larger_than_the_buffer(
    kind: str, given: dict[str, Any], machine: Any, strategy: Any
) -> None:
    plan = cenote.tiling.plan(kind, **given, hardware=machine, strategy=strategy)
    assert isinstance(plan, ReductionPlan)
    assert plan.stage == "passes"
    assert plan.fits
    assert all(each.bytes <= plan.hardware.ub_bytes for each in plan.passes)
    assert plan.lower_bound <= plan.cycles == sum(each.cycles for each in plan.passes)
    x = data(plan, 1)
    y, counts = cenote.tiling.simulate(plan, x, timeline=True)
    right = cenote.tiling.reference(plan, x)
    assert (y.dtype, y.shape) == (right.dtype, right.shape)
    limit = 1e-3 if y.dtype == np.float16 else 1e-6
    assert difference(y, right, must_be_exact(plan)) <= limit
    for name in ("cycles", "bytes_in", "bytes_out", "bursts", "tasks"):
        assert counts[name] == plan.to_dict()[name], name
    assert max(event.end for event in counts["events"]) == counts["cycles"]


def test_nan_and_infinity_go_through_all_passes() -> None:
    x = np.zeros((1, 3, 60, 70), np.float32)
    x[0, 0, 59, 69], x[0, 1, 0, 0] = np.nan, np.inf
    for kind in ("global_maxpool", "global_avgpool", "global_lppool"):
        plan = cenote.tiling.plan(kind, input=x.shape, hardware=TINY)
        assert isinstance(plan, ReductionPlan)
        y, _ = cenote.tiling.simulate(plan, x)
        assert np.isnan(y.ravel()[0])
        assert y.ravel()[1:].tolist() == [np.inf, 0.0]


def test_the_search_takes_passes_where_cores_would_be_idle() -> None:
    """One window a plane occupies 3 of 48 cores."""
    layer: dict[str, Any] = {"input": (1, 3, 128, 128), "hardware": "npu"}
    three = cenote.tiling.plan("global_avgpool", **layer)
    best = cenote.tiling.plan("global_avgpool", **layer, strategy="search")
    assert (three.stage, best.stage) == ("nc", "passes")
    assert best.cycles < three.cycles / 8
    assert best.trace[0].startswith("several passes: one pass takes")


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("maxpool", {**LARGE, "indices": "int64"}),
        ("avgpool", {**LARGE, "dtype": "int8"}),
        ("maxpool", {"input": (1, 1, 3000), "kernel": 2000, "stride": 7}),
        ("conv", {"input": (1, 1, 60, 70), "kernel": (50, 41)}),
    ],
)
def test_what_cannot_be_split_says_what_it_needs(kind: str, given: dict[str, Any]) -> None:
    with pytest.raises(cenote.CapacityError, match=r"the tile of one output needs [\d,]+ bytes"):
        cenote.tiling.plan(kind, **given, hardware=TINY)


def test_programs_are_emitted_of_each_pass() -> None:
    plan = cenote.tiling.plan("global_avgpool", input=(1, 3, 512, 512))
    assert isinstance(plan, ReductionPlan)
    with pytest.raises(cenote.UnsupportedError, match="2 passes, a program each"):
        cenote.tiling.emit_c(plan)
    assert all("TILES_BUFFER" in cenote.tiling.emit_c(each) for each in plan.passes)


def test_a_model_has_a_row_for_each_pass(tmp_path: Any) -> None:
    from onnx import helper

    ends = [helper.make_tensor_value_info(n, 1, s) for n, s in (("x", (1, 3, 512, 512)), ("y", (1, 3, 1, 1)))]
    node = helper.make_node("GlobalAveragePool", ["x"], ["y"], "mean")
    graph = helper.make_graph([node], "means", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    found = cenote.tiling.plan_model(model)
    assert [plan.layer.title for plan in found.plans] == ["mean, pass 1 of 2", "mean, pass 2 of 2"]
    assert found.others == 0
    assert "mean, pass 2 of 2" in cenote.tiling.page(found)
