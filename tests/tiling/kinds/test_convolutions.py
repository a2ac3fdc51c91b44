"""Transposed convolutions as layers, against PyTorch."""

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
    ("groups", "kernel", "stride", "padding", "extra"),
    [(1, 3, 2, 1, 1), (2, 4, 2, 1, 0), (6, 2, 3, 0, 2), (1, 3, 1, 1, 0)],
)
def test_transposed_convolutions_are_pytorchs(
    groups: int, kernel: int, stride: int, padding: int, extra: int, strategy: Any
) -> None:
    x, w, bias = seeded((2, 6, 7, 5), 1), seeded((6, 12 // groups, kernel, kernel), 2), seeded((12,), 3)
    plan = cenote.tiling.plan(
        "conv_transpose",
        input=x.shape,
        kernel=kernel,
        stride=stride,
        padding=padding,
        output_padding=extra,
        filters=12,
        groups=groups,
        bias=True,
        hardware=TINY,
        strategy=strategy,
    )
    y, counts = cenote.tiling.simulate(plan, x, [w, bias])
    pixels, weights, added = (torch.tensor(each) for each in (x, w, bias))
    right = torch.nn.functional.conv_transpose2d(pixels, weights, added, stride, padding, extra, groups)
    np.testing.assert_allclose(y, right.numpy(), rtol=1e-4, atol=1e-5)
    assert counts["cycles"] == plan.cycles


def test_outputs_that_no_input_reaches_hold_the_bias() -> None:
    plan = cenote.tiling.plan(
        "conv_transpose", input=(1, 1, 3), kernel=1, stride=4, filters=1, bias=True, hardware=TINY
    )
    y, _ = cenote.tiling.simulate(
        plan, np.ones((1, 1, 3), np.float32), [np.full((1, 1, 1), 2, np.float32), np.ones(1, np.float32)]
    )
    assert y.ravel().tolist() == [3, 1, 1, 1, 3, 1, 1, 1, 3]
