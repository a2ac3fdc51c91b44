"""Sums of products of bfloat16 and roundings to it: the rule in float64, on every target, and in both ways."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from cenote.codegen import jit
from cenote.codegen.bfloat import Bfloat, rounded
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import BF16, F32
from cenote.core.target import EMULATED, Target
from cenote.core.types import BFLOAT16, Array
from tests.codegen.sums import flushed, multiply_added, numbers
from tests.targets import TARGETS, anywhere


class OneSum:
    """Source of a kernel that adds two products in each lane, once per item."""

    def __init__(self, way: str) -> None:
        self.way, self.symbol = way, f"test_bfloat_sum_{way}"

    def emit(self, target: Target) -> Kernel:
        lanes = target.lanes()
        words = [Parameter(name, kind, pointer=True) for name, kind in (("x", BF16), ("w", BF16), ("y", F32))]
        k = Kernel(self.symbol, target, words)
        dots = Bfloat(k, self.way, lanes)
        for item in k.range(k.begin, k.end):
            y = k.pointer("y") + item * lanes
            weights = dots.weights(k.pointer("w") + item * (2 * lanes))
            y.store(dots.added(y.load(0, lanes), dots.spread(k.pointer("x") + item * 2), weights))
        return k


class Rounding:
    """Source of a kernel that rounds float32 numbers."""

    def __init__(self, way: str) -> None:
        self.way, self.symbol = way, f"test_bfloat_rounding_{way}"

    def emit(self, target: Target) -> Kernel:
        lanes = target.lanes()
        words = [Parameter(name, kind, pointer=True) for name, kind in (("x", F32), ("y", BF16))]
        k = Kernel(self.symbol, target, words)
        dots = Bfloat(k, self.way, lanes)
        for item in k.range(k.begin, k.end):
            narrow = dots.narrowed((k.pointer("x") + item * lanes).load(0, lanes))
            (k.pointer("y") + item * lanes).store(narrow)
        return k


def run(source: OneSum | Rounding, target: Target, items: int, *arrays: Array) -> None:
    address = jit.addresses([source], target)[source.symbol]
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(
        address
    )
    words = (ctypes.c_int64 * len(arrays))(*(each.ctypes.data for each in arrays))
    function(ctypes.addressof(words), 0, items, None)


def ways(target: Target) -> list[str]:
    """Both ways where the machine has the extension."""
    return [*dict.fromkeys((target.bfloat or EMULATED, EMULATED))]


def wanted(total: Array, x: Array, w: Array) -> Array:
    """The rule: the second product first, each sum rounded and flushed."""
    for half in (1, 0):
        factors = flushed(x[..., half].astype(np.float32)), flushed(w[..., half].astype(np.float32))
        total = flushed(multiply_added(flushed(total), *factors))
    return total


@pytest.mark.parametrize("spread", [2, 14, 62])
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_sums_follow_the_rule(target: Target, spread: int) -> None:
    random, lanes, items = np.random.default_rng(spread), target.lanes(), 3000
    x = numbers(random, (items, 1, 2), spread).astype(BFLOAT16)
    w = numbers(random, (items, lanes, 2), spread).astype(BFLOAT16)
    start = numbers(random, (items, lanes), spread)
    with np.errstate(all="ignore"):
        want = wanted(start, x, w)
    for way in ways(target):
        y = start.copy()
        run(OneSum(way), target, items, x, w, y)
        np.testing.assert_array_equal(y.view(np.int32), want.view(np.int32), err_msg=way)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_sums_of_special_numbers(target: Target) -> None:
    """NaN, infinities, zeros of both signs, and numbers below and just above the smallest normal one."""
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-39, -1e-39, 1.0, -1.0, 3.0]
    # Products beyond the range of normal numbers are rounded by themselves where there is no fused multiply-add.
    special += [1.5e-38, -1.5e-38, 3e38, 2e-20] * target.has_fma
    values = np.array(special, np.float32).astype(BFLOAT16)
    pairs = np.array(np.meshgrid(values, values, values[:10], indexing="ij")).reshape(3, -1).T
    lanes, items = target.lanes(), len(pairs)
    random = np.random.default_rng(1)
    x, w = pairs[:, None, :2].copy(), random.choice(values, (items, lanes, 2))
    start = np.repeat(pairs[:, 2:].astype(np.float32), lanes, axis=1)
    with np.errstate(all="ignore"):
        want = wanted(start, x, w)
    for way in ways(target):
        y = start.copy()
        run(OneSum(way), target, items, x, w, y)
        np.testing.assert_array_equal(y, want, err_msg=way)  # NaN equals NaN, whatever its payload
        known = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(y)[known], np.signbit(want)[known], err_msg=way)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_numbers_are_rounded_to_nearest_even(target: Target) -> None:
    random, lanes = np.random.default_rng(5), target.lanes()
    bits = random.integers(0, 1 << 32, 1 << 16, dtype=np.uint64).astype(np.uint32)
    ties = (bits & np.uint32(0xFFFF0000)) | np.uint32(0x8000)
    x = np.concatenate((bits, ties, bits & np.uint32(0x807FFFFF))).view(np.float32)
    known = ~np.isnan(x)
    # Half of the last place upwards where the last bit kept is odd, or more than half is cut off.
    magnitude = x.view(np.uint32).astype(np.int64) & 0x7FFFFFFF
    nearest = np.where(
        magnitude < 0x800000, 0, (magnitude + 0x7FFF + (magnitude >> 16 & 1)) >> 16
    ) | np.where(np.signbit(x), 0x8000, 0)
    np.testing.assert_array_equal(rounded(x).view(np.uint16)[known], nearest[known])
    for way in ways(target):
        y = np.full(x.size, 0x5555, np.uint16)
        run(Rounding(way), target, x.size // lanes, x, y)
        np.testing.assert_array_equal(y[known], nearest[known], err_msg=way)
        assert np.isnan(y[~known].view(BFLOAT16)).all()


def test_the_extension_becomes_its_instructions() -> None:
    """Compiled and looked at on any x86-64 machine, whether it has the extension or not."""
    target = replace(anywhere("avx512"), bfloat="avx512bf16")
    if not jit.host_target().triple.startswith("x86"):
        pytest.skip("LLVM here does not compile for x86-64")
    assert "vdpbf16ps" in jit.assembly(OneSum(target.bfloat).emit(target))
    assert "vcvtneps2bf16" in jit.assembly(Rounding(target.bfloat).emit(target))
