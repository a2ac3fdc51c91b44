"""Products of tiles: eight registers of 16 rows of 64 bytes, which a kernel names 0 to 7 (AMX, or emulated).

    with k.tiles("bf16", way) as t:
        t.zero(0)                        # sums: 16 x 16 words, float32 or int32
        t.load(4, x, x_pitch)            # rows of x, `x_pitch` bytes apart, each of 16 words of elements
        t.load(6, weights, ROW)          # a row for each of these words: 16 columns of as many elements (`in_words`)
        t.dot(0, 4, 6)                   # tile 0 += tile 4 times tile 6
        t.store(0, y, y_pitch)

A word is four elements of "u8s8" (also "s8s8", "u8u8", "s8u8"; x is named first), or two of "bf16" or "f16".

Sums of bytes are exact, modulo 2^32. A product of a row of x with a column of 16 pairs is

    even = fma(x[2p], w[2p], even), odd = fma(x[2p + 1], w[2p + 1], odd)     p = 0 … 15 in order, both from zero
    total = total + (even + odd)

each rounded to nearest even, whatever the thread's control register says; numbers below the smallest normal float32
count as zeros of their sign in operands, sums and results, but those of float16 count. So Intel defines TDPBF16PS and
TDPFP16PS (Architecture Instruction Set Extensions Programming Reference, 319433), and so one AMX machine measured.
"emulated" has these bits on every machine, as far as `codegen.bfloat` says, which is also where the exceptions are.

Tiles hold nothing before and after the body: the configuration is one thread's, and is made and released
within a call of a kernel, which costs about 60 ns. No function may be called in between but LLVM's intrinsics, for all
tiles are the caller's to save.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np

from cenote.codegen.code import Code
from cenote.codegen.half import first_half, flushed, second_half
from cenote.codegen.values import F16, F32, I32, U8, U16, U32, Pointer, Scalar, Value
from cenote.core.target import EMULATED
from cenote.core.types import Array

ROWS, ROW = 16, 64  # rows of a tile, and bytes of a row
WORDS = ROW // 4  # of a row; columns of a product
TILE_BYTES = ROWS * ROW
# Tiles of a square of sums, 32 by 32 words: that of sums, of x, of the weights. Each product needs one load.
SQUARE = ((0, 4, 6), (1, 4, 7), (2, 5, 6), (3, 5, 7))
_INSTRUCTIONS = {
    "u8s8": "tdpbusd",
    "s8s8": "tdpbssd",
    "u8u8": "tdpbuud",
    "s8u8": "tdpbsud",
    "bf16": "tdpbf16ps",
    "f16": "tdpfp16ps",
}


def in_words(rows: Array) -> Array:
    """Return rows (..., k, columns) of a right operand as tiles hold them, the elements of a word side by side:
    (..., k / n, columns n), with n = 4, or 2 of 16 bits. k is a multiple of n."""
    *rest, k, columns = rows.shape
    n = 4 // rows.dtype.itemsize
    words = rows.reshape(*rest, k // n, n, columns).swapaxes(-1, -2)
    return np.ascontiguousarray(words).reshape(*rest, k // n, columns * n)


class Tiles(Protocol):
    """Verbs of tiles in one kernel; a pitch is the number of bytes from one row to the next."""

    def zero(self, tile: int) -> None: ...
    def load(self, tile: int, place: Pointer, pitch: Value | int) -> None: ...
    def store(self, tile: int, place: Pointer, pitch: Value | int) -> None: ...
    def dot(self, total: int, x: int, w: int) -> None: ...


def clear_square(t: Tiles) -> None:
    """Set a square of sums to zero."""
    for total, _, _ in SQUARE:
        t.zero(total)


def multiply_square(t: Tiles, x: Pointer, w: Pointer, w_pitch: int = ROW) -> Iterator[int]:
    """Add the products of two tiles of x and two of weights to a square of sums. Yields each tile of sums behind its
    product. A tile is loaded before its first use. The second tile of x lies behind the first; so does that of the
    weights, or, where their rows are `w_pitch` = 2 ROW bytes apart, its rows lie behind the first one's."""
    loads = {4: x, 5: x + TILE_BYTES, 6: w, 7: w + (TILE_BYTES if w_pitch == ROW else ROW)}
    for total, left, right in SQUARE:
        for tile in (left, right):
            if tile in loads:
                t.load(tile, loads.pop(tile), w_pitch if tile == right else ROW)
        t.dot(total, left, right)
        yield total


def load_square(t: Tiles, place: Pointer) -> None:
    """Load a square of sums that `store_square` has stored."""
    for total, _, _ in SQUARE:
        t.load(total, _of_square(place, total), 2 * ROW)


def store_square(t: Tiles, place: Pointer) -> None:
    """Store a square of sums, row by row."""
    for total, _, _ in SQUARE:
        t.store(total, _of_square(place, total), 2 * ROW)


def _of_square(place: Pointer, total: int) -> Pointer:
    """Return the address of a tile of a square of sums."""
    row = 2 * ROW // place.element.nbytes
    return place + total // 2 * (ROWS * row) + total % 2 * (row // 2)


@contextmanager
def tiles(k: Code, kind: str, way: str) -> Iterator[Tiles]:
    """Use tiles in the body. `way` is one of `Target.tiles`: the extension that multiplies them, or "emulated"."""
    if way == EMULATED:
        yield _Emulated(k, kind)
        return
    yield from _configured(k, kind)


def _configured(k: Code, kind: str) -> Iterator[Tiles]:
    """Configure eight full tiles, and release them behind the body."""
    content = np.zeros(64, np.uint8)  # palette 1, bytes of a row from 16 (two bytes each), rows from 48
    content[0], content[16:32:2], content[48:56] = 1, ROW, ROWS
    place = Pointer(k, U32, k.stack_slot("[16 x i32]"))
    place.store(k.lanes_constant(U32, content.view(np.uint32).tolist()))
    k.declare("llvm.x86.ldtilecfg", "void (ptr)")
    k.line(f"call void @llvm.x86.ldtilecfg(ptr {place.text})")
    yield _Machine(k, kind)
    k.declare("llvm.x86.tilerelease", "void ()")
    k.line("call void @llvm.x86.tilerelease()")


class _Machine:
    """Registers of the processor. LLVM moves none of these calls: it does not know what they read and write."""

    def __init__(self, k: Code, kind: str) -> None:
        self.k, self.instruction = k, _INSTRUCTIONS[kind]

    def zero(self, tile: int) -> None:
        self._call("tilezero", tile)

    def load(self, tile: int, place: Pointer, pitch: Value | int) -> None:
        self._move("tileloadd64", tile, place, pitch)

    def store(self, tile: int, place: Pointer, pitch: Value | int) -> None:
        self._move("tilestored64", tile, place, pitch)

    def dot(self, total: int, x: int, w: int) -> None:
        self._call(self.instruction, total, x, w)

    def _call(self, name: str, *numbers: int) -> None:
        self.k.declare(f"llvm.x86.{name}", f"void ({', '.join(['i8 immarg'] * len(numbers))})")
        self.k.line(f"call void @llvm.x86.{name}({', '.join(f'i8 {number}' for number in numbers)})")

    def _move(self, name: str, tile: int, place: Pointer, pitch: Value | int) -> None:
        step = pitch.text if isinstance(pitch, Value) else str(pitch)
        self.k.declare(f"llvm.x86.{name}", "void (i8 immarg, ptr, i64)")
        self.k.line(f"call void @llvm.x86.{name}(i8 {tile}, ptr {place.text}, i64 {step})")


class _Emulated:
    """Tiles on the stack."""

    def __init__(self, k: Code, kind: str) -> None:
        self.k, self.kind = k, kind
        self.held: dict[int, Pointer] = {}

    def zero(self, tile: int) -> None:
        for row in self.k.range(0, ROWS):
            self._tile(tile).store(self.k.constant(I32, 0, WORDS), row * WORDS)

    def load(self, tile: int, place: Pointer, pitch: Value | int) -> None:
        for row in self.k.range(0, ROWS):
            self._tile(tile).store((place.cast(U8) + row * pitch).cast(I32).load(0, WORDS), row * WORDS)

    def store(self, tile: int, place: Pointer, pitch: Value | int) -> None:
        for row in self.k.range(0, ROWS):
            (place.cast(U8) + row * pitch).cast(I32).store(self._tile(tile).load(row * WORDS, WORDS))

    def dot(self, total: int, x: int, w: int) -> None:
        by_row = self._floats if self.kind in ("bf16", "f16") else self._integers
        for row in self.k.range(0, ROWS):
            by_row(self._tile(total) + row * WORDS, self._tile(x) + row * WORDS, self._tile(w))

    def _tile(self, tile: int) -> Pointer:
        if tile not in self.held:
            self.held[tile] = Pointer(self.k, I32, self.k.stack_slot(f"[{TILE_BYTES // 4} x i32]"))
        return self.held[tile]

    def _floats(self, total: Pointer, x: Pointer, w: Pointer) -> None:
        k, total = self.k, total.cast(F32)
        chains = [k.variable(k.constant(F32, 0.0, WORDS)) for _ in range(2)]
        for pair in k.range(0, WORDS):
            left, right = self._halves(x.broadcast(pair, WORDS)), self._halves(w.load(pair * WORDS, WORDS))
            for chain, a, b in zip(chains, left, right, strict=True):
                chain.value = flushed(k, k.fma(a, b, chain.value))
        added = flushed(k, chains[0].value + chains[1].value)
        total.store(flushed(k, flushed(k, total.load(0, WORDS)) + added))

    def _halves(self, words: Value) -> list[Value]:
        """Return the first and the second number of each word in float32."""
        if self.kind == "bf16":
            return [flushed(self.k, half(words)) for half in (first_half, second_half)]
        return [(words.bits(U32) >> shift).to(U16).bits(F16).to(F32) for shift in (0, 16)]

    def _integers(self, total: Pointer, x: Pointer, w: Pointer) -> None:
        k = self.k
        kinds = [Scalar.named(self.kind[at : at + 2].replace("s", "i")) for at in (0, 2)]
        chain = k.variable(total.load(0, WORDS))
        for word in k.range(0, WORDS):
            words = x.broadcast(word, WORDS), w.load(word * WORDS, WORDS)
            for place in range(4):
                a, b = (self._byte(each, place, kind) for each, kind in zip(words, kinds, strict=True))
                chain.value = chain.value + a * b
        total.store(chain.value)

    def _byte(self, words: Value, place: int, kind: Scalar) -> Value:
        """Return one byte of each word, of a type."""
        if kind is U8:
            return (words.bits(U32) >> 8 * place).bits(I32) & 255
        return (words << 24 - 8 * place) >> 24
