"""Dilated Winograd convolutions of maps: those of every d-th row and column, of one size or of up to four."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from cenote.core.sizes import plain
from cenote.core.target import Target
from cenote.core.trace import Trace
from cenote.core.types import Array, Layout, TensorType
from cenote.kernels.elementwise.activations import Activation
from cenote.ops.base import Lowering
from cenote.ops.conv.conv import Conv
from tests.harness import run_lowering
from tests.targets import TARGETS, over_targets, target_name

Pads = tuple[tuple[int, int], ...]
NAMES = {"winograd_f4_dilated", "winograd_f3_dilated", "winograd_f2_dilated"}


def inputs(
    n: int, channels: int, filters: int, size: tuple[int, int], window: tuple[int, int]
) -> list[Array]:
    random = np.random.default_rng(channels + filters)
    x = np.maximum(random.standard_normal((n, channels, *size)), 0).astype(np.float32)
    scale = np.sqrt(2 / (channels * np.prod(window)))
    w = (random.standard_normal((filters, channels, *window)) * scale).astype(np.float32)
    return [x, w, random.standard_normal(filters).astype(np.float32) * np.float32(0.1)]


def lowerings(op: Conv, arrays: list[Array], target: Target) -> list[Lowering]:
    types = [TensorType.of(np.float32, arrays[0].shape), *map(TensorType.known, arrays[1:3])]
    types += [TensorType.of(np.float32, each.shape) for each in arrays[3:]]
    return [each for each in op.lowerings(types, target) if each.name.startswith("winograd")]


# Channels, filters, size, images, dilations, pads, window: maps of one size, and of four; ragged channels; several
# blocks of tiles; more filters than tiles; more pads, and fewer; dilations that differ, and windows of one row.
CASES = [
    (16, 24, (8, 12), 1, (2, 2), ((2, 2), (2, 2)), (3, 3)),
    (20, 24, (17, 13), 2, (4, 4), ((4, 4), (4, 4)), (3, 3)),
    (16, 16, (61, 64), 1, (2, 2), ((2, 2), (2, 2)), (3, 3)),
    (16, 560, (9, 11), 1, (2, 2), ((2, 2), (2, 2)), (3, 3)),
    (24, 16, (20, 19), 1, (3, 3), ((6, 1), (0, 5)), (3, 3)),
    (16, 16, (13, 30), 2, (1, 5), ((1, 1), (5, 5)), (3, 3)),
    (17, 16, (7, 26), 1, (2, 3), ((0, 0), (3, 3)), (1, 3)),
    (16, 40, (25, 14), 1, (2, 2), ((4, 4), (4, 4)), (5, 5)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("channels", "filters", "size", "n", "dilations", "pads", "window", "target"),
    over_targets(CASES, 3),
    ids=target_name,
)
def test_maps_of_any_size(
    channels: int,
    filters: int,
    size: tuple[int, int],
    n: int,
    dilations: tuple[int, int],
    pads: Pads,
    window: tuple[int, int],
    target: Target,
) -> None:
    """As the reference in float64, the same bits over divisions of the work, with halos as they are and wider ones."""
    number = CASES.index((channels, filters, size, n, dilations, pads, window))
    op = Conv(pads=pads, dilations=dilations, residual=number % 2 == 1, activation=Activation("relu"))
    arrays = inputs(n, channels, filters, size, window)
    if op.residual:
        (made,) = dataclasses.replace(op, residual=False).reference(*arrays)
        arrays.append(np.random.default_rng(5).standard_normal(made.shape).astype(np.float32))
    wanted = op.reference(*(x.astype(np.float64) for x in arrays))[0]
    found = lowerings(op, arrays, target)
    assert found
    lanes = target.lanes()
    for lowering in found:
        if number % 3 == 1:
            wider = tuple((before + 1, after + 2) for before, after in pads)
            lowering = dataclasses.replace(
                lowering,
                inputs=(Layout(lanes, wider), *lowering.inputs[1:]),
                outputs=(Layout(lanes, ((1, 0), (0, 2))),),
            )
        results = [run_lowering(op, lowering, arrays, target, chunk=chunk)[0] for chunk in (0, 1, 3)]
        assert all(np.array_equal(results[0], other) for other in results[1:]), lowering.name
        error = np.abs(results[0] - wanted).max() / np.abs(wanted).max()
        assert error <= lowering.tolerance, lowering.name


@pytest.mark.parametrize(
    ("op", "size"),
    [
        (Conv(pads=((1, 1), (1, 1)), dilations=(2, 2)), (16, 16)),  # pads between rows of a map
        (Conv(strides=(2, 2), pads=((2, 2), (2, 2)), dilations=(2, 2)), (16, 16)),
        (Conv(pads=((2, 2), (2, 2)), dilations=(2, 2), groups=2), (16, 16)),
        (Conv(pads=((2, 2), (2, 2)), dilations=(2, 2), exact=True), (16, 16)),
        (Conv(pads=((9, 9), (9, 9)), dilations=(9, 9)), (16, 9)),  # maps of one column
    ],
)
def test_others_are_left_to_direct_convolution(op: Conv, size: tuple[int, int]) -> None:
    arrays = inputs(1, 32, 32, size, (3, 3))
    arrays[1] = arrays[1][:, : 32 // op.groups]
    assert not lowerings(op, arrays, TARGETS[0])


def test_a_map_of_every_second_row_has_all_tiles() -> None:
    arrays = inputs(1, 16, 16, (16, 16), (3, 3))
    op = Conv(pads=((2, 2), (2, 2)), dilations=(2, 2))
    assert {each.name for each in lowerings(op, arrays, TARGETS[0])} == NAMES


def test_maps_that_are_not_there_cost_nothing() -> None:
    """At open sizes there are calls for maps of four sizes; where the dilation divides the size, three have no work."""
    op, weights = Conv(pads=((2, 2), (2, 2)), dilations=(2, 2)), np.zeros((512, 512, 3, 3), np.float32)
    trace = Trace()
    side, plain_types = trace.dimension(14), (TensorType.known(weights), None)
    opened = op.lowerings((TensorType(np.dtype(np.float32), (1, 512, side, side)), *plain_types), TARGETS[0])
    fixed = op.lowerings((TensorType.of(np.float32, (1, 512, 14, 14)), *plain_types), TARGETS[0])
    seconds = {each.name: each.seconds for each in fixed if each.name in NAMES}
    found = {each.name: plain(each.seconds) for each in opened if each.name in NAMES}
    assert seconds
    assert found == pytest.approx(seconds)
