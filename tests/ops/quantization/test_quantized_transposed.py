"""Transposed convolutions of bytes beside PyTorch's in float64, which has their sums exactly: every bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cenote.core.target import EMULATED, PAIRS, TILE_EXTENSIONS, Target, TileWays
from cenote.core.types import Array
from cenote.ops.conv.conv_transpose import ConvTranspose
from cenote.ops.quantization.quantized_transposed import QLinearConvTranspose
from tests.codegen import bochs
from tests.harness import Native, lowerings_of, native_call, run_lowering
from tests.targets import LARGE, TARGETS, anywhere

torch = pytest.importorskip("torch")

WAYS = [replace(target, dots=way) for target in TARGETS for way in dict.fromkeys((target.dots, PAIRS))]


TILED = [replace(target, tiles=TileWays(target.tiles.int8 or EMULATED)) for target in TARGETS]
# Window, stride, padding, output padding, zero point and type of x, channels, filters.
CASES = [
    (2, 2, 0, 0, 77, np.uint8, 37, 18),
    (3, 2, 1, 1, 77, np.uint8, 37, 18),
    (4, 2, 1, 0, -9, np.int8, 37, 18),
    (3, 1, 0, 0, 0, np.uint8, 37, 18),
    (5, 3, 1, 0, -128, np.int8, 64, 65),
]


def named(target: Target) -> str:
    return f"{target.name}-{target.dots}{'-tiles' * bool(target.tiles.int8)}"


@pytest.mark.parametrize("target", [*WAYS, *TILED], ids=named)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_bit_is_that_of_exact_sums(target: Target, case: tuple[Any, ...]) -> None:
    check(case, target)


@pytest.mark.skipif(not bochs.PATH, reason=bochs.ABSENT)
@pytest.mark.parametrize("case", CASES[1:3], ids=str)
def test_every_bit_is_that_of_exact_sums_by_the_instructions_of_amx(case: tuple[Any, ...]) -> None:
    check(case, replace(anywhere("avx512"), tiles=TILE_EXTENSIONS["avx512"]), bochs.amx_call)


def test_tiles_are_chosen_for_many_channels() -> None:
    target = replace(LARGE, dots="avx512vnni", tiles=TILE_EXTENSIONS["avx512"])
    for channels, wanted in ((256, "quantized_phases_tiles"), (16, "quantized_phases")):
        op, given = problem((2, 2, 0, 0, 77, np.uint8, channels, channels))
        found = lowerings_of(op, given, target, True)
        assert min(found, key=lambda each: each.seconds).name == wanted


def problem(case: tuple[Any, ...]) -> tuple[QLinearConvTranspose, tuple[Array, ...]]:
    """Windows side by side and overlapping; borders of a zero point; numbers whose sums saturate 16 bits."""
    window, stride, pad, more, x_zero, kind, channels, filters = case
    info, random = np.iinfo(kind), np.random.default_rng(11)
    x = random.integers(info.min, info.max + 1, (2, channels, 5, 6)).astype(kind)
    w = random.integers(-128, 128, (channels, filters, window, window)).astype(np.int8)
    x[:, :, 2:], w[:, :5] = info.max, -128
    scales = (random.random(filters) * 0.02 + 0.001).astype(np.float32)
    bias = random.integers(-5000, 5000, filters).astype(np.int32)
    given = (
        *(x, np.array(np.float32(0.03)), np.array(x_zero, kind), w, scales, np.array(0, np.int8)),
        *(np.array(np.float32(4.4)), np.array(13, np.uint8), bias),
    )
    conv = ConvTranspose(strides=(stride,) * 2, pads=((pad, pad),) * 2, output_padding=(more,) * 2)
    return QLinearConvTranspose(conv, (20, 200)), given


def check(case: tuple[Any, ...], target: Target, native: Native = native_call) -> None:
    _, stride, pad, more, x_zero, *_ = case
    op, given = problem(case)
    x, x_scale, _, w, scales, _, y_scale, _, bias = given
    sums = torch.nn.functional.conv_transpose2d(
        torch.from_numpy(x.astype(np.float64) - x_zero),
        torch.from_numpy(w.astype(np.float64)),
        torch.from_numpy(bias.astype(np.float64)),
        stride,
        pad,
        more,
    ).numpy()
    scaled = sums.astype(np.float32) * (x_scale * scales / y_scale).reshape(1, -1, 1, 1)
    want = np.clip(np.rint(scaled) + 13, 20, 200).astype(np.uint8)
    found = lowerings_of(op, given, target, True)
    if target.tiles.int8:
        found = [each for each in found if each.name == "quantized_phases_tiles"]
    assert found
    for index, lowering in enumerate(found):
        (y,) = run_lowering(op, lowering, given, target, chunk=index % 2, junk=0x5A, native=native)
        np.testing.assert_array_equal(y, want, err_msg=str(lowering.inputs[0]))
    np.testing.assert_array_equal(op.reference(*given)[0], want)
