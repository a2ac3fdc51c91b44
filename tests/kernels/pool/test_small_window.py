"""Small windows in registers, against the naive loop: ends of rows, vector tails, NaN, infinities, bands."""

from __future__ import annotations

import numpy as np
import pytest

from cenote.core.target import Target
from cenote.core.types import PLAIN, TensorType
from cenote.kernels.base import KernelSpec, View, dense_strides
from cenote.kernels.pool.problem import Geometry, Memory, PoolProblem
from cenote.kernels.pool.small_window import PoolSmallWindow
from cenote.runtime.steps import Slot, SlotKind
from tests.kernels.pool.windows import HOST, NO_PADS, check, noise, square
from tests.kernels.pool_oracle import chosen, geometry, has_empty_window
from tests.targets import over_targets, target_name

CASES = [
    (3, 2, (1, 1)),
    (3, 2, (1, 0)),
    (3, 2, (0, 1)),
    (3, 1, (1, 1)),
    (3, 1, (0, 0)),
    (2, 1, (0, 1)),
    (4, 1, (1, 2)),
    (5, 1, (2, 2)),
]


@pytest.mark.parametrize(("window", "stride", "pads", "target"), over_targets(CASES), ids=target_name)
def test_windows_in_registers(window: int, stride: int, pads: tuple[int, int], target: Target) -> None:
    """Every length of the rows: ends of one and of two vectors; bands shorter than the rows taken together. Maxima at
    every width and height; what else there is in turns: at every width and height for two cases, at some for others."""
    whole = (window, stride, pads) in CASES[:1] + CASES[3:4]
    for column, width in enumerate((4, 7, 8, 9, 10, 11, 15, 16, 17, 18, 19, 20, 31, 32, 33)):
        for row, height in enumerate((1, 2, 3, 6, 9)):
            g = geometry(
                (1, height, width), (1, window, window), (1, stride, stride), pads=(NO_PADS[0], pads, pads)
            )
            if min(g.out) < 1 or has_empty_window(g):
                continue
            x = noise((1, 2, 1, height, width), seed=width * height)
            turn = (row + column) % 5
            others = (("min",) if whole else (), ("sum",), (), ("sum",) if whole else (), ())
            for reduction in ("max", *others[turn]):
                check(x, g, reduction, target, algorithm="small_window")
            x[0, :, 0, height // 2, width // 3], x[0, :, 0, height // 3, width // 2] = np.inf, 0
            x[0, 1, 0, (7 * width) % height, (5 * height) % width] = np.nan
            for nan in ("propagate", *(("ignore",) if turn == 2 and whole else ())):
                check(x, g, "max", target, nan=nan, algorithm="small_window")


def planned(g: Geometry) -> KernelSpec:
    """The kernel that the plan picks for float32 maxima of three plain maps."""
    views = [
        View(TensorType.of(np.float32, shape), PLAIN, dense_strides(shape), Slot(SlotKind.ARENA, index))
        for index, shape in enumerate(((1, 3, *g.size), (1, 3, *g.out)))
    ]
    memory = Memory(1, 3, views[0].strides[:4], views[1].strides[:4])  # type: ignore[arg-type]
    return chosen(PoolProblem("max", np.dtype(np.float32), g, memory), HOST).build(*views).spec


def test_small_windows_stay_in_registers() -> None:
    """The plan must pick the kernel that the test above is about."""
    for g in (
        square(3, 1, 2, 56, 56),
        square(3, 1, 1, 28, 28),
        square(5, 2, 1, 20, 20),
        square(3, 1, 1, 7, 7),
    ):
        assert isinstance(planned(g), PoolSmallWindow)
    assert not isinstance(planned(square(5, 2, 1, 56, 56)), PoolSmallWindow)
