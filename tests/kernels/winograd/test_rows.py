"""Winograd kernels of rows: windows of any length in pieces, dilations, rows that end within a tile."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cenote.core.target import Target
from cenote.core.trace import Trace
from cenote.core.types import Array, Layout, TensorType
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.winograd.row_calls import WinogradRowsTiling
from cenote.ops.base import Lowering
from cenote.ops.conv import winograd
from cenote.ops.conv.conv import Conv
from cenote.ops.conv.winograd import flat_shape
from cenote.runtime.formulas import Formulas
from tests.harness import run_lowering
from tests.targets import LARGE, SMALL, TARGETS, over_targets, target_name

torch = pytest.importorskip("torch")


def inputs(n: int, channels: int, filters: int, size: int, taps: int) -> list[Array]:
    random = np.random.default_rng(channels + filters)
    x = np.maximum(random.standard_normal((n, channels, size)), 0).astype(np.float32)
    w = (random.standard_normal((filters, channels, taps)) * np.sqrt(2 / (channels * taps))).astype(
        np.float32
    )
    return [x, w, random.standard_normal(filters).astype(np.float32) * np.float32(0.1)]


def lowerings(op: Conv, arrays: list[Array], target: Target) -> list[Lowering]:
    types = [TensorType.of(np.float32, arrays[0].shape), *map(TensorType.known, arrays[1:3])]
    types += [TensorType.of(np.float32, each.shape) for each in arrays[3:]]
    return [each for each in op.lowerings(types, target) if each.name == "winograd_f1x4"]


def reference(op: Conv, arrays: list[Array]) -> Array:
    """PyTorch's, in float64."""
    x, w, bias = (torch.from_numpy(each).double() for each in arrays[:3])
    padded = torch.nn.functional.pad(x, op.pads[0] if op.pads else (0, 0))
    y = torch.nn.functional.conv1d(padded, w, bias, dilation=(op.dilations or (1,))[0]).numpy()
    y = y + arrays[3] if op.residual else y
    return np.maximum(y, 0) if op.activation.kind == "relu" else y


def check(op: Conv, arrays: list[Array], target: Target, wider: bool = False) -> int:
    """Compare every lowering with PyTorch, and its bits over divisions of the work; return their number."""
    wanted, found = reference(op, arrays), lowerings(op, arrays, target)
    for lowering in found:
        ((begin, end),) = lowering.inputs[0].halo if lowering.inputs[0] else ((0, 0),)
        if wider:
            lowering = dataclasses.replace(
                lowering,
                inputs=(Layout(target.lanes(), ((begin + 1, end + 2),)), *lowering.inputs[1:]),
                outputs=(Layout(target.lanes(), ((1, 2),)),),
            )
        results = [run_lowering(op, lowering, arrays, target, chunk=chunk)[0] for chunk in (0, 1, 3)]
        assert all(np.array_equal(results[0], other) for other in results[1:])
        assert np.abs(results[0] - wanted).max() / np.abs(wanted).max() <= lowering.tolerance
    return len(found)


# Channels, filters, size, images, taps, pads, dilation: one block and several; sums of several parts; a last tile of 1,
# 2, 3 and 4 results; more filters than tiles; phases of different lengths, in one block and in several.
CASES = [
    (16, 16, 21, 1, 5, (2, 2), 1),
    (20, 40, 38, 2, 11, (5, 5), 1),
    (80, 560, 55, 1, 13, (6, 6), 1),
    (24, 33, 61, 2, 29, (28, 28), 2),
    (16, 16, 47, 1, 3, (3, 3), 3),
    (48, 16, 900, 1, 8, (0, 2), 1),
    (16, 24, 300, 1, 9, (120, 120), 30),
]


@pytest.mark.parametrize(
    ("channels", "filters", "size", "n", "taps", "pads", "dilation", "target"),
    over_targets(CASES, 3),
    ids=target_name,
)
def test_rows_of_any_size(
    channels: int,
    filters: int,
    size: int,
    n: int,
    taps: int,
    pads: tuple[int, int],
    dilation: int,
    target: Target,
) -> None:
    number = CASES.index((channels, filters, size, n, taps, pads, dilation))
    op = Conv(pads=(pads,), dilations=(dilation,), residual=number % 2 == 1, activation=Activation("relu"))
    arrays = inputs(n, channels, filters, size, taps)
    if op.residual:
        shape = reference(dataclasses.replace(op, residual=False), arrays).shape
        arrays.append(np.random.default_rng(5).standard_normal(shape).astype(np.float32))
    assert check(op, arrays, target, wider=number % 3 == 1)


@pytest.mark.parametrize("target", TARGETS, ids=target_name)
@pytest.mark.parametrize(("filters", "dilation"), [(4, 1), (4, 2), (16, 1), (16, 2), (24, 3), (40, 2)])
def test_sums_of_several_parts_and_any_number_of_tiles(
    filters: int, dilation: int, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs of fewer tiles than the narrowest in registers, each phase's beside the next one's. Filters of one vector
    have runs of eight tiles only: the least number of filters gives way, so that each target has them."""
    monkeypatch.setattr(winograd, "LEAST_CHANNELS", 4)
    op = Conv(pads=((3 * dilation, 3 * dilation),), dilations=(dilation,))
    for tiles in range(1, 20):
        assert (
            check(op, inputs(1, 264, filters, 4 * tiles * dilation - dilation // 2, 7), target) or tiles < 3
        )


@settings(max_examples=20, derandomize=True)
@given(
    size=st.integers(1, 60),
    channels=st.sampled_from([16, 264]),
    pads=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    taps=st.integers(3, 14),
    dilation=st.integers(1, 5),
    residual=st.booleans(),
)
def test_any_window(
    size: int, channels: int, pads: tuple[int, int], taps: int, dilation: int, residual: bool
) -> None:
    if size + sum(pads) < (taps - 1) * dilation + 1:
        return
    op = Conv(pads=(pads,), dilations=(dilation,), residual=residual)
    arrays = inputs(2, channels, 17, size, taps)
    if residual:
        shape = reference(dataclasses.replace(op, residual=False), arrays).shape
        arrays.append(np.random.default_rng(5).standard_normal(shape).astype(np.float32))
    check(op, arrays, TARGETS[0])


@pytest.mark.parametrize(("taps", "dilation"), [(11, 1), (25, 1), (3, 2)])
def test_error_is_at_most_four_times_that_of_a_plain_sum(taps: int, dilation: int) -> None:
    op, arrays = Conv(dilations=(dilation,)), inputs(1, 96, 16, 120, taps)
    x, w, bias = arrays
    count = 120 - (taps - 1) * dilation
    plain = np.broadcast_to(bias.reshape(1, -1, 1), (1, 16, count)).copy()
    for channel, tap in np.ndindex(w.shape[1:]):
        begin = tap * dilation
        plain += w[:, channel, tap].reshape(1, -1, 1) * x[:, channel, None, begin : begin + count]
    wanted = reference(op, arrays)
    (lowering,) = lowerings(op, arrays, TARGETS[0])
    got = run_lowering(op, lowering, arrays, TARGETS[0])[0]
    assert np.sqrt(np.mean((got - wanted) ** 2)) <= 4 * np.sqrt(np.mean((plain - wanted) ** 2))


def test_only_windows_that_gain_are_cut() -> None:
    arrays = inputs(1, 16, 16, 40, 9)
    assert lowerings(Conv(), arrays, TARGETS[0])
    assert not lowerings(Conv(exact=True), arrays, TARGETS[0])
    assert not lowerings(Conv(strides=(2,)), arrays, TARGETS[0])
    assert not lowerings(Conv(dilations=(4,)), arrays, TARGETS[0]), "rows of two results"
    assert not lowerings(Conv(), inputs(1, 15, 16, 40, 9), TARGETS[0])
    assert not lowerings(Conv(), inputs(1, 16, 16, 40, 4), TARGETS[0])


def tiling(n: int, channels: int, size: int, taps: int, dilation: int, target: Target) -> WinogradRowsTiling:
    reach = (taps // 2) * dilation
    types = (
        TensorType(np.dtype(np.float32), (n, channels, size)),
        TensorType.of(np.float32, (32, channels, taps)),
    )
    shape = Conv(pads=((reach, reach),), dilations=(dilation,)).shape(*types)
    return WinogradRowsTiling(flat_shape(shape.deep()), 1, 4, target)


@pytest.mark.parametrize("target", [LARGE, SMALL], ids=target_name)
def test_blocks_cover_a_row(target: Target) -> None:
    for channels, size, taps, dilation in itertools.product((16, 768), (8, 100, 4001), (5, 29), (1, 2, 300)):
        plan = tiling(1, channels, size, taps, dilation, target)
        assert 0 <= plan.tile_blocks * plan.block - plan.row_tiles < plan.block
        assert 0 <= plan.phase_blocks * plan.phase_block - dilation < plan.phase_block
        assert plan.row_tiles * plan.mh * dilation >= size
        # The last element that is read, from the first one of the padded row.
        last = (plan.row_tiles + plan.pieces - 2) * plan.mh + plan.horizontal.a - 1
        assert last * dilation + dilation - 1 < size + (taps - 1) * dilation + plan.further


def test_blocks_follow_the_size() -> None:
    trace = Trace()
    sized = tiling(trace.dimension(1), 64, trace.dimension(400), 11, 2, LARGE)
    formulas = Formulas.compile(trace.source([sized.block, sized.phase_block]), trace.objects)
    for n, size in ((1, 400), (2, 31), (1, 5000)):
        found, alone = formulas.numbers((n, size)), tiling(n, 64, size, 11, 2, LARGE)
        assert found is not None
        if alone.split == sized.split:
            assert found[0] == [alone.block, alone.phase_block]
