"""Convolutions with drawn sizes, strides, pads, dilations, groups and halos against the float64 reference."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest

from cenote.codegen import jit
from cenote.core.errors import ShapeError
from cenote.core.types import Array, Layout, TensorType
from cenote.kernels.elementwise.activations import Activation
from cenote.ops.base import Lowering
from cenote.ops.conv.conv import Conv
from cenote.ops.conv.conv_transpose import ConvTranspose
from cenote.ops.values import wide
from tests.harness import run_lowering

TARGET = jit.host_target()
CASES = 36


def drawn(seed: int) -> tuple[Conv | ConvTranspose, list[Array]]:
    """An operator that fits its inputs; sizes small, everything else as ragged as it gets."""
    draw = random.Random(seed)
    while True:
        rank = draw.choice([1, 2, 2, 2, 3])
        groups = draw.choice([1, 1, 1, 2, 3, 8])
        channels, filters = (groups * draw.choice([1, 2, 4, 5, 8, 11, 16, 24]) for _ in range(2))
        window = tuple(draw.choice([1, 2, 3, 3, 5]) for _ in range(rank))
        pads = tuple((draw.randint(0, 3), draw.randint(0, 3)) for _ in range(rank))
        strides = tuple(draw.choice([1, 1, 2, 3]) for _ in range(rank))
        dilations = tuple(draw.choice([1, 1, 2]) for _ in range(rank))
        size = tuple(draw.randint(1, 12 if rank < 3 else 6) for _ in range(rank))
        activation = draw.choice([Activation(), Activation("relu"), Activation("clip", -2.0, 2.0)])
        x = (draw.choice([1, 1, 2, 5]), channels, *size)
        transposed = seed % 4 == 3
        if transposed:
            extra = tuple(draw.randint(0, stride - 1) for stride in strides)
            op: Conv | ConvTranspose = ConvTranspose(
                strides, pads, dilations, groups, output_padding=extra, activation=activation
            )
        else:
            op = Conv(strides, pads, dilations, groups, activation=activation)
        w = (channels, filters // groups, *window) if transposed else (filters, channels // groups, *window)
        try:
            op.infer(*(TensorType.of(np.float32, shape) for shape in (x, w, (filters,))))
        except ShapeError:
            continue
        noise = np.random.default_rng(seed)
        arrays = [noise.standard_normal(shape).astype(np.float32) for shape in (x, w, (filters,))]
        # Outputs near 1: clipping hides little.
        arrays[1] /= np.float32(np.sqrt(channels // groups * np.prod(window)))
        return op, arrays


def wider(lowering: Lowering, rank: int, seed: int) -> Lowering:
    """The same with more halo than it asks for, on both sides."""
    draw = random.Random(seed)

    def more(layout: Layout | None) -> Layout | None:
        if layout is None or not layout.is_blocked:
            return layout
        halo = layout.halo or ((0, 0),) * rank
        return Layout(layout.lanes, tuple((b + draw.randint(0, 2), e + draw.randint(0, 2)) for b, e in halo))

    outputs = tuple(more(layout) or layout for layout in lowering.outputs)
    return dataclasses.replace(lowering, inputs=tuple(more(x) for x in lowering.inputs), outputs=outputs)


@pytest.mark.parametrize("seed", range(CASES))
def test_drawn_convolutions(seed: int) -> None:
    op, arrays = drawn(seed)
    (wanted,) = op.reference(*(wide(x) for x in arrays))
    types = [
        TensorType.known(x) if index else TensorType.of(x.dtype, x.shape) for index, x in enumerate(arrays)
    ]
    found = list(op.lowerings(types, TARGET))
    assert found
    scale = max(float(np.abs(wanted).max()), 1e-30)
    for lowering in found:
        for variant in (lowering, wider(lowering, arrays[0].ndim - 2, seed)):
            first, second = (run_lowering(op, variant, arrays, TARGET, chunk=chunk)[0] for chunk in (0, 2))
            assert np.array_equal(first, second), lowering.name
            assert np.abs(first - wanted).max() / scale <= lowering.tolerance, lowering.name
