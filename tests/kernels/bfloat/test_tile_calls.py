"""Convolutions on tile registers: how they are cut, what is packed, when they are offered, and their instructions."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from cenote.codegen import jit
from cenote.codegen.bfloat import rounded
from cenote.core.target import EMULATED, Target, TileWays
from cenote.core.types import BFLOAT16, TensorType
from cenote.kernels.bfloat.tile_calls import TileCut, packed
from cenote.kernels.bfloat.tiles import TilesBfloatSpec
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.parts.regions import Regions
from cenote.ops.base import Lowering
from cenote.ops.conv.bfloat_conv import BfloatConv
from cenote.ops.conv.conv import Conv
from cenote.ops.values import seeded
from tests.harness import lowerings_of, run_lowering
from tests.targets import LARGE, TARGETS, target_name

AMX = replace(LARGE, bfloat="avx512bf16", tiles=TileWays(bf16="amx-bf16"))


def layer(
    channels: int, filters: int, size: int, window: int = 3, stride: int = 1, dilation: int = 1
) -> tuple[Conv, TensorType, TensorType]:
    """Operator, type of x, and weights."""
    pads = ((window // 2 * dilation,) * 2,) * 2
    op = Conv(strides=(stride,) * 2, pads=pads, dilations=(dilation,) * 2)
    weights = TensorType.known(np.ones((filters, channels, window, window), np.float32))
    return op, TensorType(BFLOAT16, (1, channels, size, size)), weights


def cut_of(*given: int, target: Target = AMX) -> TileCut:
    op, x, w = layer(*given)
    return TileCut.of(op.shape(x, w).deep(), target.l2_bytes)


def offers(*given: int, target: Target = AMX) -> dict[str, Lowering]:
    op, *types = layer(*given)
    found = BfloatConv.of(op, np.dtype(BFLOAT16)).lowerings([*types, None, None], target)
    return {each.name: each for each in found}


# Layers of ResNet-50, and the least share of the executed products that count: pixels, not positions between rows.
@pytest.mark.parametrize(
    ("given", "share"),
    [
        ((64, 64, 56, 3), 0.96), ((128, 128, 28, 3), 0.87), ((256, 256, 14, 3), 0.87), ((512, 512, 7, 3), 0.75),
        ((128, 128, 56, 3, 2), 0.87), ((256, 512, 56, 1, 2), 0.87), ((64, 256, 56, 1), 1.0), ((512, 2048, 7, 1), 0.76),
    ],
)  # fmt: skip
def test_few_positions_are_no_pixels(given: tuple[int, ...], share: float) -> None:
    cut = cut_of(*given)
    assert cut.shape.operations / cut.operations >= share
    assert cut.scratch < AMX.l2_bytes // 2


@pytest.mark.parametrize("l2_bytes", [1 << 14, 1 << 18, 2 << 20])
@pytest.mark.parametrize("given", [(64, 64, 56, 3), (40, 24, 33, 3, 2), (96, 32, 200, 5), (7, 9, 12, 1, 3)])
def test_every_entry_lies_in_its_plane(given: tuple[int, ...], l2_bytes: int) -> None:
    cut = cut_of(*given, target=replace(AMX, l2_bytes=l2_bytes))
    starts, ends = cut.table() // 64, cut.table() // 64 + cut.positions
    numbers = starts // cut.plane
    assert (numbers == (ends - 1) // cut.plane).all()
    assert sorted({*numbers}) == [*range(cut.slices * len(cut.planes))]
    assert cut.band[0] * cut.bands()[0] >= cut.shape.out[1]
    assert cut.band[1] * cut.bands()[1] >= cut.shape.out[2]


def test_weights_are_tiles_of_pairs() -> None:
    cut = cut_of(40, 20, 5, 3)
    weights = rounded(seeded((20, 40, 1, 3, 3), 1))
    found = packed(weights.astype(np.float32), cut).reshape(cut.slices, 3, 3, 2, 16, 16, 2)
    for filter, channel, h, w in ((0, 0, 0, 0), (17, 33, 2, 1), (19, 39, 0, 2), (3, 8, 1, 1)):
        one = found[channel // 32, h, w, filter // 16, channel % 32 // 2, filter % 16, channel % 2]
        assert one == weights[filter, channel, 0, h, w]
    assert np.count_nonzero(found) == np.count_nonzero(weights)


def test_they_are_chosen_where_they_are_estimated_faster() -> None:
    """On a machine with tiles: beside VDPBF16PS at half of float32's rate, and Winograd's algorithm in float32."""
    for given in ((64, 64, 56, 3), (256, 64, 56, 1), (512, 512, 7, 3), (128, 128, 56, 3, 2)):
        found = offers(*given)
        assert min(found, key=lambda name: found[name].seconds) == "tiles_bfloat16", given
    depthwise = offers(1, 16, 14, 3)
    assert min(depthwise, key=lambda name: depthwise[name].seconds) != "direct_bfloat16"
    without = offers(64, 64, 56, 3, target=replace(AMX, tiles=TileWays(int8="amx-int8")))
    assert "direct_bfloat16" in without
    assert not any("tiles" in name for name in without)
    # The vectors of a machine with tiles are slower than those of one without.
    assert (
        found["direct_bfloat16"].seconds
        > 2 * offers(128, 128, 56, 3, 2, target=replace(AMX, tiles=TileWays()))["direct_bfloat16"].seconds
    )


@pytest.mark.parametrize(
    "target", [AMX, replace(AMX, l2_bytes=512 << 10)], ids=lambda target: str(target.l2_bytes)
)
@pytest.mark.parametrize(
    "given", [(2048, 256, 33, 3, 1, 36), (4096, 2048, 14, 3), (512, 512, 65, 7, 1, 12), (9000, 5000, 7, 1)]
)
def test_scratch_is_bounded(given: tuple[int, ...], target: Target) -> None:
    """Half of the level 2 cache for planes, and half as much for sums."""
    cut = cut_of(*given, target=target)
    assert cut.scratch <= target.l2_bytes * 3 // 4 + 16 * cut.positions
    assert cut.chunk < cut.slices or cut.plane_bytes <= target.l2_bytes // 2


def test_rows_between_dilated_taps_are_not_copied() -> None:
    """Windows of dilation 36 over 33 x 33 pixels: a band of one row would copy 33 rows, and the padding of 72."""
    cut = cut_of(2048, 256, 33, 3, 1, 36)
    together = TileCut(cut.shape, cut.l2_bytes)
    assert together.pieces[0] * together.plane_bytes > 8 * cut.pieces[0] * cut.plane_bytes
    assert together.seconds(1, 1) > 2 * cut.seconds(1, 1)
    assert cut_of(64, 64, 56, 3).apart == (False, False)


def test_regions_of_float16_parts_hold_no_more_than_twice_what_they_see() -> None:
    """The same windows: bands of one row held 73 rows each, 2 GB in all."""
    regions = Regions(cut_of(2048, 256, 33, 3, 1, 36).shape)
    assert regions.rows <= max(2 * regions.band, regions.shape.out[1] + regions.reach[0])
    assert regions.memory[0].nbytes < 12 * 4 * 2048 * 33 * 33


@pytest.mark.parametrize("target", TARGETS, ids=target_name)
@pytest.mark.parametrize(
    "given", [(200, 70, 9, 3), (70, 40, 20, 3, 1, 6), (96, 33, 17, 3, 2, 3), (300, 300, 5, 1)]
)
def test_bits_do_not_depend_on_how_many_slices_are_copied_at_once(
    given: tuple[int, ...], target: Target
) -> None:
    op, x, w = layer(*given)
    random = np.random.default_rng(3)
    arrays = [random.standard_normal(each.shape).astype(BFLOAT16) for each in (x, w)]
    conv, results, chunks = BfloatConv.of(op, np.dtype(np.float32)), [], set()
    for l2_bytes in (2 << 20, 16 << 10):
        small = replace(target, tiles=TileWays(bf16=target.tiles.bf16 or EMULATED), l2_bytes=l2_bytes)
        cut = cut_of(*given, target=small)
        chunks.add(cut.chunk == cut.slices)
        offered = lowerings_of(conv, [*arrays, None, None], small, True)
        (lowering,) = (each for each in offered if each.name == "tiles_bfloat16")
        results += run_lowering(conv, lowering, [*arrays, None, None], small, chunk=len(results), junk=0x5A)
    assert chunks == {True, False}
    np.testing.assert_array_equal(results[0], results[1])
    (want,) = conv.compute(*arrays, None, None)
    np.testing.assert_allclose(results[0], want, rtol=0, atol=1e-5 * np.abs(want).max())


@pytest.mark.parametrize("target", TARGETS, ids=target_name)
@pytest.mark.parametrize("given", [(256, 250, 7, 3), (96, 300, 9, 5), (520, 264, 6, 1)])
def test_parts_of_a_band_share_its_copy_wherever_a_thread_begins(
    given: tuple[int, ...], target: Target
) -> None:
    """Two images, whose filters are shared out: pieces of 1 and of 3 items begin anywhere in a band."""
    small = replace(target, tiles=TileWays(bf16=target.tiles.bf16 or EMULATED), l2_bytes=512 << 10)
    op, x, w = layer(*given)
    x = TensorType(BFLOAT16, (2, *x.shape[1:]))
    cut = TileCut.of(op.shape(x, w).deep(), small.l2_bytes)
    assert cut.pieces[1] > 1
    assert cut.has_far_weights
    random = np.random.default_rng(5)
    arrays = [random.standard_normal(each.shape).astype(BFLOAT16) for each in (x, w)]
    residual = random.standard_normal((2, *given[1:2], *given[2:3] * 2)).astype(np.float32)
    conv = BfloatConv.of(replace(op, residual=True), np.dtype(np.float32))
    inputs = [*arrays, None, residual]
    offered = lowerings_of(conv, inputs, small, True)
    (lowering,) = (each for each in offered if each.name == "tiles_bfloat16")
    found = [run_lowering(conv, lowering, inputs, small, chunk=chunk, junk=0x5A)[0] for chunk in (0, 1, 3)]
    (want,) = conv.compute(*inputs)
    np.testing.assert_allclose(found[0], want, rtol=0, atol=1e-5 * np.abs(want).max())
    for each in found[1:]:
        np.testing.assert_array_equal(each, found[0])


@pytest.mark.parametrize("target", TARGETS, ids=target_name)
def test_numbers_beside_a_window_of_few_channels_do_not_count(target: Target) -> None:
    """A row of 5 pixels of 3 channels is read as 32 numbers: what lies behind it may be NaN, or the end of memory."""
    target = replace(target, tiles=TileWays(bf16=EMULATED))
    op = BfloatConv(strides=(1, 2), pads=((1, 1), (2, 0)))
    x, w = seeded((2, 3, 9, 21), 3), rounded(seeded((20, 3, 3, 5), 4))
    x[0, 1, 4, 7], x[1, 0, 8, 20] = np.nan, np.inf
    arrays = [x, w, None, None]
    (lowering,) = (
        each for each in lowerings_of(op, arrays, target, True) if each.name == "tiles_bfloat16_few"
    )
    (y,) = run_lowering(op, lowering, arrays, target, junk=0x5A)
    with np.errstate(invalid="ignore"):
        (want,) = op.compute(x, w, None, None)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(want))
    np.testing.assert_allclose(y[~np.isnan(want)], want[~np.isnan(want)], atol=1e-5)


@pytest.mark.parametrize("ahead", [0, 5, 32])
def test_a_step_is_four_products_and_four_loads(ahead: int) -> None:
    """Compiled and looked at on any x86-64 machine; tiles are released once, on the only way out."""
    if not jit.host_target().triple.startswith("x86"):
        pytest.skip("LLVM here does not compile for x86-64")
    spec = TilesBfloatSpec(
        tiles="amx-bf16", narrow=False, ragged=False, part=False, clip=False, rows=False, residual=True,
        activation=Activation("relu"), ahead=ahead, kept=("y", "residual"), way="avx512bf16",
    )  # fmt: skip
    code = jit.assembly(spec.emit(LARGE))
    lines = [line.split() for line in code.splitlines() if line.startswith("\t")]
    count = Counter(line[0] for line in lines)
    assert count["ldtilecfg"] == count["tilerelease"] == count["retq"] - 1 == 1
    assert count["tdpbf16ps"] == count["tilezero"] == count["tilestored"] == 4
    assert count["tileloadd"] == 8  # four of them of sums that were kept
    assert count["prefetcht1"] == ahead
    assert count["callq"] == 1  # of the body, by the entry
