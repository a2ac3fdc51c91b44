"""Products of one row, or a few, and a matrix: of any size, in any number of pieces."""

from __future__ import annotations

import numpy as np
import pytest

from cenote import functional
from cenote.core.target import Target
from cenote.kernels.product import calls
from cenote.ops.linear.matmul import MatMul
from cenote.verification.contract.comparison import same_bits
from tests.harness import lowerings_of, run_lowering
from tests.targets import TARGETS


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_matrices_of_any_size(target: Target) -> None:
    """Neighbouring items are computed together, which changes no bit."""
    rng = np.random.default_rng(0)
    for depth, columns in ((1, 1), (8, 16), (9, 70), (300, 1030), (20, 9000)):
        a, b = rng.standard_normal((1, depth)), rng.standard_normal((depth, columns))
        given = (a.astype(np.float32), b.astype(np.float32))
        wanted = given[0].astype(np.float64) @ given[1].astype(np.float64)
        found = []
        for items in (1, 2, 3, 100):
            lowering = lowerings_of(MatMul(), given, target, True)[0]
            found += run_lowering(MatMul(), lowering, given, target, chunk=items, junk=0x5A)
            assert np.abs(found[-1] - wanted).max() <= 1e-5 * depth**0.5 * max(1, np.abs(wanted).max())
        assert all(same_bits(each, found[0]) for each in found)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_few_rows(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """As are multiplied by matrices beyond the caches: a row has the bits that it has alone."""
    monkeypatch.setattr(calls, "FARTHEST", 0)
    rng = np.random.default_rng(0)
    for rows, depth, columns in ((2, 8, 16), (3, 9, 70), (5, 300, 1030), (8, 700, 33)):
        a = rng.standard_normal((2, rows, depth)).astype(np.float32)
        b = rng.standard_normal((2, depth, columns)).astype(np.float32)
        bias = rng.standard_normal(columns).astype(np.float32)
        for op, given in ((MatMul(), (a, b)), (MatMul(alpha=0.5), (a, b, bias))):
            (lowering,) = lowerings_of(op, given, target, True)
            # Three items are of both pairs.
            (found,) = run_lowering(op, lowering, given, target, chunk=3, junk=0x5A)
            (wanted,) = op.compute(*(x.astype(np.float64) for x in given), *[None] * (4 - len(given)))
            assert np.abs(found - wanted).max() <= 1e-5 * depth**0.5 * max(1, np.abs(wanted).max())
            alone = [np.ascontiguousarray(a[:, :1]), *given[1:]]
            (first,) = run_lowering(
                op, lowerings_of(op, alone, target, True)[0], alone, target, chunk=1, junk=0x5A
            )
            assert same_bits(np.ascontiguousarray(found[:, :1]), first)


@pytest.mark.parametrize("columns", [5, 16, 64, 4096])
def test_matrices_that_begin_anywhere(columns: int) -> None:
    """Where a matrix lies changes no bit, and an infinity stays in its sums."""
    rng, depth = np.random.default_rng(1), 20
    a, b = rng.random((1, depth), np.float32), rng.random((depth, columns), np.float32)
    for first in (0.5, np.inf):
        a[0, 0] = first
        found = []
        for begin in range(0, 68, 4):
            memory = np.full(4 * b.size + 256, 0xFF, np.uint8)  # NaNs
            start = -memory.ctypes.data % 64 + begin
            place = memory[start : start + 4 * b.size].view(np.float32).reshape(b.shape)
            place[...] = b
            found.append(functional.matmul(a, place, threads=1))
            assert same_bits(found[-1], found[0])
        np.testing.assert_allclose(found[0], a.astype(np.float64) @ b, rtol=1e-5)
