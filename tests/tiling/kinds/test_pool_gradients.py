"""Gradients of pools as layers: what tiles read, aligned cuts, and results against PyTorch's gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cenote
from cenote.ops.values import seeded

torch = pytest.importorskip("torch")

TINY = {"base": "npu", "ub_bytes": 4096, "cores": 3}


@pytest.mark.parametrize("strategy", ["three-stage", "search"])
@pytest.mark.parametrize(
    ("kind", "given", "forward"),
    [
        (
            "maxpool_backward",
            {"kernel": 3, "stride": 2, "padding": 1},
            lambda x: torch.nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True),
        ),
        (
            "maxpool_backward",
            {"kernel": 2, "stride": 3, "dilation": 2},
            lambda x: torch.nn.functional.max_pool2d(x, 2, 3, 0, 2, return_indices=True),
        ),
        (
            "avgpool_backward",
            {"kernel": 3, "stride": 2, "padding": 1, "ceil_mode": True},
            lambda x: (torch.nn.functional.avg_pool2d(x, 3, 2, 1, True, count_include_pad=False),),
        ),
        (
            "adaptive_maxpool_backward",
            {"output": (4, 7)},
            lambda x: torch.nn.functional.adaptive_max_pool2d(x, (4, 7), return_indices=True),
        ),
        (
            "adaptive_avgpool_backward",
            {"output": (4, 7)},
            lambda x: (torch.nn.functional.adaptive_avg_pool2d(x, (4, 7)),),
        ),
        ("global_avgpool_backward", {}, lambda x: (torch.nn.functional.adaptive_avg_pool2d(x, 1),)),
    ],
)
def test_tiles_compute_the_gradient_that_pytorch_computes(
    kind: str, given: dict[str, Any], forward: Any, strategy: Any
) -> None:
    x = torch.tensor(seeded((2, 5, 21, 18), 1), requires_grad=True)
    y, *places = forward(x)
    grad = seeded(tuple(y.shape), 2)
    (y * torch.tensor(grad)).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    plan = cenote.tiling.plan(kind, input=x.shape, **given, hardware=TINY, strategy=strategy)
    assert plan.tasks > 3
    found, counts = cenote.tiling.simulate(plan, grad, [each.numpy() for each in places])
    np.testing.assert_allclose(found, x.grad.numpy(), rtol=1e-5, atol=1e-6)
    assert counts["cycles"] == plan.cycles


def test_an_aligned_cut_has_whole_windows() -> None:
    """Windows of 2 side by side: k strides of the gradient read k windows, and none is read twice."""
    layer: dict[str, Any] = {"input": (8, 64, 112, 112), "kernel": 2, "hardware": "npu-small"}
    plan = cenote.tiling.plan("avgpool_backward", **layer)
    assert plan.stage == "aligned-h"
    assert plan.tile.h % 2 == 0
    assert plan.cost.bytes_in == 8 * 64 * 56 * 56 * 4
    overlapping = cenote.tiling.plan("avgpool_backward", **{**layer, "kernel": 3, "stride": 2})
    assert overlapping.stage == "unaligned"
    assert overlapping.cost.bytes_in > 8 * 64 * 55 * 55 * 4


def test_the_gradient_of_a_maximum_reads_indices_too() -> None:
    layer: dict[str, Any] = {"input": (1, 4, 16, 16), "kernel": 2}
    wide = cenote.tiling.plan("maxpool_backward", **layer)
    narrow = cenote.tiling.plan("maxpool_backward", **layer, indices="int32")
    assert wide.cost.bytes_in == 4 * 8 * 8 * (4 + 8)
    assert narrow.cost.bytes_in == 4 * 8 * 8 * (4 + 4)


def test_places_that_no_window_reaches_are_zero() -> None:
    plan = cenote.tiling.plan("avgpool_backward", input=(1, 1, 11, 11), kernel=2, stride=4, hardware=TINY)
    y, _ = cenote.tiling.simulate(plan, np.ones((1, 1, 3, 3), np.float32))
    expected = np.zeros(11)
    expected[[0, 1, 4, 5, 8, 9]] = 1
    assert np.array_equal(y[0, 0] * 4, np.outer(expected, expected))


@pytest.mark.parametrize("kind", ["lppool_backward", "global_maxpool_backward"])
def test_gradients_that_are_not_planned_are_not_known(kind: str) -> None:
    with pytest.raises(cenote.ArgumentError, match="is not known"):
        cenote.tiling.plan(kind, input=(1, 1, 8, 8))
