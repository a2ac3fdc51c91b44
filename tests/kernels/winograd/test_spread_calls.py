"""Transposed Winograd convolutions: phases of equal windows, whose results lie apart in y."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from cenote.core.target import Target
from cenote.core.types import Array, Layout, TensorType
from cenote.kernels.elementwise.activations import Activation
from cenote.ops.base import Lowering
from cenote.ops.conv.conv_transpose import ConvTranspose
from tests.harness import run_lowering
from tests.targets import TARGETS, over_targets, target_name

NAMES = ["phases_winograd_f4", "phases_winograd_f3", "phases_winograd_f2"]


def inputs(
    n: int, channels: int, filters: int, size: tuple[int, ...], window: tuple[int, ...]
) -> list[Array]:
    random = np.random.default_rng(channels + filters)
    x = np.maximum(random.standard_normal((n, channels, *size)), 0).astype(np.float32)
    scale = np.sqrt(2 / (channels * np.prod(window)))
    w = (random.standard_normal((channels, filters, *window)) * scale).astype(np.float32)
    return [x, w, random.standard_normal(filters).astype(np.float32) * np.float32(0.1)]


def lowerings(op: ConvTranspose, arrays: list[Array], target: Target) -> list[Lowering]:
    types = [TensorType.of(np.float32, arrays[0].shape), *map(TensorType.known, arrays[1:])]
    return [each for each in op.lowerings(types, target) if each.name.startswith("phases_winograd")]


RELU = Activation("relu")
# Images, channels, filters, size, window and the operator: whole and shorter tiles; ragged channels and odd blocks;
# more filters than tiles (two calls with V between them); pads that crop more and less; phases of 3x3; rows; strides
# that differ, and one of 1.
CASES = [
    (1, 16, 24, (8, 12), (4, 4), ConvTranspose((2, 2), ((1, 1), (1, 1)), activation=RELU)),
    (2, 20, 40, (7, 9), (4, 4), ConvTranspose((2, 2), ((1, 1), (1, 1)))),
    (1, 16, 560, (5, 6), (4, 4), ConvTranspose((2, 2), ((1, 1), (1, 1)))),
    (1, 24, 16, (9, 11), (4, 4), ConvTranspose((2, 2), ((0, 2), (3, 1)), output_padding=(0, 1))),
    (2, 16, 16, (6, 5), (6, 6), ConvTranspose((2, 2), ((2, 2), (2, 2)), activation=RELU)),
    (1, 16, 32, (37,), (16,), ConvTranspose((8,), ((4, 4),))),
    (1, 16, 16, (8, 9), (6, 4), ConvTranspose((3, 2), ((0, 0), (1, 1)))),
    (1, 17, 16, (11, 9), (3, 6), ConvTranspose((1, 2), ((1, 1), (2, 2)))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("n", "channels", "filters", "size", "window", "op", "target"), over_targets(CASES, 3), ids=target_name
)
def test_maps_of_any_size(
    n: int,
    channels: int,
    filters: int,
    size: tuple[int, ...],
    window: tuple[int, ...],
    op: ConvTranspose,
    target: Target,
) -> None:
    """As the reference in float64, the same bits over divisions of the work, with halos as they are and wider ones."""
    arrays = inputs(n, channels, filters, size, window)
    wanted = op.reference(*(x.astype(np.float64) for x in arrays))[0]
    found = lowerings(op, arrays, target)
    assert found
    for number, lowering in enumerate(found):
        if number % 2:
            layout = lowering.inputs[0]
            assert layout is not None
            wider = tuple((before + 1, after + 2) for before, after in layout.halo or [(0, 0)] * len(size))
            lowering = dataclasses.replace(
                lowering,
                inputs=(Layout(target.lanes(), wider), *lowering.inputs[1:]),
                outputs=(Layout(target.lanes(), ((1, 2),) * len(size)),),
            )
        results = [run_lowering(op, lowering, arrays, target, chunk=chunk)[0] for chunk in (0, 1, 3)]
        assert all(np.array_equal(results[0], other) for other in results[1:]), lowering.name
        error = np.abs(results[0] - wanted).max() / np.abs(wanted).max()
        assert error <= lowering.tolerance, lowering.name


@pytest.mark.parametrize(
    ("op", "window"),
    [
        (ConvTranspose((2, 2)), (2, 2)),  # phases of one tap
        (ConvTranspose((2, 2)), (3, 3)),  # of one and of two
        (ConvTranspose((2, 2), dilations=(3, 3)), (4, 4)),
        (ConvTranspose((2, 2), groups=2), (4, 4)),
        (ConvTranspose((2, 2), exact=True), (4, 4)),
    ],
)
def test_others_are_left_to_direct_phases(op: ConvTranspose, window: tuple[int, int]) -> None:
    arrays = inputs(1, 32, 32, (8, 8), window)
    arrays[1] = arrays[1][:, : 32 // op.groups]
    assert not lowerings(op, arrays, TARGETS[0])


def test_tiles_are_no_larger_than_a_phase() -> None:
    op = ConvTranspose((2, 2), ((1, 1), (1, 1)))
    for size, tiles in ((4, 3), (3, 2), (2, 1), (1, 0)):
        found = lowerings(op, inputs(1, 16, 16, (size, 5), (4, 4)), TARGETS[0])
        assert [each.name for each in found] == NAMES[3 - tiles :]
