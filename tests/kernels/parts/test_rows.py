"""Products of matrices by float16 parts on tiles, emulated, beside float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cenote.core.target import EMULATED, Target, TileWays
from cenote.core.types import Array, TensorType
from cenote.kernels.elementwise.activations import Activation
from cenote.ops.linear.gemm import Gemm
from cenote.ops.linear.matmul import MatMul
from cenote.ops.values import seeded
from tests.harness import run_lowering
from tests.targets import TARGETS, target_name

EMULATING = tuple(replace(target, tiles=TileWays(f16=EMULATED)) for target in TARGETS)


def computed(
    op: Gemm | MatMul, a: Array, b: Array, bias: Array, residual: Array | None, target: Target
) -> Array:
    """The product with constant B and bias."""
    types = [TensorType.of(np.float32, a.shape), *map(TensorType.known, (b, bias))]
    inputs = [a, b, bias]
    if residual is not None:
        types.append(TensorType.of(np.float32, residual.shape))
        inputs.append(residual)
    (lowering,) = [each for each in op.lowerings(types, target) if each.name == "parts"]
    y, pieces = (run_lowering(op, lowering, inputs, target, chunk=chunk)[0] for chunk in (0, 1))
    np.testing.assert_array_equal(y, pieces)
    return y


@pytest.mark.parametrize("target", EMULATING, ids=target_name)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (70, 33, 37), (5, 96, 64), (300, 800, 20)])
def test_sums_are_as_accurate_as_those_of_float32(sizes: tuple[int, int, int], target: Target) -> None:
    """Of any scale, with an infinity; no column past the last is touched."""
    m, k, n = sizes
    b, bias, residual = seeded((k, n), 1), seeded((n,), 2), seeded((m, n), 3)
    op = MatMul(activation=Activation("relu"), residual=True, on_tiles=True)
    for scale in (1.0, 1e-20):
        a, added, shift = (each * np.float32(scale) for each in (seeded((m, k), 4), residual, bias))
        want = np.maximum(a.astype(np.float64) @ b + shift + added, 0)
        sizes_of_products = np.abs(a).astype(np.float64) @ np.abs(b) + np.abs(shift) + np.abs(added)
        y = computed(op, a, b, shift, added, target)
        assert (np.abs(y - want) <= 1e-6 * sizes_of_products).all()
    a[0, 0] = np.inf
    y = computed(replace(op, activation=Activation()), a, b, shift, added, target)
    np.testing.assert_array_equal(y[0], np.copysign(np.inf, b[0]))
    assert np.isfinite(y[1:]).all()


def test_transposed_constants() -> None:
    a, b, bias = seeded((21, 40), 1), seeded((50, 40), 2), seeded((50,), 3)
    y = computed(Gemm(transpose_b=True, on_tiles=True), a, b, bias, None, EMULATING[0])
    np.testing.assert_allclose(y, a.astype(np.float64) @ b.T + bias, rtol=0, atol=1e-5)
