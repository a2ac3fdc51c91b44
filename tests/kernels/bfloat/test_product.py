"""Products with operands rounded to bfloat16, in vectors and on tile registers, beside NumPy in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cenote.codegen.bfloat import rounded
from cenote.core.target import EMULATED, Target, TileWays
from cenote.core.types import Array
from cenote.kernels.elementwise.activations import Activation
from cenote.ops.base import Lowering
from cenote.ops.linear.gemm import Gemm
from cenote.ops.linear.matmul import MatMul
from cenote.ops.values import seeded
from tests.harness import lowerings_of, run_lowering
from tests.targets import TARGETS, over_targets, target_name

EMULATING = tuple(replace(target, bfloat=EMULATED, tiles=TileWays(bf16=EMULATED)) for target in TARGETS)
ALGORITHMS = ("panels_bfloat16", "tiles_bfloat16")
SIZES = [(2, 7, 5), (49, 64, 64), (5, 33, 21), (197, 130, 100), (8, 1000, 17), (3, 16, 16)]  # M, K, N


def in_bfloat(op: Gemm | MatMul, arrays: list[Array | None], target: Target, algorithm: str) -> Lowering:
    found = lowerings_of(op, arrays, target, constants=False)
    assert not any("bfloat16" in each.name for each in found)  # nothing is constant
    (lowering,) = (each for each in lowerings_of(op, arrays, target, True) if each.name == algorithm)
    return lowering


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("m", "k", "n", "target"), over_targets(SIZES, 2), ids=target_name)
def test_only_the_sums_are_inexact(m: int, k: int, n: int, target: Target, algorithm: str) -> None:
    tiles = target.tiles if target.tiles.bf16 else TileWays(bf16=EMULATED)
    target = replace(target, bfloat=target.bfloat or EMULATED, tiles=tiles)
    a, b, bias = seeded((m, k), 1), seeded((k, n), 2), seeded((n,), 3)
    exact, sizes = (f(rounded(a).astype(float)) @ f(rounded(b).astype(float)) for f in (np.asarray, np.abs))
    bound = 2.0**-24 * (4 + 2 * np.sqrt(k)) * (sizes + np.abs(bias))
    relu = Activation("relu")
    cases = [
        (MatMul(bfloat=True), [a, b], exact),
        (
            Gemm(transpose_b=True, bfloat=True, activation=relu),
            [a, b.T.copy(), bias],
            np.maximum(exact + bias, 0),
        ),
    ]
    for op, arrays, want in cases:
        lowering = in_bfloat(op, arrays, target, algorithm)
        (y,) = run_lowering(op, lowering, arrays, target, junk=0x5A)
        assert (np.abs(y - want) <= bound).all()
        (pieces,) = run_lowering(op, lowering, arrays, target, chunk=1)
        np.testing.assert_array_equal(pieces, y)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("target", EMULATING, ids=target_name)
def test_batches_of_rows_and_special_numbers(target: Target, algorithm: str) -> None:
    """Rows of all matrices are those of one; NaN and infinities stay in their rows; others are far from them."""
    a, b, bias = seeded((2, 3, 21), 1), seeded((21, 19), 2), seeded((19,), 3)
    a[0, 1, 20], a[1, 2, 0], b[:, 4] = np.nan, np.inf, 0
    op = MatMul(bfloat=True)
    lowering = in_bfloat(op, [a, b, bias], target, algorithm)
    (y,) = run_lowering(op, lowering, [a, b, bias], target)
    with np.errstate(invalid="ignore"):
        want = rounded(a).astype(float) @ rounded(b).astype(float) + bias
    np.testing.assert_array_equal(np.isnan(y), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(y), np.isinf(want))
    finite = np.isfinite(want)
    np.testing.assert_allclose(y[finite], want[finite], atol=1e-5)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("target", EMULATING, ids=target_name)
def test_a_residual_is_added(target: Target, algorithm: str) -> None:
    a, b, residual = seeded((6, 40), 1), seeded((40, 23), 2), seeded((6, 23), 3)
    op = MatMul(bfloat=True, residual=True)
    arrays = [a, b, None, residual]
    (y,) = run_lowering(op, in_bfloat(op, arrays, target, algorithm), arrays, target)
    np.testing.assert_allclose(y, rounded(a).astype(float) @ rounded(b).astype(float) + residual, atol=1e-5)
