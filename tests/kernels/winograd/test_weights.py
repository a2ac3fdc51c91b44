"""Transformed weights: the kernel that makes them when a program is loaded, beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from cenote.kernels.packing import RUN
from cenote.kernels.winograd.transforms import filtering
from cenote.kernels.winograd.weights import WinogradWeights
from tests.harness import prepared
from tests.targets import TARGETS


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize(
    ("down", "across"),
    [
        ((4, 3), (4, 3)),
        ((3, 3), (2, 3)),
        ((2, 5), (1, 1)),
        ((1, 1), (2, 7)),
        ((4, 3, 2), (4, 3, 2)),
        ((1, 1), (4, 3, 2)),
    ],
    ids=["4x4", "3x2", "down", "across", "strided", "strided-across"],
)
@pytest.mark.parametrize(
    ("groups", "channels", "width", "parts"), [(1, 8, 8, 1), (3, 7, 12, 2), (2, RUN // 16 + 1, 16, 1)]
)
def test_the_kernel_makes_the_same_bits(
    groups: int,
    channels: int,
    width: int,
    parts: int,
    down: tuple[int, ...],
    across: tuple[int, ...],
    target: object,
) -> None:
    random = np.random.default_rng(channels + width)
    filters = groups * width - 3  # the last group is ragged
    shape = (filters, channels - 1, down[1], across[1])
    windows = [random.standard_normal(shape).astype(np.float32) for _ in range(parts)]
    windows[0][0, 0] = -0.0
    packed = WinogradWeights(filtering(*down), filtering(*across), groups, channels, width).packed(
        parts, lambda: windows
    )
    made = packed.make()
    assert made.shape == packed.shape
    for pieces in (1, 5):
        np.testing.assert_array_equal(prepared(packed, target, pieces).view(np.uint32), made.view(np.uint32))
