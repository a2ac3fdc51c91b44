"""Convolutions of bytes around computed zero points beside PyTorch's sums in float64: every bit, in every way in which
this machine multiplies bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cenote.codegen import jit
from cenote.core.target import EMULATED, PAIRS, TILE_EXTENSIONS, Target, TileWays
from cenote.core.types import Array, TensorType
from cenote.kernels.elementwise.activations import Activation
from cenote.ops.conv.conv import Conv
from cenote.ops.quantization.quantized_linear import ConvInteger, ConvIntegerToFloat
from tests.codegen import bochs
from tests.harness import Native, native_call, run_lowering
from tests.targets import TARGETS, anywhere

torch = pytest.importorskip("torch")

# A machine with the instruction runs both.
WAYS = [replace(target, dots=way) for target in TARGETS for way in dict.fromkeys((target.dots, PAIRS))]
named = pytest.mark.parametrize("target", WAYS, ids=lambda target: f"{target.name}-{target.dots}")
ON_TILES = "quantized_tiles"
CONVOLUTIONS = (torch.conv1d, torch.conv2d, torch.conv3d)


@dataclass(frozen=True)
class Case:
    """A convolution of `size` pixels along each of `rank` axes."""

    c: int
    size: int
    k: int
    window: int
    rank: int = 2
    n: int = 1
    stride: int = 1
    pad: int = 0
    groups: int = 1
    x: Any = np.uint8
    x_zero: int = 0
    w: Any = np.int8
    w_zero: int = 0
    extreme: bool = False

    @property
    def conv(self) -> Conv:
        return Conv(
            groups=self.groups, pads=((self.pad, self.pad),) * self.rank, strides=(self.stride,) * self.rank
        )

    def arrays(self) -> tuple[Array, ...]:
        """x, weights, and their zero points. `extreme`: only the largest numbers, whose sums VPMADDUBSW saturates."""
        random = np.random.default_rng(list(repr(self).encode()))
        found = []
        for shape, dtype in (
            ((self.n, self.c, *[self.size] * self.rank), self.x),
            ((self.k, self.c // self.groups, *[self.window] * self.rank), self.w),
        ):
            limits = np.iinfo(dtype)
            if self.extreme:
                found.append(np.full(shape, limits.max, dtype))
            else:
                found.append(random.integers(limits.min, limits.max, shape, dtype, endpoint=True))
        return (*found, np.array(self.x_zero, self.x), np.array(self.w_zero, self.w))

    def sums(self) -> Array:
        x, w, x_zero, w_zero = (each.astype(np.float64) for each in self.arrays())
        padded = np.pad(x - x_zero, ((0, 0), (0, 0), *((self.pad, self.pad),) * self.rank))
        convolution = CONVOLUTIONS[self.rank - 1]
        y = convolution(
            torch.from_numpy(padded), torch.from_numpy(w - w_zero), None, self.stride, 0, 1, self.groups
        )
        return y.numpy().astype(np.int64).astype(np.int32)


def found(
    op: Any,
    arrays: list[Array],
    computed: tuple[int, ...],
    target: Target,
    only: str = "",
    native: Native = native_call,
) -> list[Array]:
    """What the lowerings (or those of one name) give, whole and in pieces. `computed`: inputs that are no constants."""
    types = [
        TensorType.of(array.dtype, array.shape) if place in computed else TensorType.known(array)
        for place, array in enumerate(arrays)
    ]
    made = []
    for lowering in op.lowerings(types, target):
        for chunk, junk in ((0, 0xFF), (1, 0x5A)):
            if only in ("", lowering.name):
                made += run_lowering(op, lowering, arrays, target, chunk=chunk, junk=junk, native=native)
    assert made
    return made


CASES = [
    Case(32, 9, 32, 3, pad=1, x_zero=77),
    Case(3, 17, 16, 7, stride=2, pad=3, x_zero=255),
    Case(20, 10, 36, 1, n=2, x=np.int8, x_zero=-128),
    Case(24, 8, 24, 3, pad=1, x=np.int8, x_zero=127, w=np.uint8, w_zero=128),
    Case(40, 6, 40, 3, pad=1, groups=40, x_zero=3),
    Case(64, 5, 160, 1, rank=1, groups=2),
    Case(17, 11, 88, 3, rank=1, pad=2, x_zero=9),
    Case(16, 4, 40, 2, rank=3, pad=1, x_zero=120),
    Case(512, 3, 16, 3, pad=1, extreme=True),
    Case(32, 1, 300, 1, x_zero=5),
]


@named
@pytest.mark.parametrize("case", CASES, ids=str)
def test_sums_around_constant_and_computed_zero_points_are_exact(case: Case, target: Target) -> None:
    arrays, want = [*case.arrays()], case.sums()
    for computed in ((0,), (0, 2)):
        for y in found(ConvInteger(case.conv), arrays, computed, target):
            np.testing.assert_array_equal(y, want)


def check_on_tiles(case: Case, target: Target, native: Native = native_call) -> None:
    """Sums, and floats of them, around constant and computed zero points, scales and biases."""
    x, w, x_zero, w_zero = case.arrays()
    random, want = np.random.default_rng(5), case.sums()
    each = (case.k, *[1] * case.rank)
    scale = random.uniform(0.001, 0.01, each).astype(np.float32)
    bias = random.standard_normal(each).astype(np.float32)
    floats = np.maximum(want.astype(np.float32) * scale + bias, 0)
    relu = ConvIntegerToFloat(case.conv, Activation("relu"))
    for computed in ((0,), (0, 2)):
        for y in found(ConvInteger(case.conv), [*case.arrays()], computed, target, ON_TILES, native):
            np.testing.assert_array_equal(y, want)
    for computed in ((0,), (0, 2, 3, 5)):
        for y in found(relu, [x, w, scale, x_zero, w_zero, bias], computed, target, ON_TILES, native):
            np.testing.assert_array_equal(y, floats)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_sums_and_floats_on_tiles_are_exact(case: Case, target: Target) -> None:
    check_on_tiles(case, replace(target, tiles=TileWays(target.tiles.int8 or EMULATED)))


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_windows_that_outgrow_the_level_2_cache_are_copied_in_parts_on_tiles(target: Target) -> None:
    """Three and five parts, the last of which is shorter."""
    small = replace(target, tiles=TileWays(target.tiles.int8 or EMULATED), l2_bytes=8 << 10)
    for case in (Case(32, 9, 70, 3, pad=1, x_zero=77), Case(64, 5, 33, 3, n=2, x=np.int8, x_zero=-128)):
        check_on_tiles(case, small)


@pytest.mark.skipif(not bochs.PATH, reason=bochs.ABSENT)
@pytest.mark.parametrize("case", CASES[:6], ids=str)
def test_sums_and_floats_are_exact_by_the_instructions_of_amx(case: Case) -> None:
    target = replace(anywhere("avx512"), tiles=TILE_EXTENSIONS["avx512"], l2_bytes=16 << 10)
    check_on_tiles(case, target, bochs.amx_call)


@named
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("case", CASES[::3], ids=str)
def test_floats_of_sums_round_at_each_step(case: Case, many: bool, target: Target) -> None:
    x, w, x_zero, w_zero = case.arrays()
    random = np.random.default_rng(5)
    each = (case.k, *[1] * case.rank)
    scale = random.uniform(0.001, 0.01, each if many else ()).astype(np.float32)
    bias = random.standard_normal(each).astype(np.float32)
    want = np.maximum(case.sums().astype(np.float32) * scale + bias, 0)
    op = ConvIntegerToFloat(case.conv, Activation("relu"))
    for computed in ((0,), (0, 2, 3, 5)):
        for y in found(op, [x, w, scale, x_zero, w_zero, bias], computed, target):
            np.testing.assert_array_equal(y, want)
    plain = ConvIntegerToFloat(case.conv)
    for y in found(plain, [x, w, scale, x_zero, w_zero], (0, 2), target):
        np.testing.assert_array_equal(y, case.sums().astype(np.float32) * scale)


@given(
    groups=st.sampled_from([1, 1, 2, 5]), c=st.integers(1, 24), k=st.integers(1, 40), size=st.integers(3, 9),
    window=st.integers(1, 3), stride=st.integers(1, 2), pad=st.integers(0, 2), rank=st.integers(1, 2),
    signed=st.booleans(), zero=st.integers(-128, 127),
)  # fmt: skip
@settings(max_examples=25)
def test_any_sums_are_exact(
    groups: int, c: int, k: int, size: int, window: int, stride: int, pad: int, rank: int, signed: bool, zero: int
) -> None:  # fmt: skip
    kinds: dict[str, Any] = {"x": np.int8, "x_zero": zero} if signed else {"x_zero": zero + 128}
    case = Case(c * groups, size, k * groups, window, rank, 1, stride, pad, groups, **kinds)
    for y in found(ConvInteger(case.conv), [*case.arrays()], (0, 2), jit.host_target()):
        np.testing.assert_array_equal(y, case.sums())


def test_weights_that_are_computed_or_far_from_their_zero_point_are_left_to_the_reference() -> None:
    x, w, x_zero, w_zero = Case(8, 4, 8, 1, w=np.uint8, w_zero=3).arrays()
    target, op = jit.host_target(), ConvInteger()
    constants = [TensorType.of(x.dtype, x.shape), *map(TensorType.known, (w, x_zero, w_zero))]
    assert not [*op.lowerings(constants, target)]
    near = np.array(128, np.uint8)
    assert [*op.lowerings([*constants[:3], TensorType.known(near)], target)]
    assert not [*op.lowerings([constants[0], TensorType.of(w.dtype, w.shape), *constants[2:]], target)]
