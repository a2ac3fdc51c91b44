"""Convolutions of bytes beside PyTorch's in float64, which has their sums exactly: every bit, in every way in which
this machine multiplies bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import cenote
from cenote.codegen import jit
from cenote.core.target import EMULATED, PAIRS, TILE_EXTENSIONS, Target, TileWays
from cenote.core.types import Array
from cenote.kernels.quantized.conv import ConvQuantizedSpec
from cenote.kernels.quantized.depthwise_rows import DepthwiseRowsSpec
from cenote.ops.conv.conv import Conv
from cenote.ops.quantization.quantized_linear import QLinearConv
from tests.codegen import bochs
from tests.harness import calls_of, input_types, lowerings_of, run_lowering
from tests.targets import LARGE, TARGETS, anywhere

torch = pytest.importorskip("torch")

# A machine with the instruction runs both.
WAYS = [replace(target, dots=way) for target in TARGETS for way in dict.fromkeys((target.dots, PAIRS))]
named = pytest.mark.parametrize("target", WAYS, ids=lambda target: f"{target.name}-{target.dots}")


@dataclass(frozen=True)
class Case:
    """A convolution: images, channels, pixels of a side, filters, window, and what differs from the plain one."""

    n: int
    c: int
    size: int
    k: int
    window: int
    stride: int = 1
    pad: int = 0
    groups: int = 1
    dilation: int = 1
    x: Any = np.uint8
    x_zero: int = 0
    w: Any = np.int8
    w_zero: int = 0
    y: Any = np.uint8
    y_zero: int = 13
    bounds: tuple[int, int] | None = None
    extreme: bool = False
    width: int = 0  # of the picture, where it is not a square
    steps: float = 1.0  # of y, as a multiple of what suits the sums

    def operator(self) -> QLinearConv:
        pads = ((self.pad, self.pad),) * 2
        conv = Conv(groups=self.groups, pads=pads, strides=(self.stride,) * 2, dilations=(self.dilation,) * 2)
        return QLinearConv(conv, self.bounds)

    def arrays(self) -> tuple[Array, ...]:
        """The operator's inputs. `extreme`: only the largest numbers, whose sums VPMADDUBSW would saturate."""
        random = np.random.default_rng(hash(self) % 2**32)

        def whole(shape: tuple[int, ...], dtype: Any) -> Array:
            info = np.iinfo(dtype)
            if self.extreme:
                return np.full(shape, info.max if dtype == self.x else info.min, dtype)
            return random.integers(info.min, info.max + 1, shape).astype(dtype)

        x = whole((self.n, self.c, self.size, self.width or self.size), self.x)
        weights = whole((self.k, self.c // self.groups, self.window, self.window), self.w)
        depth = self.c // self.groups * self.window**2
        scale = np.float32(0.03)
        w_scales = (random.random(self.k) * 0.02 + 0.001).astype(np.float32)
        y_scale = np.float32(0.4 * np.sqrt(depth) * self.steps)
        bias = random.integers(-5000, 5000, self.k).astype(np.int32)
        zeros = (self.x(self.x_zero), self.w(self.w_zero), self.y(self.y_zero))
        x_zero, w_zero, y_zero = (np.array(each) for each in zeros)
        return x, np.array(scale), x_zero, weights, w_scales, w_zero, np.array(y_scale), y_zero, bias

    def expected(self, constants: Sequence[Array] = ()) -> Array:
        """The result by PyTorch's sums and onnxruntime's rounding: all in float32, halves to even. `constants`: all
        inputs but x, where they are another case's."""
        x, *own = self.arrays()
        x_scale, x_zero, w, w_scales, w_zero, y_scale, y_zero, bias = constants or own
        padding = ((0, 0), (0, 0), *((self.pad, self.pad),) * 2)
        centred = np.pad(x.astype(np.float64) - float(x_zero), padding)
        sums = torch.nn.functional.conv2d(
            torch.from_numpy(centred), torch.from_numpy(w.astype(np.float64) - float(w_zero)),
            torch.from_numpy(bias.astype(np.float64)), self.stride, 0, self.dilation, self.groups,
        ).numpy()  # fmt: skip
        scales = (x_scale * w_scales / y_scale).reshape(1, -1, 1, 1)
        rounded = np.rint(sums.astype(np.int32).astype(np.float32) * scales).astype(np.float64)
        low, high = self.bounds or (np.iinfo(self.y).min, np.iinfo(self.y).max)
        result: Array = np.clip(rounded + float(y_zero), low, high).astype(self.y)
        return result


def check(case: Case, target: Target, least: int = 1, only: str = "") -> list[str]:
    """Run every lowering (or those of one name), whole and in pieces, amid both kinds of junk; return their names."""
    operator, arrays, want = case.operator(), case.arrays(), case.expected()
    found = [each for each in lowerings_of(operator, arrays, target, True) if each.name.startswith(only)]
    assert len(found) >= least, case
    for index, lowering in enumerate(found):
        chunk, junk = (0, 0xFF) if index % 2 else (1, 0x5A)
        (y,) = run_lowering(operator, lowering, arrays, target, chunk=chunk, junk=junk)
        np.testing.assert_array_equal(y, want, err_msg=f"{case} by {lowering.name}")
    return [lowering.name for lowering in found]


CASES = [
    Case(1, 32, 9, 32, 1),
    Case(2, 16, 7, 48, 3, 1, 1),
    Case(1, 20, 10, 36, 3, 2, 1),
    Case(1, 3, 17, 16, 7, 2, 3, x_zero=114),
    Case(2, 3, 9, 24, 3, 2, 1, x_zero=114, x=np.int8),
    Case(2, 2, 6, 16, 5, 1, 2, width=7),
    Case(3, 1, 4, 16, 3, 1, 1, extreme=True),
    Case(1, 3, 66, 8, 3, 3, 1, x_zero=3),
    Case(1, 7, 11, 19, 3, 1, 1, x_zero=3),
    Case(1, 64, 6, 64, 3, 1, 1, groups=2),
    Case(1, 40, 5, 30, 1, x=np.int8, x_zero=-3, y=np.int8),
    Case(2, 24, 8, 24, 3, 1, 1, x=np.int8, y=np.int8, y_zero=-128),
    Case(1, 24, 8, 24, 3, 1, 1, x_zero=77, bounds=(13, 200)),
    Case(1, 16, 12, 16, 3, 1, 2, dilation=2, w=np.uint8, w_zero=128),
    Case(1, 288, 4, 33, 3, 1, 1),
    Case(1, 2048, 2, 17, 1),
    Case(1, 16, 1, 20, 1, width=3),
    Case(1, 16, 1, 20, 1, width=7, x=np.int8, y=np.int8, y_zero=-128),
    Case(1, 512, 3, 16, 3, 1, 1, extreme=True),
    Case(1, 64, 4, 16, 1, x=np.int8, x_zero=-128, extreme=True),
    Case(1, 16, 7, 24, 3, 1, 1, x_zero=128, y=np.int8, y_zero=127, bounds=(-100, 127), steps=1e-12),
    Case(1, 16, 5, 40, 1, x_zero=128, y=np.int8, y_zero=-128, steps=1e-12),
]
DEPTHWISE = [
    Case(1, 32, 9, 32, 3, 1, 1, groups=32),
    Case(2, 20, 12, 20, 3, 2, 1, groups=20),
    Case(1, 20, 12, 20, 5, 1, 2, groups=20, x_zero=9),
    Case(1, 24, 12, 48, 5, 1, 2, groups=24, x=np.int8, x_zero=-128, y=np.int8),
    Case(1, 24, 12, 24, 3, 1, 1, groups=24, w=np.uint8, w_zero=3),
    Case(1, 16, 9, 16, 3, 1, 1, groups=16, extreme=True),
    Case(1, 24, 11, 24, 3, 1, 1, groups=24, x=np.int8, x_zero=-3, y=np.int8),
    Case(1, 24, 15, 24, 3, 2, 1, groups=24, x_zero=77, bounds=(13, 200)),
    Case(1, 20, 9, 20, 2, groups=20),
    Case(2, 20, 9, 20, 4, 1, 2, groups=20),
    Case(1, 20, 3, 20, 3, groups=20),
    Case(1, 20, 2, 20, 3, 1, 1, groups=20),
    Case(1, 16, 7, 16, 3, 1, 1, groups=16, x_zero=128, y=np.int8, y_zero=127, bounds=(-99, 127), steps=1e-12),
]

# Dilated, so that many taps see the padding, or all but the middle one.
APART = [
    Case(1, 20, 7, 20, 3, 1, 4, groups=20, dilation=4, x_zero=9),
    Case(2, 24, 9, 48, 3, 1, 6, groups=24, dilation=6, x=np.int8, x_zero=-128, y=np.int8),
    Case(1, 16, 6, 16, 3, 1, 12, groups=16, dilation=12, extreme=True),
    Case(1, 16, 5, 16, 5, 1, 4, groups=16, dilation=2, w=np.uint8, w_zero=3, width=9),
]

# Filters in parts, bands of several steps and a shorter last one, images that share a step.
TILES = [
    Case(3, 32, 4, 48, 3, 1, 1, x_zero=9),
    Case(1, 640, 14, 512, 1),
    Case(1, 1024, 11, 544, 1, x=np.int8, y=np.int8, x_zero=5),
    Case(2, 32, 7, 80, 3, 2, 1, groups=2, dilation=2),
]
# Windows one apart: maps of whole tiles and shorter ones, an odd number of channel blocks, few tiles for many filters
# (two calls).
WINOGRAD = [
    Case(1, 32, 8, 32, 3, 1, 1),
    Case(2, 20, 9, 36, 3, 1, 1, x_zero=3),
    Case(1, 24, 6, 16, 3, 1, 1, width=47, x=np.int8, x_zero=-3, y=np.int8, y_zero=-128),
    Case(3, 17, 10, 40, 3, 1, 0, width=13, w=np.uint8, w_zero=128),
    Case(1, 16, 4, 560, 3, 1, 1, width=7, x_zero=255, bounds=(13, 200)),
    Case(1, 64, 7, 72, 3, 1, 2, x=np.int8, x_zero=127, y=np.int8),
    Case(2, 48, 64, 64, 3, 1, 1),
]
# Two apart: maps of odd and even sizes, so that the last window ends in the map or past it.
STRIDED = [
    Case(1, 32, 16, 32, 3, 2, 1),
    Case(2, 20, 17, 36, 3, 2, 1, x_zero=3),
    Case(1, 24, 11, 16, 3, 2, 1, width=47, x=np.int8, x_zero=-3, y=np.int8, y_zero=-128),
    Case(3, 17, 20, 40, 3, 2, 0, width=13, w=np.uint8, w_zero=128),
    Case(1, 16, 8, 560, 3, 2, 1, width=14, x_zero=255, bounds=(13, 200)),
    Case(1, 64, 11, 72, 3, 2, 2, x=np.int8, x_zero=127, y=np.int8),
    Case(1, 160, 14, 64, 3, 2, 1, extreme=True),
    Case(2, 48, 66, 64, 3, 2, 1),
]


@named
@pytest.mark.parametrize("case", [*WINOGRAD, *STRIDED], ids=str)
def test_winograd_convolutions_of_bytes_have_every_bit(case: Case, target: Target) -> None:
    apart = "_strided" if case in STRIDED else ""
    assert {f"quantized_winograd_f{side}{apart}" for side in (4, 2)} <= {*check(case, target)}


@named
@pytest.mark.parametrize(("channels", "fits"), [(114, True), (115, False)])
def test_tiles_of_16_results_are_offered_where_the_largest_sums_are_exact(
    channels: int, fits: bool, target: Target
) -> None:
    """114 channels of -128 * 255 are just within 2^25."""
    case = Case(1, channels, 5, 16, 3, 1, 1, extreme=True, y=np.int8)
    arrays = list(case.arrays())
    arrays[1] = arrays[6] = np.array(1, np.float32)
    arrays[4] = np.full(16, 2.0**-18, np.float32)
    arrays[8][:] = 0
    found = lowerings_of(case.operator(), arrays, target, True)
    names = [lowering.name for lowering in found]
    assert ("quantized_winograd_f4" in names) == fits
    assert "quantized_winograd_f2" in names
    inside = np.pad(np.full((3, 3), 9), 1, constant_values=6)
    inside[[0, 0, 4, 4], [0, 4, 0, 4]] = 4
    want = np.rint(inside * (-128 * 255 * channels) * 2.0**-18) + 13
    for lowering in found:
        (y,) = run_lowering(case.operator(), lowering, arrays, target)
        np.testing.assert_array_equal(y, np.broadcast_to(want, y.shape), err_msg=lowering.name)


@named
def test_numbers_of_16_bits_are_offered_where_bytes_would_be_taken_apart(target: Target) -> None:
    case = CASES[0]
    names = [lowering.name for lowering in lowerings_of(case.operator(), case.arrays(), target, True)]
    assert ("quantized_wide" in names) == (target.dots == PAIRS and target.vector_bytes == 32)


# Pixels one after the other, some of them, of several images; filters of an odd number of blocks; bands of an odd size.
COPIED = [
    Case(1, 32, 19, 24, 1, x_zero=9),
    Case(2, 20, 13, 40, 1, 2, x=np.int8, x_zero=-3, y=np.int8),
    Case(7, 16, 3, 32, 1, x=np.int8, x_zero=5),
    Case(1, 48, 1, 16, 1, width=101, bounds=(13, 200)),
    Case(1, 64, 12, 72, 1, extreme=True),
]


@named
@pytest.mark.parametrize("case", COPIED, ids=str)
def test_bands_that_kernels_copy_have_every_bit(case: Case, target: Target) -> None:
    check(case, target)
    operator, arrays = case.operator(), case.arrays()
    for lowering in lowerings_of(operator, arrays, target, True):
        if lowering.name in ("quantized", "quantized_wide"):
            specs = [call.spec for call in calls_of(operator, lowering, input_types(arrays, True))]
            copying = [spec.copies for spec in specs if isinstance(spec, ConvQuantizedSpec)]
            assert copying
            assert set(copying) == {lowering.name == "quantized_wide"}


@pytest.mark.parametrize("window", [1, 3])
def test_convolutions_of_any_size_have_every_bit(window: int) -> None:
    case = Case(1, 16, 12, 32, window, 1, window // 2, x_zero=7)
    _, *constants = case.arrays()
    names = ["x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero", "b"]
    node = helper.make_node("QLinearConv", ["x", *names], ["y"], pads=[window // 2] * 4)
    ends = [
        helper.make_tensor_value_info(name, TensorProto.UINT8, ["n", channels, "h", "w"])
        for name, channels in (("x", 16), ("y", 32))
    ]
    weights = [
        numpy_helper.from_array(np.asarray(each), name) for name, each in zip(names, constants, strict=True)
    ]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], weights)
    model = cenote.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    for n, size, width in ((1, 56, 56), (2, 4, 5), (1, 3, 1), (3, 9, 30)):
        other = replace(case, n=n, size=size, width=width)
        x, *_ = other.arrays()
        np.testing.assert_array_equal(model(x), other.expected(constants))


@named
@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolutions_of_bytes_have_every_bit(case: Case, target: Target) -> None:
    assert "quantized" in check(case, target)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("case", [*CASES, *TILES], ids=str)
def test_convolutions_of_bytes_on_tiles_have_every_bit(case: Case, target: Target) -> None:
    tiles = TileWays(target.tiles.int8 or EMULATED)
    assert "quantized_tiles" in check(case, replace(target, tiles=tiles), only="quantized_tiles")


@pytest.mark.parametrize(
    ("case", "wanted"),
    [
        (Case(1, 256, 56, 64, 1), "quantized_tiles"),
        (Case(1, 512, 7, 512, 3, 1, 1), "quantized_tiles"),
        (Case(1, 3, 224, 64, 7, 2, 3), "quantized"),
        (Case(1, 16, 7, 16, 1), "quantized"),
    ],
    ids=str,
)
def test_tiles_are_chosen_for_layers_of_many_channels(case: Case, wanted: str) -> None:
    """Beside the instruction that adds four products, which is quicker for few."""
    target = replace(LARGE, dots="avx512vnni", tiles=TILE_EXTENSIONS["avx512"])
    found = lowerings_of(case.operator(), case.arrays(), target, True)
    assert min(found, key=lambda each: each.seconds).name == wanted


@pytest.mark.skipif(not bochs.PATH, reason=bochs.ABSENT)
@pytest.mark.parametrize("case", [*CASES, TILES[0], TILES[3]], ids=str)
def test_convolutions_of_bytes_have_every_bit_by_the_instructions_of_amx(case: Case) -> None:
    operator, arrays = case.operator(), case.arrays()
    target = replace(anywhere("avx512"), tiles=TILE_EXTENSIONS["avx512"])
    for lowering in lowerings_of(operator, arrays, target, True):
        if lowering.name == "quantized_tiles":
            (y,) = run_lowering(operator, lowering, arrays, target, native=bochs.amx_call)
            np.testing.assert_array_equal(y, case.expected())


@named
@pytest.mark.parametrize("case", DEPTHWISE, ids=str)
def test_depthwise_convolutions_of_bytes_have_every_bit(case: Case, target: Target) -> None:
    assert "quantized_depthwise" in check(case, target)


@named
@pytest.mark.parametrize("case", APART, ids=str)
def test_dilated_depthwise_convolutions_of_bytes_have_every_bit_in_regions(
    case: Case, target: Target
) -> None:
    assert {"quantized_depthwise", "quantized_depthwise_regions"} <= {*check(case, target)}


@named
def test_rows_of_depthwise_windows_are_products_of_four_where_an_instruction_adds_them(
    target: Target,
) -> None:
    case = DEPTHWISE[0]
    lowering, *_ = lowerings_of(case.operator(), case.arrays(), target, True)
    *_, call = calls_of(case.operator(), lowering, input_types(case.arrays(), True))
    assert isinstance(call.spec, DepthwiseRowsSpec) == (target.dots != PAIRS)


@given(
    n=st.integers(1, 2), groups=st.sampled_from([1, 1, 2, 16]), c=st.integers(1, 24), k=st.integers(1, 24),
    size=st.integers(3, 9), window=st.integers(1, 3), stride=st.integers(1, 2), pad=st.integers(0, 2),
    signed=st.booleans(), zero=st.integers(-128, 127), y_zero=st.integers(-128, 127),
)  # fmt: skip
@settings(max_examples=25)
def test_any_convolution_of_bytes_has_every_bit_or_is_left_to_the_reference(
    n: int, groups: int, c: int, k: int, size: int, window: int, stride: int, pad: int, signed: bool, zero: int,
    y_zero: int,
) -> None:  # fmt: skip
    kinds = {"x": np.int8, "y": np.int8} if signed else {"x": np.uint8, "y": np.uint8}
    shift = 0 if signed else 128
    case = Case(
        n, c * groups, size, k * groups, window, stride, pad, groups,
        x_zero=zero + shift, y_zero=y_zero + shift, **kinds,
    )  # fmt: skip
    check(case, jit.host_target(), least=int(groups == 1))


@named
def test_weights_that_outgrow_the_level_2_cache_are_read_in_passes(target: Target) -> None:
    case = Case(1, 64, 5, 32, 3, 1, 1)
    small = replace(target, l2_bytes=8 << 10)
    lowering, *_ = lowerings_of(case.operator(), case.arrays(), small, True)
    types = input_types(case.arrays(), True)
    assert all(
        call.word("chunk") < call.word("entries") for call in calls_of(case.operator(), lowering, types)
    )
    check(case, small)


@named
@pytest.mark.parametrize("y_zero", [0, 13])
def test_halves_round_to_even_numbers_before_the_zero_point_is_added(y_zero: int, target: Target) -> None:
    arrays = list(Case(1, 16, 5, 16, 1).arrays())
    one, half = np.array(1, np.float32), np.full(16, 0.5, np.float32)
    arrays[0] //= 64
    arrays[3] //= 32
    arrays[1], arrays[4], arrays[6], arrays[7] = one, half, one, np.array(y_zero, np.uint8)
    arrays[8][:] = 60
    sums = np.einsum("kc,chw->khw", arrays[3][:, :, 0, 0].astype(int), arrays[0][0].astype(int)) + 60
    want = np.clip(np.rint(sums / 2) + y_zero, 0, 255).astype(np.uint8)[None]
    assert (sums % 2).any()
    for lowering in lowerings_of(QLinearConv(), arrays, target, True):
        (y,) = run_lowering(QLinearConv(), lowering, arrays, target)
        np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize(("place", "value"), [(6, 0.0), (4, np.inf), (4, np.nan)])
def test_scales_that_are_no_finite_factors_are_left_to_the_reference(place: int, value: float) -> None:
    case = Case(1, 16, 4, 16, 1)
    arrays = list(case.arrays())
    arrays[place] = np.full_like(arrays[place], value)
    assert not lowerings_of(case.operator(), arrays, jit.host_target(), True)


def test_weights_too_far_from_their_zero_point_are_left_to_the_reference() -> None:
    case = Case(1, 16, 4, 16, 1, w=np.uint8, w_zero=3)
    assert not lowerings_of(case.operator(), case.arrays(), jit.host_target(), True)
