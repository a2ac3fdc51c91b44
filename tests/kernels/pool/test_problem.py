"""Bands of the pooling kernels are what the planner cuts for a machine with half of the level 2 cache."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import cenote
from cenote.codegen import jit
from cenote.kernels.pool.problem import Geometry, Memory, PoolProblem, default_band


@pytest.mark.parametrize("level_2", [128 << 10, 256 << 10, 512 << 10])
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding"),
    [(600, 3, 1, 1), (600, 3, 2, 1), (1024, 2, 2, 0), (800, 7, 2, 3), (512, 5, 1, 2), (900, 3, 3, 0)],
)
def test_bands_are_those_of_the_planner(
    level_2: int, size: int, kernel: int, stride: int, padding: int
) -> None:
    room = level_2 // 2
    machine = {"base": "host", "ub_bytes": room, "block_bytes": 8, "cores": 1}
    layer = {"input": (1, 8, size, size), "kernel": kernel, "stride": stride, "padding": padding}
    plan = cenote.tiling.plan("maxpool", **layer, hardware=machine)  # type: ignore[arg-type]
    out = plan.layer.axes[1].out
    geometry = Geometry(
        (1, size, size), (1, out, out), (1, kernel, kernel), (1, stride, stride), pad=(0, padding, padding)
    )
    memory = Memory(
        1, 8, (8 * size * size, size * size, size * size, size), (8 * out * out, out * out, out * out, out)
    )
    problem = PoolProblem("max", np.dtype(np.float32), geometry, memory)
    band = default_band(problem, replace(jit.host_target(), l2_bytes=level_2))
    assert -(-out // band) == plan.parts[2]
    assert band <= plan.tile.h
