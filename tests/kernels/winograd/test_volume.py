"""Winograd kernels of volumes: planes in blocks, taps across planes, padding that is left out, axes that take turns."""

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
from cenote.kernels.winograd.volume_calls import WinogradVolumeTiling
from cenote.ops.base import Lowering
from cenote.ops.conv.conv import Conv
from cenote.ops.conv.winograd import as_planes
from cenote.runtime.formulas import Formulas
from tests.harness import run_lowering
from tests.targets import LARGE, SMALL, TARGETS, over_targets, target_name

torch = pytest.importorskip("torch")

Size = tuple[int, int, int]
ONE = ((1, 1), (1, 1), (1, 1))


def inputs(n: int, channels: int, filters: int, size: Size, window: Size) -> list[Array]:
    random = np.random.default_rng(channels + filters)
    x = np.maximum(random.standard_normal((n, channels, *size)), 0).astype(np.float32)
    scale = np.sqrt(2 / (channels * np.prod(window)))
    w = (random.standard_normal((filters, channels, *window)) * scale).astype(np.float32)
    return [x, w, random.standard_normal(filters).astype(np.float32) * np.float32(0.1)]


def lowerings(op: Conv, arrays: list[Array], target: Target) -> list[Lowering]:
    types = [TensorType.of(np.float32, arrays[0].shape), *map(TensorType.known, arrays[1:3])]
    types += [TensorType.of(np.float32, each.shape) for each in arrays[3:]]
    return [each for each in op.lowerings(types, target) if each.name.startswith("winograd")]


def reference(op: Conv, arrays: list[Array]) -> Array:
    """PyTorch's, in float64."""
    x, w, bias = (torch.from_numpy(each).double() for each in arrays[:3])
    ends = list(itertools.chain(*reversed(op.pads)))
    padded, steps = torch.nn.functional.pad(x, ends), op.dilations or (1, 1, 1)
    y = torch.nn.functional.conv3d(padded, w, bias, dilation=steps).numpy()
    y = y + arrays[3] if op.residual else y
    return np.maximum(y, 0) if op.activation.kind == "relu" else y


def check(op: Conv, arrays: list[Array], target: Target, wider: bool = False) -> set[str]:
    """Compare every lowering with PyTorch, and its bits over divisions of the work; return their names."""
    wanted, found = reference(op, arrays), lowerings(op, arrays, target)
    lanes, most = target.lanes(), ((2, 1), (1, 3), (2, 2))
    for lowering in found:
        if wider:
            lowering = dataclasses.replace(
                lowering,
                inputs=(Layout(lanes, most), *lowering.inputs[1:]),
                outputs=(Layout(lanes, ((1, 0), (0, 2), (1, 1))),),
            )
        results = [run_lowering(op, lowering, arrays, target, chunk=chunk)[0] for chunk in (0, 1, 3)]
        assert all(np.array_equal(results[0], other) for other in results[1:]), lowering.name
        error = np.abs(results[0] - wanted).max() / np.abs(wanted).max()
        assert error <= lowering.tolerance, lowering.name
    return {each.name for each in found}


# Channels, filters, size, images, window, pads: one block and several, of planes and of tiles; ragged channels and
# maps; more filters than tiles, in pieces; taps that see padding only in part; windows in one plane, and across planes
# alone.
CASES = [
    (16, 16, (4, 8, 8), 1, (3, 3, 3), ONE),
    (20, 40, (5, 7, 10), 2, (3, 3, 3), ((0, 1), (1, 0), (2, 0))),
    (64, 560, (2, 5, 4), 1, (3, 3, 3), ONE),
    (17, 16, (19, 30, 13), 1, (3, 3, 3), ONE),
    (16, 24, (3, 6, 6), 1, (5, 3, 3), ((4, 3), (1, 1), (1, 1))),
    (24, 16, (6, 9, 8), 2, (1, 3, 3), ((0, 0), (1, 1), (1, 1))),
    (24, 40, (9, 5, 6), 2, (3, 1, 1), ((1, 1), (0, 0), (0, 0))),
    (16, 16, (4, 6, 9), 1, (2, 1, 7), ((1, 0), (0, 0), (3, 3))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("channels", "filters", "size", "n", "window", "pads", "target"), over_targets(CASES, 3), ids=target_name
)
def test_volumes_of_any_size(
    channels: int,
    filters: int,
    size: Size,
    n: int,
    window: Size,
    pads: tuple[tuple[int, int], ...],
    target: Target,
) -> None:
    number = CASES.index((channels, filters, size, n, window, pads))
    op = Conv(pads=pads, residual=number % 2 == 1, activation=Activation("relu"))
    arrays = inputs(n, channels, filters, size, window)
    if op.residual:
        shape = reference(dataclasses.replace(op, residual=False), arrays).shape
        arrays.append(np.random.default_rng(5).standard_normal(shape).astype(np.float32))
    assert check(op, arrays, target, wider=number % 3 == 1)


DILATED = [
    (16, 24, (8, 12, 8), 1, (2, 2, 2), (3, 3, 3)),
    (20, 40, (6, 12, 15), 2, (3, 2, 3), (3, 3, 3)),
    (16, 16, (12, 3, 8), 1, (2, 1, 4), (3, 1, 1)),
    (16, 24, (9, 12, 11), 2, (2, 2, 2), (3, 3, 3)),
    (24, 16, (7, 13, 20), 1, (4, 3, 1), (3, 3, 3)),
    (16, 560, (3, 5, 9), 1, (4, 2, 2), (3, 3, 3)),
    (17, 16, (11, 3, 9), 1, (2, 1, 4), (3, 1, 1)),
]


@pytest.mark.parametrize(
    ("channels", "filters", "size", "n", "dilations", "window", "target"),
    over_targets(DILATED, 2),
    ids=target_name,
)
def test_dilated_volumes(
    channels: int, filters: int, size: Size, n: int, dilations: Size, window: Size, target: Target
) -> None:
    pads = tuple((k // 2 * d, k // 2 * d) for k, d in zip(window, dilations, strict=True))
    op = Conv(pads=pads, dilations=dilations, residual=n == 1, activation=Activation("relu"))
    arrays = inputs(n, channels, filters, size, window)
    if op.residual:
        arrays.append(np.random.default_rng(5).standard_normal((n, filters, *size)).astype(np.float32))
    assert check(op, arrays, target, wider=n == 2)


@pytest.mark.parametrize(("size", "pads"), [((8, 9, 8), (2, 4)), ((8, 8, 8), (1, 1)), ((8, 8, 8), (1, 3))])
def test_a_dilated_volume_whose_volumes_begin_or_end_apart_is_left_to_others(
    size: Size, pads: tuple[int, int]
) -> None:
    op = Conv(pads=(pads,) * 3, dilations=(2, 2, 2))
    assert not lowerings(op, inputs(1, 16, 16, size, (3, 3, 3)), TARGETS[0])


extents = st.tuples(*[st.integers(1, 9)] * 3)
pads_of = st.tuples(*[st.tuples(st.integers(0, 3), st.integers(0, 3))] * 3)


@settings(max_examples=12, derandomize=True)
@given(
    size=extents, pads=pads_of, taps=st.integers(1, 4), n=st.integers(1, 2), filters=st.sampled_from([16, 33])
)
def test_any_padding(size: Size, pads: tuple[tuple[int, int], ...], taps: int, n: int, filters: int) -> None:
    window = (taps, 3, 3)
    fits = all(extent + sum(pair) >= k for extent, pair, k in zip(size, pads, window, strict=True))
    if fits:
        found = check(Conv(pads=pads), inputs(n, 16, filters, size, window), TARGETS[0])
        assert not found or max(pads[0]) < taps


def test_error_is_at_most_four_times_that_of_a_plain_sum() -> None:
    op, arrays = Conv(pads=ONE), inputs(1, 64, 16, (4, 8, 9), (3, 3, 3))
    x, w, bias = arrays
    read = np.lib.stride_tricks.sliding_window_view(np.pad(x, [(0, 0), (0, 0), *ONE]), (3, 3, 3), (2, 3, 4))
    plain = np.broadcast_to(bias.reshape(1, -1, 1, 1, 1), (1, 16, 4, 8, 9)).copy()
    for channel, *tap in np.ndindex(w.shape[1:]):
        plain += w[:, channel, *tap].reshape(1, -1, 1, 1, 1) * read[:, channel, None, ..., *tap]
    wanted = reference(op, arrays)
    allowed = 4 * np.sqrt(np.mean((plain - wanted) ** 2))
    for lowering in lowerings(op, arrays, TARGETS[0]):
        got = run_lowering(op, lowering, arrays, TARGETS[0])[0]
        assert np.sqrt(np.mean((got - wanted) ** 2)) <= allowed, lowering.name


def test_a_window_may_be_of_planes_that_the_volume_lacks() -> None:
    """Every plane of the result must see one of x, or it has no products; else another algorithm is taken."""
    arrays = inputs(1, 16, 16, (1, 8, 8), (3, 3, 3))
    assert not lowerings(Conv(pads=((3, 3), (1, 1), (1, 1))), arrays, TARGETS[0])
    assert lowerings(Conv(pads=((2, 2), (1, 1), (1, 1))), arrays, TARGETS[0])
    assert not lowerings(Conv(pads=ONE, exact=True), arrays, TARGETS[0])
    assert not lowerings(Conv(pads=ONE, strides=(2, 1, 1)), arrays, TARGETS[0])


def tiling(
    n: int, channels: int, size: Size, target: Target, window: Size = (3, 3, 3)
) -> WinogradVolumeTiling:
    pads = tuple((k // 2, k // 2) for k in window)
    types = (
        TensorType(np.dtype(np.float32), (n, channels, *size)),
        TensorType.of(np.float32, (32, channels, *window)),
    )
    shape, axes = as_planes(Conv(pads=pads).shape(*types))
    return WinogradVolumeTiling(shape, 4, 4, target, axes=axes)


@pytest.mark.parametrize("target", [LARGE, SMALL], ids=target_name)
def test_blocks_cover_a_volume_and_fit_the_cache(target: Target) -> None:
    for channels, depth, side in itertools.product((16, 64, 512), (1, 2, 5, 8, 31), (4, 13, 32)):
        plan = tiling(1, channels, (depth, side, side), target)
        assert 0 <= plan.plane_blocks * plan.plane_block - depth < plan.plane_block
        assert 0 <= plan.tile_blocks * plan.block - plan.map_tiles < plan.block
        assert plan.seen <= depth
        assert plan.block * plan.seen <= max(plan.most, plan.seen)


def test_planes_of_padding_have_no_products() -> None:
    for depth, (before, after), taps in itertools.product((1, 2, 5), ((0, 0), (1, 1), (2, 0)), (1, 3)):
        if depth + before + after < taps or max(before, after) >= taps:
            continue
        types = (
            TensorType.of(np.float32, (1, 16, depth, 8, 8)),
            TensorType.of(np.float32, (16, 16, taps, 3, 3)),
        )
        shape = Conv(pads=((before, after), (1, 1), (1, 1))).shape(*types)
        seen = [0 <= plane - before + tap < depth for plane in range(shape.out[0]) for tap in range(taps)]
        assert WinogradVolumeTiling(shape, 4, 4, LARGE).planes_seen == sum(seen)


def test_blocks_follow_the_size() -> None:
    trace = Trace()
    sized = tiling(*(trace.dimension(1), 64, tuple(map(trace.dimension, (8, 12, 12))), LARGE))  # type: ignore[arg-type]
    formulas = Formulas.compile(
        trace.source([sized.block, sized.plane_block, sized.planes_seen]), trace.objects
    )
    for sizes in ((1, 8, 12, 12), (2, 3, 20, 30), (1, 40, 56, 56), (1, 1, 8, 8)):
        found = formulas.numbers(sizes)
        assert found is not None
        alone = tiling(sizes[0], 64, sizes[1:], LARGE)
        if alone.split == sized.split:
            assert found[0] == [alone.block, alone.plane_block, alone.planes_seen]


@pytest.mark.parametrize("filters", [16, 32])
def test_blocks_of_one_filter_vector_are_whole_runs(filters: int) -> None:
    for size in (12, 24, 48):
        arrays = inputs(1, 16, filters, (size,) * 3, (3, 3, 3))
        shape = Conv(pads=ONE).shape(*(TensorType.of(np.float32, each.shape) for each in arrays[:2]))
        block = WinogradVolumeTiling(shape, 4, 4, LARGE).block
        assert filters > 16 or block % 8 == 0
