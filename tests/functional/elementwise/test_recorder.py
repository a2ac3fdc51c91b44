"""Functions recorded as one kernel: the bits of their parts, types as PyTorch's, and what cannot be recorded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import ArgumentError, DTypeError, InputError, ShapeError
from cenote.core.types import BFLOAT16, Array
from cenote.ops.values import hostile, seeded

X, Y = hostile((3, 70), seed=1), seeded((70,), 2)


def chain(x: Any, y: Any) -> Any:
    return F.sigmoid(x * 2.0 + y) - F.maximum(x, 0.5)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BFLOAT16, np.float64])
def test_bits_of_the_parts(dtype: Any) -> None:
    with np.errstate(over="ignore"):
        x, y = X.astype(dtype), Y.astype(dtype)
    parts = F.sub(F.sigmoid(F.add(F.mul(x, 2.0), y)), F.maximum(x, 0.5))
    whole = F.fused(chain)(x, y)
    assert whole.dtype == x.dtype
    assert np.array_equal(whole.astype(np.float64), parts.astype(np.float64), equal_nan=True)


def test_choices() -> None:
    hold = F.fused(lambda x, y: F.where(x > y, x * 2.0, 0))
    with np.errstate(all="ignore"):
        assert np.array_equal(hold(X, Y), np.where(X > Y, X * 2, 0).astype(np.float32))


def test_same_bits_for_any_threads_and_out() -> None:
    x = seeded((300, 700))
    fused = F.fused(chain)
    wanted, out = fused(x, Y[:1], threads=1), np.empty_like(x)
    assert fused(x, Y[:1], out=out, threads=2) is out
    assert np.array_equal(out, wanted)


def test_mixed_types() -> None:
    pixels = np.arange(256, dtype=np.uint8).reshape(4, 64)
    scale = F.fused(lambda x: F.to(F.clamp(F.to(x, "float32") * 1.5 - 20.0, 0.0, 255.0), np.uint8))
    assert np.array_equal(scale(pixels), np.clip(pixels * np.float32(1.5) - 20, 0, 255).astype(np.uint8))
    signs = F.fused(lambda x: F.bitwise_and(x > 0.0, F.isfinite(x)))
    assert np.array_equal(signs(X), (X > 0) & np.isfinite(X))


@pytest.mark.parametrize(
    ("a", "b", "wanted"),
    [
        (np.int32, np.float16, np.float16), (np.uint8, np.int8, np.int16), (np.bool_, np.uint8, np.uint8),
        (np.float16, BFLOAT16, np.float32), (np.int64, np.float32, np.float32),
    ],
)  # fmt: skip
def test_promotion(a: Any, b: Any, wanted: Any) -> None:
    assert F.add(np.ones(3, a), np.ones(3, b)).dtype == np.dtype(wanted)
    assert F.add(np.ones(3, a), np.ones((), a)).dtype == np.dtype(a)


def test_numbers_count_by_kind() -> None:
    assert F.add(np.ones(3, np.float16), 1e-3).dtype == np.float16
    assert F.add(np.ones(3, np.int8), 2).dtype == np.int8
    assert F.add(np.ones(3, np.int8), 2.0).dtype == np.float32
    assert F.mul(np.float32(2), np.ones(3, np.float64)).dtype == np.float64


def test_integer_corners() -> None:
    low = np.array([-128, -128, 7, -7, 0], np.int8)
    by = np.array([-1, 0, 0, 2, 5], np.int8)
    assert F.div(low, by, rounding_mode="trunc").tolist() == [-128, 0, 0, -3, 0]
    assert F.floor_divide(low, by).tolist() == [-128, 0, 0, -4, 0]
    assert F.remainder(low, by).tolist() == [0, 0, 0, 1, 0]
    assert F.bitwise_left_shift(low, np.array([8, -1, 1, 1, 1], np.int8)).tolist() == [0, 0, 14, -14, 0]
    assert F.abs(low).tolist() == [-128, -128, 7, 7, 0]


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda x: 3.0, InputError), (lambda x: x + np.ones(3), InputError), (lambda x: x if x > 0 else -x, InputError),
        (lambda x: x + "a", InputError), (lambda x: F.relu(x, threads=1), ArgumentError),
        (lambda x: F.bitwise_and(x, x), DTypeError), (lambda x: F.div(x, 2, rounding_mode="up"), ArgumentError),
    ],
)  # fmt: skip
def test_what_cannot_be_recorded(function: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        F.fused(function)(Y)


def test_errors_of_calls() -> None:
    with pytest.raises(ShapeError):
        F.add(X, np.ones(3, np.float32))
    with pytest.raises(InputError):
        F.add(1.0, 2.0)
    with pytest.raises(DTypeError):
        F.add(np.ones(3, np.int8), 300)
    with pytest.raises(DTypeError):
        F.bitwise_not(X)
    with pytest.raises(ArgumentError):
        F.to(X, "float3")


def test_too_long_for_a_kernel() -> None:
    """More operands than a kernel takes: the same answer, from NumPy."""
    many = [seeded((5,), n) for n in range(9)]

    def total(*arrays: Array) -> Any:
        result = arrays[0]
        for x in arrays[1:]:
            result = result + x
        return result

    assert np.allclose(F.fused(total)(*many), np.sum(many, axis=0), rtol=1e-5, atol=1e-6)
