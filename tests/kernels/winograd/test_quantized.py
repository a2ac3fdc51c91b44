"""Winograd's filterings in whole numbers: what they compute, and that every step fits its bits."""

from __future__ import annotations

import numpy as np
import pytest

from cenote.core.types import Array
from cenote.kernels.winograd.quantized import most_exact, undone
from cenote.kernels.winograd.transforms import Whole, shortened, whole_filtering

FULL = [(m, stride) for m in (4, 2) for stride in (1, 2)]
FILTERINGS = [(whole_filtering(m, 3, stride), fewer) for m, stride in FULL for fewer in range(1, m + 1)]


def parts(full: Whole, outputs: int) -> tuple[Array, Array, Array]:
    """A^T, B^T and G of the filtering of fewer outputs: its weights are the full one's, the first and infinity's, and
    of windows that move by two the middle taps' between them."""
    f = full if outputs == full.m else shortened(full, outputs)
    matrices = [np.array(matrix) for matrix in (f.output_matrix, f.input_matrix, full.weight_matrix)]
    assert all(c.denominator == 1 for matrix in matrices for c in matrix.ravel())
    a, b, g = (matrix.astype(np.int64) for matrix in matrices)
    return a, b, g[[*(full.weight_row(product) for product in range(f.a - 1)), full.weight_row(full.a - 1)]]


@pytest.mark.parametrize(("full", "outputs"), FILTERINGS)
def test_results_are_scale_times_the_sums(full: Whole, outputs: int) -> None:
    a, b, g = parts(full, outputs)
    inputs, weights = np.arange(1, len(b) + 1) ** 2 % 7 - 3, np.array([5, -128, 77])
    places = range(0, outputs * full.stride, full.stride)
    wanted = [full.scale * int(weights @ inputs[i : i + 3]) for i in places]
    np.testing.assert_array_equal(a @ ((g @ weights) * (b @ inputs)), wanted)


@pytest.mark.parametrize(
    ("down", "across", "full"),
    [
        (down, across, whole_filtering(m, 3, stride))
        for m, stride in FULL
        for down in range(1, m + 1)
        for across in range(1, m + 1)
    ],
)
def test_transformed_bytes_fit_16_bits_and_their_pairs_32(down: int, across: int, full: Whole) -> None:
    (_, rows, g), (_, columns, h) = parts(full, down), parts(full, across)
    inputs, weights = np.kron(rows, columns), np.kron(g, h)
    largest = 255 * np.maximum(np.maximum(inputs, 0).sum(1), np.maximum(-inputs, 0).sum(1))
    heaviest = 128 * np.abs(weights).sum(1)
    assert largest.max() < 1 << 15
    assert heaviest.max() < 1 << 15
    assert (2 * largest * heaviest).max() < 1 << 31
    assert 255 * np.abs(rows).sum(1).max() < 1 << 15


@pytest.mark.parametrize(("m", "stride"), FULL)
def test_results_that_wrapped_around_are_undone(m: int, stride: int) -> None:
    full = whole_filtering(m, 3, stride)
    (inverse, shift), most = undone(full, full), most_exact(full, full)
    sums = np.array([0, 1, -1, 12345, -54321, most - 1, -most])
    wrapped = (sums * full.scale**2).astype(np.int32)
    np.testing.assert_array_equal((wrapped * np.int32(inverse)) >> shift, sums)
    known = {(4, 1): (954437177, 6), (2, 1): (1, 2), (4, 2): (954437177, 2), (2, 2): (1, 2)}
    assert undone(full, full) == known[m, stride]
