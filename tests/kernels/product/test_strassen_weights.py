"""Weights of Strassen's algorithm: their scales, and the kernel that makes their sums when a program is loaded."""

from __future__ import annotations

import numpy as np
import pytest

from cenote.kernels.packing import RUN
from cenote.kernels.product.strassen_weights import balanced, packed_weights
from tests.harness import prepared
from tests.targets import TARGETS


def test_scales_are_powers_of_two_and_taken_out_of_the_weights() -> None:
    w = np.random.default_rng(0).standard_normal((64, 32)).astype(np.float32)
    w[3], w[:, 5], w[7], w[:, 9] = 0, 0, w[7] * 1e-20, w[:, 9] * 1e12
    even = balanced(w)
    for each in even[1:]:
        assert (np.frexp(each)[0] == 0.5).all()
    np.testing.assert_array_equal(even.weights * even.filters[:, None] * even.channels, w)
    assert np.abs(even.weights).max() <= 1
    packed = packed_weights(w, 16, 16).make()
    assert packed.shape == (2, 7, 16, 16)
    rows = np.arange(64).reshape(2, 2, 16)[:, 0].ravel()
    np.testing.assert_array_equal(packed[:, 0].transpose(0, 2, 1).reshape(32, 16), even.weights[rows, :16])


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize(
    ("filters", "channels", "row"), [(16, 6, 8), (24, 34, 4), (64, 2 * (RUN // 16 + 1), 16), (20, 7, 8)]
)
def test_the_kernel_makes_the_same_bits(filters: int, channels: int, row: int, target: object) -> None:
    w = np.random.default_rng(channels).standard_normal((filters, channels)).astype(np.float32)
    packed = packed_weights(w, row, -(-channels // 2))
    made = packed.make()
    assert made.shape == packed.shape
    for pieces in (1, 5):
        np.testing.assert_array_equal(prepared(packed, target, pieces).view(np.uint32), made.view(np.uint32))
