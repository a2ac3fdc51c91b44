"""Products of one row and a matrix: of any size, the same bits with and without prefetches."""

from __future__ import annotations

import numpy as np
import pytest

from cenote.core.target import Target
from cenote.kernels.product import calls
from cenote.ops.linear.matmul import MatMul
from tests.contract.comparison import same_bits
from tests.harness import lowerings_of, run_lowering
from tests.targets import TARGETS


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_matrices_of_any_size(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    for depth, columns in ((1, 1), (8, 16), (9, 70), (300, 1030)):
        a, b = rng.standard_normal((1, depth)), rng.standard_normal((depth, columns))
        given = (a.astype(np.float32), b.astype(np.float32))
        wanted = given[0].astype(np.float64) @ given[1].astype(np.float64)
        found = []
        for least in (0, calls.PREFETCHED_FROM):
            monkeypatch.setattr(calls, "PREFETCHED_FROM", least)
            lowering = lowerings_of(MatMul(), given, target, True)[0]
            found += run_lowering(MatMul(), lowering, given, target, chunk=1, junk=0x5A)
            assert np.abs(found[-1] - wanted).max() <= 1e-5 * depth**0.5 * max(1, np.abs(wanted).max())
        assert same_bits(*found)
