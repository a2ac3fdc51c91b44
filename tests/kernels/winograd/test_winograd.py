"""Winograd kernels: rounding errors against float64, ragged maps, channels and halos, and their matrices."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from cenote.codegen import jit
from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.pool_geometry import Pairs
from cenote.core.trace import Trace
from cenote.core.types import Array, Layout, TensorType
from cenote.kernels.base import present
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.winograd.calls import WinogradTiling
from cenote.kernels.winograd.transforms import Filtering, filtering, shortened, transform_weights
from cenote.ops.base import Lowering
from cenote.ops.conv.conv import Conv
from cenote.runtime.formulas import Formulas
from tests.harness import run_lowering

TARGET = jit.host_target()
ONE = ((1, 1), (1, 1))
SIZES = [(4, 3), (3, 3), (2, 3), (2, 5), (2, 7), (4, 2), (3, 2), (2, 2), (1, 1)]
FILTERINGS = [*(filtering(m, r) for m, r in SIZES), *(filtering(m, 3, 2) for m in (4, 3, 2))]


def candidates(op: Conv, arrays: list[Array]) -> dict[str, Lowering]:
    types = [
        TensorType.known(x) if index in (1, 2) else TensorType.of(x.dtype, x.shape)
        for index, x in enumerate(arrays)
    ]
    return {lowering.name: lowering for lowering in op.lowerings(types, TARGET)}


def he_inputs(
    channels: int, filters: int, size: tuple[int, int], window: tuple[int, int], n: int = 1
) -> list[Array]:
    """What a trained network's layer sees: He-initialised weights, rectified inputs."""
    random = np.random.default_rng(channels + filters)
    x = np.maximum(random.standard_normal((n, channels, *size)), 0).astype(np.float32)
    scale = np.sqrt(2 / (channels * window[0] * window[1]))
    w = (random.standard_normal((filters, channels, *window)) * scale).astype(np.float32)
    return [x, w, random.standard_normal(filters).astype(np.float32) * np.float32(0.1)]


def rms(got: Array, wanted: Array) -> float:
    return float(np.sqrt(np.mean((got.astype(np.float64) - wanted) ** 2)))


def plain_sum(op: Conv, arrays: list[Array]) -> Array:
    """The convolution as one chain of float32 additions per output, without fused multiply-adds."""
    x, w, bias = arrays
    padded = np.pad(x, [(0, 0), (0, 0), *op.pads])
    down, across = op.strides or (1, 1)
    read = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], (2, 3))[:, :, ::down, ::across]
    total = np.broadcast_to(bias.reshape(1, -1, 1, 1), (len(x), len(w), *read.shape[2:4])).copy()
    for channel, *tap in np.ndindex(w.shape[1:]):
        total += w[:, channel, *tap].reshape(1, -1, 1, 1) * read[:, channel, None, ..., *tap]
    return total


def reference(op: Conv, arrays: list[Array]) -> Array:
    return op.reference(*(x.astype(np.float64) for x in arrays))[0]


@pytest.mark.parametrize("f", FILTERINGS, ids=str)
def test_matrices_filter_exactly(f: Filtering) -> None:
    inputs, weights = np.arange(1, f.a + 1) ** 2 % 7 - 3.0, np.arange(f.r) ** 2 % 5 - 1.5
    a_t, b_t, g = (np.array(x, np.float64) for x in (f.output_matrix, f.input_matrix, f.weight_matrix))
    factors = (g @ weights)[[f.weight_row(product) for product in range(f.a)]]
    np.testing.assert_allclose(a_t @ (factors * (b_t @ inputs)), filtered(f, inputs, weights), atol=1e-12)
    assert_is_float32(f)


@pytest.mark.parametrize("full", [f for f in FILTERINGS if not f.is_trivial], ids=str)
def test_shorter_filterings_use_the_weights_of_the_larger(full: Filtering) -> None:
    for fewer in range(1, full.m):
        f = shortened(full, fewer)
        inputs, weights = np.arange(1, f.a + 1) ** 2 % 7 - 3.0, np.arange(f.r) ** 2 % 5 - 1.5
        a_t, b_t = (np.array(x, np.float64) for x in (f.output_matrix, f.input_matrix))
        factors = np.array(full.weight_matrix, np.float64) @ weights
        # The first products, and infinity.
        factors = factors[[full.weight_row(product) for product in (*range(f.a - 1), full.a - 1)]]
        np.testing.assert_allclose(a_t @ (factors * (b_t @ inputs)), filtered(f, inputs, weights), atol=1e-12)
        assert_is_float32(f)


def filtered(f: Filtering, inputs: Array, weights: Array) -> list[float]:
    return [float(weights @ inputs[f.stride * i : f.stride * i + f.r]) for i in range(f.m)]


def assert_is_float32(f: Filtering) -> None:
    for matrix in (f.output_matrix, f.input_matrix):
        assert all(float(np.float32(float(c))) == c for row in matrix for c in row), "inexact in float32"


def test_weights_are_transformed_along_both_axes() -> None:
    down, across = filtering(4, 3), filtering(2, 5)
    taps = np.random.default_rng(0).standard_normal((3, 5, 2))
    left, right = (np.array(f.weight_matrix, np.float64) for f in (down, across))
    np.testing.assert_allclose(
        transform_weights(taps, down, across), np.einsum("ik,klp,jl->ijp", left, taps, right), atol=1e-12
    )


@pytest.mark.parametrize(
    ("channels", "size"), [(64, (12, 12)), (256, (12, 12)), (128, (13, 14)), (128, (5, 15)), (128, (7, 7))]
)
def test_error_is_at_most_four_times_that_of_a_plain_sum(channels: int, size: tuple[int, int]) -> None:
    op, arrays = Conv(pads=ONE), he_inputs(channels, 32, size, (3, 3))
    wanted = reference(op, arrays)
    found = candidates(op, arrays)
    errors = {name: rms(run_lowering(op, found[name], arrays, TARGET)[0], wanted) for name in found}
    assert {"direct", "winograd_f4", "winograd_f3", "winograd_f2"} <= set(errors)
    plain = rms(plain_sum(op, arrays), wanted)
    assert errors["direct"] <= plain
    for name, value in errors.items():
        assert value <= 4 * plain, (name, errors)


@pytest.mark.parametrize(
    ("window", "name"),
    [
        ((5, 5), "winograd_f2"),
        ((1, 7), "winograd_f1x2"),
        ((7, 1), "winograd_f2x1"),
        ((1, 3), "winograd_f1x4"),
        ((2, 2), "winograd_f4"),
        ((1, 2), "winograd_f1x4"),
        ((2, 1), "winograd_f4x1"),
    ],
)
def test_other_windows_keep_to_the_same_error(window: tuple[int, int], name: str) -> None:
    op = Conv(pads=tuple((k // 2, k // 2) for k in window))
    arrays = he_inputs(96, 32, (11, 13), window)
    wanted, found = reference(op, arrays), candidates(op, arrays)
    fast = rms(run_lowering(op, found[name], arrays, TARGET)[0], wanted)
    assert fast <= 4 * rms(plain_sum(op, arrays), wanted)


@pytest.mark.parametrize(("channels", "size"), [(64, (12, 12)), (256, (23, 24)), (128, (13, 14))])
def test_windows_that_move_by_two_have_the_error_of_a_plain_sum(channels: int, size: tuple[int, int]) -> None:
    """Each output has 9 products in one order and 36/16 in another: the transforms' errors take up what that saves."""
    op, arrays = Conv((2, 2), pads=ONE), he_inputs(channels, 32, size, (3, 3))
    wanted, plain = reference(op, arrays), plain_sum(op, arrays)
    found = candidates(op, arrays)
    assert {f"winograd_f{m}_strided" for m in (4, 3, 2)} < set(found)
    for name, lowering in found.items():
        error = rms(run_lowering(op, lowering, arrays, TARGET)[0], wanted)
        assert error <= 1.2 * rms(plain, wanted), name


@pytest.mark.parametrize(
    ("op", "window"),
    [
        (Conv((2, 1), pads=ONE), (3, 3)),
        (Conv((3, 3), pads=ONE), (3, 3)),
        (Conv((2, 2)), (1, 3)),
        (Conv((2, 2)), (5, 5)),
        (Conv((2, 2), pads=((2, 2), (2, 2)), dilations=(2, 2)), (3, 3)),
        (Conv((2, 2), pads=ONE, groups=4), (3, 3)),
        (Conv((2, 2), pads=ONE, exact=True), (3, 3)),
    ],
)
def test_other_steps_and_windows_have_no_tiles(op: Conv, window: tuple[int, int]) -> None:
    arrays = he_inputs(32, 32, (16, 16), window)
    arrays[1] = arrays[1][:, : 32 // op.groups]
    assert not any("winograd" in name for name in candidates(op, arrays))


def test_rows_that_move_by_two() -> None:
    op, random = Conv((2,), pads=((1, 1),)), np.random.default_rng(3)
    w, bias = (random.standard_normal(shape).astype(np.float32) for shape in ((48, 40, 3), (48,)))
    for length in (7, 8, 101):
        arrays = [random.standard_normal((2, 40, length)).astype(np.float32), w, bias]
        lowering = candidates(op, arrays)["winograd_f1x4_strided"]
        (y,) = run_lowering(op, lowering, arrays, TARGET)
        wanted = reference(op, arrays)
        assert np.abs(y - wanted).max() <= lowering.tolerance * np.abs(wanted).max()


@pytest.mark.parametrize("window", [(2, 2), (1, 2), (2, 1)])
@pytest.mark.parametrize(("size", "pads"), [((9, 11), ((1, 0), (0, 1))), ((13, 8), ((0, 0), (0, 0)))])
def test_windows_of_two_taps(window: tuple[int, int], size: tuple[int, int], pads: Pairs) -> None:
    """The phases of transposed convolutions."""
    op, arrays = Conv(pads=pads, residual=True), he_inputs(20, 40, size, window, 2)
    (y,) = dataclasses.replace(op, residual=False).reference(*arrays)
    arrays.append(np.random.default_rng(5).standard_normal(y.shape).astype(np.float32))
    wanted, found = reference(op, arrays), candidates(op, arrays)
    tiles = {name for name in found if name.startswith("winograd")}
    assert tiles == {(2, 2): {"winograd_f4", "winograd_f3", "winograd_f2"}, (1, 2): {"winograd_f1x4"}}.get(
        window, {"winograd_f4x1"}
    )
    for name in tiles:
        for chunk in (0, 1):
            (y,) = run_lowering(op, found[name], arrays, TARGET, chunk=chunk)
            assert np.abs(y - wanted).max() <= found[name].tolerance * np.abs(wanted).max()


def test_exact_means_no_winograd() -> None:
    arrays = he_inputs(32, 32, (12, 12), (3, 3))
    assert set(candidates(Conv(pads=ONE, exact=True), arrays)) == {"direct"}
    assert "winograd_f4" in candidates(Conv(pads=ONE), arrays)


RAGGED = [
    (16, 16, (4, 4), 1), (20, 24, (5, 9), 2), (17, 40, (7, 7), 1), (24, 16, (13, 4), 3), (16, 72, (30, 31), 1),
    (64, 16, (6, 47), 1), (16, 560, (5, 6), 1), (16, 16, (29, 31), 3),
]  # fmt: skip
ENDINGS = [(False, "relu"), (True, "relu"), (True, "silu")]
KINDS = ["identity", "relu", "silu"]


@pytest.mark.parametrize(("channels", "filters", "size", "n"), RAGGED)
@pytest.mark.parametrize(("residual", "kind"), ENDINGS)
@pytest.mark.parametrize("stride", [1, 2])
def test_ragged_maps_channels_and_wider_halos(
    channels: int, filters: int, size: tuple[int, int], n: int, residual: bool, kind: str, stride: int
) -> None:
    op = Conv((stride, stride), pads=ONE, residual=residual, activation=Activation(kind))
    arrays = he_inputs(channels, filters, size, (3, 3), n)
    if residual:
        out = tuple(-(-extent // stride) for extent in size)
        arrays.append(np.random.default_rng(5).standard_normal((n, filters, *out)).astype(np.float32))
    wanted = reference(op, arrays)
    lanes = TARGET.lanes()
    # Every map has wider halos once, and so has every ending: kernels differ by halo.
    with_wider = (RAGGED.index((channels, filters, size, n)) + ENDINGS.index((residual, kind))) % 3 == 0
    for name, lowering in candidates(op, arrays).items():
        wider = dataclasses.replace(
            lowering,
            inputs=(Layout(lanes, ((2, 1), (1, 3))), *lowering.inputs[1:]),
            outputs=(Layout(lanes, ((1, 0), (2, 2))),),
        )
        is_blocked = bool(present(lowering.inputs[0]).lanes)  # rows of plain memory have no halo
        for variant in (lowering, wider) if with_wider and is_blocked else (lowering,):
            results = [run_lowering(op, variant, arrays, TARGET, chunk=chunk)[0] for chunk in (0, 1, 3)]
            assert all(np.array_equal(results[0], other) for other in results[1:]), name
            error = np.abs(results[0] - wanted).max() / np.abs(wanted).max()
            assert error <= lowering.tolerance, name


@pytest.mark.parametrize(("channels", "filters", "size", "n"), RAGGED)
@pytest.mark.parametrize("kind", KINDS)
def test_pool_is_that_of_the_output(
    channels: int, filters: int, size: tuple[int, int], n: int, kind: str
) -> None:
    """Even and odd maps, tiles that overlap, halos wider than asked for; silu is applied before the maximum."""
    op = Conv(pads=ONE, activation=Activation(kind), pool=True)
    arrays = he_inputs(channels, filters, size, (3, 3), n)
    # The oracle is the convolution without the pool, and torch's rule: largest of 2x2, an odd end dropped.
    full = reference(dataclasses.replace(op, pool=False), arrays)
    height, width = size[0] // 2 * 2, size[1] // 2 * 2
    corners = [full[:, :, i:height:2, j:width:2] for i in (0, 1) for j in (0, 1)]
    wanted = np.maximum(np.maximum(corners[0], corners[1]), np.maximum(corners[2], corners[3]))
    np.testing.assert_array_equal(reference(op, arrays), wanted)
    lanes, found = TARGET.lanes(), candidates(op, arrays)
    # Every map has wider halos once, and so has every kind: kernels differ by halo.
    with_wider = (RAGGED.index((channels, filters, size, n)) + KINDS.index(kind)) % 3 == 0
    assert set(found) == {f"winograd_f{m}_pool" for m in (4, 2) if min(height, width) >= m}
    for lowering in found.values():
        wider = dataclasses.replace(
            lowering,
            inputs=(Layout(lanes, ((2, 1), (1, 3))), *lowering.inputs[1:]),
            outputs=(Layout(lanes, ((1, 0), (2, 2))),),
        )
        is_blocked = bool(present(lowering.inputs[0]).lanes)  # rows of plain memory have no halo
        for variant in (lowering, wider) if with_wider and is_blocked else (lowering,):
            results = [run_lowering(op, variant, arrays, TARGET, chunk=chunk)[0] for chunk in (0, 1, 3)]
            assert all(np.array_equal(results[0], other) for other in results[1:]), lowering.name
            assert np.abs(results[0] - wanted).max() / np.abs(wanted).max() <= lowering.tolerance, (
                lowering.name
            )


def test_pool_keeps_nan() -> None:
    """A NaN of the input reaches every window that it must, and none of another image or beyond the tiles' reach."""
    op = Conv(pads=ONE, activation=Activation("relu"), pool=True)
    for row, column in ((0, 0), (5, 6), (9, 10), (12, 14)):
        arrays = he_inputs(16, 16, (13, 15), (3, 3), 2)
        arrays[0][1, 3, row, column] = np.nan
        wanted = np.isnan(reference(op, arrays))
        for name, lowering in candidates(op, arrays).items():
            got = np.isnan(run_lowering(op, lowering, arrays, TARGET)[0])
            assert got[wanted].all(), name
            assert not got[0].any(), name
            assert got[1].any() == wanted.any(), name
            assert not got.all(axis=(1, 2, 3)).any(), name


def test_pool_refuses_what_it_cannot_do() -> None:
    arrays = he_inputs(16, 16, (6, 6), (3, 3))
    types = [TensorType.of(x.dtype, x.shape) for x in arrays]
    with pytest.raises(ArgumentError, match="pool and residual exclude each other"):
        Conv(pads=ONE, pool=True, residual=True).infer(*types, TensorType.of(np.float32, (1, 16, 6, 6)))
    with pytest.raises(ShapeError, match="at least 2x2"):
        Conv(pool=True).infer(TensorType.of(np.float32, (1, 16, 3, 6)), *types[1:])
    assert candidates(Conv(pads=ONE, pool=True, exact=True), arrays) == {}


def test_groups_that_share_an_input_are_several_and_ragged() -> None:
    """The case of RAGGED with many filters: pieces of two groups, the last of one."""
    shape = Conv(pads=ONE).shape(*(TensorType.of(np.float32, s) for s in ((1, 16, 5, 6), (560, 16, 3, 3))))
    target = dataclasses.replace(TARGET, vector_bytes=32, registers=16)
    product = WinogradTiling(shape, 4, 4, target).numbers("product")
    assert (product["bundle"], product["groups"] % product["group_share"]) == (2, 1)


@pytest.mark.parametrize("filters", [16, 512])
def test_blocks_follow_the_size(filters: int) -> None:
    """The number of tiles in a block was that of the size that a plan was made with."""

    def plan(n: int, h: int, w: int) -> WinogradTiling:
        shape = Conv(pads=ONE).shape(
            TensorType(np.dtype(np.float32), (n, 64, h, w)), TensorType.of(np.float32, (filters, 64, 3, 3))
        )
        return WinogradTiling(shape, 4, 4, TARGET)

    trace = Trace()
    sized = plan(*(trace.dimension(extent) for extent in (1, 12, 12)))
    formulas = Formulas.compile(trace.source([sized.block]), trace.objects)
    for sizes in ((1, 12, 12), (1, 3, 2), (2, 30, 50), (16, 56, 56)):
        found, alone = formulas.numbers(sizes), plan(*sizes)
        assert found is not None
        if alone.split == sized.split:
            assert found[0] == [alone.block]
