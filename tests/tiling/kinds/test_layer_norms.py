"""Layer normalisations as layers: rows are read whole, scale and bias a tile's part at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cenote
from cenote.ops.values import seeded

torch = pytest.importorskip("torch")

TINY = {"base": "npu", "ub_bytes": 4096, "cores": 3}


@pytest.mark.parametrize("strategy", ["three-stage", "search"])
@pytest.mark.parametrize(("shape", "axis"), [((7, 90), -1), ((3, 5, 6, 8), 2), ((1, 250), 1)])
def test_rows_are_normalised_as_pytorch_does(shape: tuple[int, ...], axis: int, strategy: Any) -> None:
    x, scale, bias = seeded(shape, 1), seeded(shape[axis:], 2), seeded(shape[axis:], 3)
    plan = cenote.tiling.plan("layer_norm", input=shape, axis=axis, hardware=TINY, strategy=strategy)
    y, counts = cenote.tiling.simulate(plan, x, [scale, bias])
    norm = torch.nn.functional.layer_norm
    right = norm(torch.tensor(x), shape[axis:], torch.tensor(scale), torch.tensor(bias))
    np.testing.assert_allclose(y, right.numpy(), rtol=1e-4, atol=1e-5)
    assert counts["bytes_in"] == plan.cost.bytes_in


def test_a_row_larger_than_its_outputs_is_read_again_for_each_part() -> None:
    plan = cenote.tiling.plan("layer_norm", input=(1, 400), hardware=TINY)
    assert plan.tile.w < 400
    whole = cenote.tiling.plan(
        "layer_norm", input=(1, 400), hardware={**TINY, "cores": 1, "ub_bytes": 1 << 16}
    )
    assert whole.tile.w == 400
    assert plan.cost.bytes_in > whole.cost.bytes_in == 3 * 400 * 4


@pytest.mark.parametrize("axis", [0, 2, -2, 1.5])
def test_axes_are_checked(axis: Any) -> None:
    with pytest.raises(cenote.ArgumentError, match="axis"):
        cenote.tiling.plan("layer_norm", input=(3, 4), axis=axis)


def test_a_row_that_does_not_fit_is_refused_with_its_bytes() -> None:
    with pytest.raises(cenote.CapacityError, match=r"input 40,000"):
        cenote.tiling.plan("layer_norm", input=(2, 10_000), hardware=TINY)
