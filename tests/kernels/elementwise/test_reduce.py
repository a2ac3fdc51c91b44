"""Accuracy of long reductions, and that their order does not depend on how work is handed out."""

from __future__ import annotations

import numpy as np
import pytest

from cenote.ops.reduction.reduce import ReduceL2, ReduceMean, ReduceSum, Reduction
from tests.contract.test_lowerings import same_bits
from tests.harness import lowerings_of, run_lowering
from tests.targets import TARGETS


@pytest.mark.parametrize("axes", [(0, 1), (0,), (1,)])
@pytest.mark.parametrize("op", [ReduceSum, ReduceMean])
def test_sixteen_million_elements(op: type[Reduction], axes: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).random((1 << 20, 16), np.float32)
    x = x if axes != (1,) else x.reshape(16, 1 << 20)
    made = op(axes)
    lowering = lowerings_of(made, (x,), TARGETS[0], True)[0]
    (whole,) = run_lowering(made, lowering, (x,), TARGETS[0])
    wanted = x.sum(axis=axes, keepdims=True, dtype=np.float64)
    wanted = wanted / (x.size / wanted.size) if op is ReduceMean else wanted
    assert float(np.abs(whole / wanted - 1).max()) <= 1e-7  # float32 alone is 6e-8
    (pieces,) = run_lowering(made, lowering, (x,), TARGETS[0], chunk=5)
    assert same_bits(whole, pieces)


def test_squares_beyond_float32_under_a_root() -> None:
    x = np.array([[3e30, 4e30], [3e-30, 4e-30]], np.float32)
    for target in TARGETS:
        for lowering in lowerings_of(ReduceL2((1,)), (x,), target, True):
            (y,) = run_lowering(ReduceL2((1,)), lowering, (x,), target)
            np.testing.assert_allclose(y[:, 0], [5e30, 5e-30], rtol=1e-6)
