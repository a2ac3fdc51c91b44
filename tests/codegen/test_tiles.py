"""Products of tiles: the rule in NumPy, on every target, and in both ways."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from cenote.codegen import jit
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.tiles import ROW, ROWS, WORDS, in_words
from cenote.codegen.values import U8
from cenote.core.target import EMULATED, TILE_EXTENSIONS, Target
from cenote.core.types import BFLOAT16, Array
from tests.codegen.sums import flushed, multiply_added, numbers
from tests.targets import TARGETS, anywhere

DTYPES = {"u8": np.dtype(np.uint8), "s8": np.dtype(np.int8)}
KINDS = ("u8s8", "s8s8", "u8u8", "s8u8", "bf16", "f16")
BYTES = KINDS[:4]
PITCH = 5 * 16  # bytes from row to row of x and y in memory


class TwoProducts:
    """Source of a kernel that adds the products of two pairs of tiles to a tile, once per item."""

    def __init__(self, kind: str, way: str) -> None:
        self.kind, self.way, self.symbol = kind, way, f"test_tiles_{kind}_{way}".replace("-", "_")

    def emit(self, target: Target) -> Kernel:
        words = [Parameter(name, U8, pointer=True) for name in ("x", "w", "y")]
        k = Kernel(self.symbol, target, [*words, Parameter("pitch")])
        pitch = k.number("pitch")
        with k.tiles(self.kind, self.way) as t:
            for item in k.range(k.begin, k.end):
                x, w, y = (k.pointer(name) for name in ("x", "w", "y"))
                t.load(7, y + item * pitch * ROWS, pitch)
                for part in range(2):
                    t.load(part, x + (item * 2 + part) * pitch * ROWS, pitch)
                    t.load(2 + part, w + (item * 2 + part) * ROWS * ROW, ROW)
                    t.dot(7, part, 2 + part)
                t.store(7, y + item * pitch * ROWS, pitch)
        return k


def way_of(target: Target, kind: str) -> str:
    ways = target.tiles
    return ways.bf16 if kind == "bf16" else ways.f16 if kind == "f16" else ways.int8


def ways(target: Target, kind: str) -> list[str]:
    """Both ways where the machine has the extension."""
    return [*dict.fromkeys((way_of(target, kind) or EMULATED, EMULATED))]


def run(kind: str, way: str, target: Target, x: Array, w: Array, y: Array) -> Array:
    """y (items, 16, 16) with the products of x (items, 2, 16, k) and w (items, 2, k, 16) added. Between the rows of x
    and y lies junk, which is to stay."""
    items = len(y)
    source = TwoProducts(kind, way)
    address = jit.addresses([source], target)[source.symbol]
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(
        address
    )
    placed = [np.full((*each.shape[:-1], PITCH), 0xA5, np.uint8) for each in (x, y)]
    for memory, given in zip(placed, (x, y), strict=True):
        memory[..., :ROW] = np.ascontiguousarray(given).view(np.uint8)
    held = placed[0], in_words(w), placed[1]
    words = (ctypes.c_int64 * 4)(*(each.ctypes.data for each in held), PITCH)
    function(ctypes.addressof(words), 0, items, None)
    assert (placed[1][..., ROW:] == 0xA5).all()
    return np.ascontiguousarray(placed[1][..., :ROW]).view(y.dtype)


def wanted(kind: str, x: Array, w: Array, y: Array) -> Array:
    """The rule, one product after another."""
    for part in range(2):
        a, b = x[:, part].astype(np.float32), w[:, part].astype(np.float32)
        a, b = (a, b) if kind == "f16" else (flushed(a), flushed(b))
        chains = np.zeros((2, *y.shape), np.float32)
        for at in range(a.shape[-1]):
            sums = multiply_added(chains[at % 2], a[:, :, at, None], b[:, at, None, :])
            chains[at % 2] = flushed(sums)
        y = flushed(flushed(y) + flushed(chains[0] + chains[1]))
    return y


@pytest.mark.parametrize("kind", BYTES)
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_sums_of_bytes_are_exact(target: Target, kind: str) -> None:
    """Those of the extreme numbers too, and sums that wrap around."""
    random, items = np.random.default_rng(1), 6
    ranges = [np.iinfo(DTYPES[kind[at : at + 2]]) for at in (0, 2)]
    x, w = (
        random.integers(each.min, each.max + 1, shape).astype(each.dtype)
        for each, shape in zip(ranges, ((items, 2, ROWS, 64), (items, 2, 64, WORDS)), strict=True)
    )
    x[:2], w[0] = ranges[0].max, ranges[1].min
    y = random.integers(-(1 << 31), 1 << 31, (items, ROWS, WORDS)).astype(np.int32)
    want = (y + np.einsum("ipmk,ipkn->imn", x.astype(np.int64), w.astype(np.int64))).astype(np.int32)
    for way in ways(target, kind):
        np.testing.assert_array_equal(run(kind, way, target, x, w, y), want, err_msg=way)


@pytest.mark.parametrize(
    ("kind", "spread"), [("bf16", 2), ("bf16", 14), ("bf16", 60), ("f16", 2), ("f16", 20)]
)
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_sums_follow_the_rule(target: Target, kind: str, spread: int) -> None:
    """float16 with a spread of 20 has numbers below its smallest normal one, which count, zeros and infinities."""
    random, items, dtype = np.random.default_rng(spread), 20, BFLOAT16 if kind == "bf16" else np.float16
    with np.errstate(all="ignore"):
        x = numbers(random, (items, 2, ROWS, 32), spread).astype(dtype)
        w = numbers(random, (items, 2, 32, WORDS), spread).astype(dtype)
        y = numbers(random, (items, ROWS, WORDS), spread)
        want = wanted(kind, x, w, y)
    for way in ways(target, kind):
        found = run(kind, way, target, x, w, y)
        known = ~np.isnan(want)
        np.testing.assert_array_equal(np.isnan(found), ~known)
        np.testing.assert_array_equal(found[known].view(np.int32), want[known].view(np.int32), err_msg=way)


@pytest.mark.parametrize("kind", ["bf16", "f16"])
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_sums_of_special_numbers(target: Target, kind: str) -> None:
    """NaN, infinities, zeros of both signs, and numbers below and just above the smallest normal one, one in 16."""
    random, dtype = np.random.default_rng(4), BFLOAT16 if kind == "bf16" else np.float16
    special = [np.nan, np.inf, -np.inf, -0.0, 6e-8, -6e-8, 6.2e-5, 65504.0]
    # Products beyond the range of normal numbers are rounded by themselves where there is no fused multiply-add.
    special += [1e-39, -1e-39, 1.5e-38, -1.5e-38, 3e38, 2e-20] * (kind == "bf16" and target.has_fma)
    with np.errstate(all="ignore"):
        x, w, y = (
            np.where(
                random.random(shape) < 1 / 16, random.choice(special, shape), random.choice([0.0, 1.0], shape)
            )
            for shape in ((30, 2, ROWS, 32), (30, 2, 32, WORDS), (30, ROWS, WORDS))
        )
        x, w, y = x.astype(dtype), w.astype(dtype), y.astype(np.float32)
        want = wanted(kind, x, w, y)
    for way in ways(target, kind):
        found = run(kind, way, target, x, w, y)
        np.testing.assert_array_equal(found, want, err_msg=way)
        known = ~np.isnan(want)
        assert 0.05 < known.mean() < 0.95
        np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(want)[known], err_msg=way)


@pytest.mark.parametrize("kind", KINDS)
def test_tiles_become_their_instructions(kind: str) -> None:
    """Compiled and looked at on any x86-64 machine, whether it has the extension or not."""
    if not jit.host_target().triple.startswith("x86"):
        pytest.skip("LLVM here does not compile for x86-64")
    target = anywhere("avx512")
    extensions = TILE_EXTENSIONS["avx512"]
    way = extensions.bf16 if kind == "bf16" else extensions.f16 if kind == "f16" else extensions.int8
    code = jit.assembly(TwoProducts(kind, way).emit(target))
    names = [line.split()[0] for line in code.splitlines() if line.startswith("\t") and line.strip()]
    product = {
        "u8s8": "busd",
        "s8s8": "bssd",
        "u8u8": "buud",
        "s8u8": "bsud",
        "bf16": "bf16ps",
        "f16": "fp16ps",
    }[kind]
    assert [name for name in names if name.startswith(("t", "ldtile", "sttile")) and name != "testq"] == [
        "ldtilecfg",
        "tileloadd",
        *["tileloadd", "tileloadd", f"tdp{product}"] * 2,
        "tilestored",
        "tilerelease",
    ]
