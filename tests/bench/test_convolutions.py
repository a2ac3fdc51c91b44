"""The calls that `bench.convolutions` times. Nothing is timed."""

from __future__ import annotations

import numpy as np
import pytest

from bench.convolutions import LAYERS, TARGET, Layer, Program, rows
from cenote.core.types import TensorType
from cenote.kernels.base import Packed
from cenote.ops.conv.conv import Conv
from cenote.ops.linear.gemm import Gemm


@pytest.mark.parametrize(
    "layer",
    [
        Layer("3x3", Conv((1, 1), ((1, 1), (1, 1))), (1, 16, 8, 8), (16, 16, 3, 3)),
        Layer("linear", Gemm(), (4, 32), (32, 16)),
        Layer("product", Gemm(), (4, 32), (32, 16), known=False),
    ],
    ids=lambda layer: layer.name,
)
def test_every_lowering_runs(layer: Layer) -> None:
    """With weights that a lowering packs when its kernels are known, too."""
    w = np.ones(layer.w, np.float32)
    types = [
        TensorType.of(np.float32, layer.x),
        TensorType.known(w) if layer.known else TensorType.of(w.dtype, w.shape),
    ]
    lowerings = list(layer.op.lowerings(types, TARGET))
    assert lowerings
    packs = 0
    for lowering in lowerings:
        program = Program(layer.op, lowering, types)
        before = [buffer.copy() for buffer in program.kept]
        program.run()
        assert any(not np.array_equal(*pair) for pair in zip(before, program.kept, strict=True)), (
            lowering.name
        )
        packs += any(isinstance(each, Packed) for call in program.calls for each in call.arguments)
    assert bool(packs) == layer.known


def test_a_line_for_each_lowering() -> None:
    layer = Layer("linear", Gemm(), (4, 32), (32, 16))
    lines = list(rows(layer, 1, 100.0))
    assert lines
    assert all(line.startswith("| linear | ") for line in lines)
    assert len({each.name for each in LAYERS}) == len(LAYERS)
