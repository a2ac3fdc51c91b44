"""Kernel of products of tiles, its rule in NumPy, and arguments for it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

from cenote.codegen import jit
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.tiles import ROW, ROWS, WORDS, in_words
from cenote.codegen.values import U8
from cenote.core.target import Target
from cenote.core.types import BFLOAT16, Array
from tests.codegen.sums import flushed, multiply_added, numbers

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


Run = Callable[[TwoProducts, Target, Sequence[Array | int], int], None]


def run_here(source: TwoProducts, target: Target, words: Sequence[Array | int], items: int) -> None:
    """Call the kernel on this machine."""
    address = jit.addresses([source], target)[source.symbol]
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(
        address
    )
    record = np.array([word if isinstance(word, int) else word.ctypes.data for word in words], np.int64)
    function(record.ctypes.data, 0, items, None)


def products(kind: str, way: str, target: Target, x: Array, w: Array, y: Array, run: Run = run_here) -> Array:
    """y (items, 16, 16) with the products of x (items, 2, 16, k) and w (items, 2, k, 16) added. Between the rows of x
    and y lies junk, which is to stay."""
    placed = [np.full((*each.shape[:-1], PITCH), 0xA5, np.uint8) for each in (x, y)]
    for memory, given in zip(placed, (x, y), strict=True):
        memory[..., :ROW] = np.ascontiguousarray(given).view(np.uint8)
    run(TwoProducts(kind, way), target, [placed[0], in_words(w), placed[1], PITCH], len(y))
    assert (placed[1][..., ROW:] == 0xA5).all()
    return np.ascontiguousarray(placed[1][..., :ROW]).view(y.dtype)


def byte_case(kind: str, items: int) -> tuple[Array, Array, Array]:
    """Bytes of a kind, extreme ones among them, and totals that wrap around."""
    random = np.random.default_rng(1)
    ranges = [np.iinfo(DTYPES[kind[at : at + 2]]) for at in (0, 2)]
    x, w = (
        random.integers(each.min, each.max + 1, shape).astype(each.dtype)
        for each, shape in zip(ranges, ((items, 2, ROWS, 64), (items, 2, 64, WORDS)), strict=True)
    )
    x[:2], w[0] = ranges[0].max, ranges[1].min
    return x, w, random.integers(-(1 << 31), 1 << 31, (items, ROWS, WORDS)).astype(np.int32)


def byte_products(x: Array, w: Array, y: Array) -> Array:
    """The sums of bytes, which wrap around."""
    added = np.einsum("ipmk,ipkn->imn", x.astype(np.int64), w.astype(np.int64))
    total: Array = (y + added).astype(np.int32)
    return total


def float_case(kind: str, spread: int, items: int) -> tuple[Array, Array, Array]:
    """Numbers of bfloat16 or float16. float16 with a spread of 20 has numbers below its smallest normal one, which
    count, zeros and infinities."""
    random, dtype = np.random.default_rng(spread), BFLOAT16 if kind == "bf16" else np.float16
    with np.errstate(all="ignore"):
        x = numbers(random, (items, 2, ROWS, 32), spread).astype(dtype)
        w = numbers(random, (items, 2, 32, WORDS), spread).astype(dtype)
    return x, w, numbers(random, (items, ROWS, WORDS), spread)


def float_products(kind: str, x: Array, w: Array, y: Array) -> Array:
    """The rule, one product after another."""
    with np.errstate(all="ignore"):
        return _float_products(kind, x, w, y)


def _float_products(kind: str, x: Array, w: Array, y: Array) -> Array:
    for part in range(2):
        a, b = x[:, part].astype(np.float32), w[:, part].astype(np.float32)
        a, b = (a, b) if kind == "f16" else (flushed(a), flushed(b))
        chains = np.zeros((2, *y.shape), np.float32)
        for at in range(a.shape[-1]):
            sums = multiply_added(chains[at % 2], a[:, :, at, None], b[:, at, None, :])
            chains[at % 2] = flushed(sums)
        y = flushed(flushed(y) + flushed(chains[0] + chains[1]))
    return y
