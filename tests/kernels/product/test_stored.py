"""Products with weights in few bits: every type, remainders of rows, columns, blocks and depth, against float64."""

from __future__ import annotations

import numpy as np
import pytest

from cenote.core.target import Target
from cenote.core.types import Array, dtype_named
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.product.stored import arranged
from cenote.ops.linear.stored_linear import StoredLinear
from tests.harness import lowerings_of, run_lowering
from tests.targets import TARGETS, over_targets, target_name

CASES = [
    # rows, columns, depth, type, block
    (1, 1, 1, "int8", 32), (1, 150, 96, "int4", 32), (2, 33, 71, "int8", 64), (3, 18, 64, "int4", 64),
    (4, 70, 200, "int8", 32), (5, 16, 129, "int4", 32), (9, 5, 31, "int4", 64), (1, 600, 40, "int8", 64),
    (1, 37, 130, "float16", 0), (2, 100, 65, "bfloat16", 0), (7, 12, 9, "float16", 0), (1, 9, 64, "bfloat16", 0),
]  # fmt: skip


def weights_of(n: int, k: int, stored: str, block: int) -> tuple[Array, Array | None, Array]:
    """Weights, scales, and the numbers that they stand for in float64."""
    random = np.random.default_rng(n + k)
    if not block:
        weights = random.standard_normal((n, k)).astype(dtype_named(stored))
        return weights, None, weights.astype(np.float32).astype(np.float64)
    half = {"int4": 8, "int8": 128}[stored]
    numbers = random.integers(-half, half, (n, k))
    scales = (random.random((n, -(-k // block))) / half).astype(np.float32)
    exact = np.array([[numbers[i, j] * float(scales[i, j // block]) for j in range(k)] for i in range(n)])
    return numbers.astype(np.int8).astype(dtype_named(stored)), scales, exact


def answers(op: StoredLinear, arrays: list[Array | None], target: Target) -> Array:
    """The kernel's result, the same bits between two kinds of junk and however items are shared."""
    (lowering,) = lowerings_of(op, arrays, target, constants=True)
    (y,) = run_lowering(op, lowering, arrays, target, constants=True)
    (again,) = run_lowering(op, lowering, arrays, target, constants=True, chunk=1, junk=0x5A)
    np.testing.assert_array_equal(y, again)
    return y


@pytest.mark.parametrize(("m", "n", "k", "stored", "block", "target"), over_targets(CASES), ids=target_name)
def test_against_float64(m: int, n: int, k: int, stored: str, block: int, target: Target) -> None:
    weights, scales, exact = weights_of(n, k, stored, block)
    x, bias = np.random.default_rng(m).standard_normal((2, m, max(n, k))).astype(np.float32)
    x, bias = np.ascontiguousarray(x[:, :k]), bias[0, :n].copy()
    wanted = np.maximum(x.astype(np.float64) @ exact.T + bias, 0)
    y = answers(StoredLinear(block, Activation("relu")), [x, weights, scales, bias], target)
    np.testing.assert_allclose(y, wanted, rtol=0, atol=2e-6 * max(1.0, np.abs(exact).max() * k**0.5))
    plain = answers(StoredLinear(block), [x, weights, scales], target)
    np.testing.assert_allclose(plain, x.astype(np.float64) @ exact.T, rtol=0, atol=2e-6 * max(1.0, k**0.5))


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize(("stored", "block"), [("int4", 32), ("int8", 64), ("bfloat16", 0)])
def test_a_row_has_the_same_bits_beside_others(stored: str, block: int, target: Target) -> None:
    weights, scales, _ = weights_of(40, 100, stored, block)
    x = np.random.default_rng(5).standard_normal((6, 100)).astype(np.float32)
    together = answers(StoredLinear(block), [x, weights, scales], target)
    alone = [answers(StoredLinear(block), [row[None], weights, scales], target)[0] for row in x[:2]]
    np.testing.assert_array_equal(together[:2], alone)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_nan_and_infinity_stay_in_their_row(target: Target) -> None:
    weights, scales, exact = weights_of(20, 75, "int4", 32)
    x = np.ones((2, 75), np.float32)
    x[0, 74], x[1, 3] = np.inf, np.nan
    y = answers(StoredLinear(32), [x, weights, scales], target)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(y[0], x[0].astype(np.float64) @ exact.T)
    assert np.isnan(y[1]).all()


def test_four_bits_take_half_a_byte() -> None:
    weights = weights_of(64, 96, "int4", 32)[0]
    assert arranged(weights, 64).nbytes == 64 * 96 // 2
