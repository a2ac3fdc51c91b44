"""Windowed pools, run and compared with the naive loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from cenote.codegen import jit
from cenote.core.target import Target
from cenote.core.types import Array
from cenote.kernels.pool.problem import Geometry
from tests.kernels.pool_oracle import geometry, pooled, run_pool

HOST = jit.host_target()
NO_PADS = ((0, 0),) * 3


def noise(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0) -> Array:
    generator = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        return generator.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return generator.standard_normal(shape).astype(dtype)


def check(x: Array, g: Geometry, reduction: str, target: Target = HOST, **options: Any) -> Array:
    y = run_pool(x, g, reduction, target, **options)
    want = pooled(x, g, reduction, options.get("nan", "propagate"))
    if reduction == "sum":
        # The largest sum of absolute values bounds the error of any order of summation.
        bound = 1e-6 * pooled(np.abs(x), g, "sum").max()
        np.testing.assert_allclose(y.astype(np.float64), want, rtol=1e-6, atol=bound)
    else:
        np.testing.assert_array_equal(y.astype(np.float64), want)
    return y


def square(k: int, pad: int, stride: int, height: int, width: int) -> Geometry:
    pads = ((0, 0), (pad, pad), (pad, pad))
    return geometry((1, height, width), (1, k, k), (1, stride, stride), (1, 1, 1), pads)
