"""Bytes of neighbouring pixels, packed four vectors at a time: VPACKSSDW and VPACKUSWB take two vectors each, where a
truncation takes one, and one store writes what four did.

    numbers of pixels a, b, c, d       16 or 8 lanes of 32 bits each
    packs within 128 bits              a0-3 b0-3 c0-3 d0-3 | a4-7 b4-7 c4-7 d4-7 | …
    one permutation of 32 bits         a0-15 | b0-15 | c0-15 | d0-15
"""

from __future__ import annotations

from collections.abc import Sequence

from cenote.codegen.builder import Kernel
from cenote.codegen.values import I16, I32, Pointer, Scalar, Value

_TO_16 = {16: "llvm.x86.avx512.packssdw.512", 8: "llvm.x86.avx2.packssdw", 4: "llvm.x86.sse2.packssdw.128"}
_TO_8 = {16: "llvm.x86.avx512.pack{}swb.512", 8: "llvm.x86.avx2.pack{}swb", 4: "llvm.x86.sse2.pack{}swb.128"}
_NEAREST = {8: "llvm.x86.avx.cvt.ps2dq.256", 4: "llvm.x86.sse2.cvtps2dq"}
_OWN_ROUNDING = 4  # that of the control register: halves to even


def packs(k: Kernel) -> bool:
    """Whether the machine has these instructions."""
    return k.target.triple.startswith("x86")


def store_packed(k: Kernel, bounded: Sequence[Value], place: Pointer) -> None:
    """Store vectors one behind the other as bytes: each number, at most 255 in magnitude, rounded to a whole one,
    halves to even, and the zero point added."""
    done = 0
    while done < len(bounded):
        count = next(each for each in (4, 2, 1) if done + each <= len(bounded))
        lanes = bounded[0].lanes
        _store(k, bounded[done : done + count], place + done * lanes)
        done += count


def _store(k: Kernel, bounded: Sequence[Value], place: Pointer) -> None:
    """Store one, two or four vectors."""
    count, lanes = len(bounded), bounded[0].lanes
    whole = [_nearest(k, each) for each in bounded]
    zero = k.splat(k.number("zero").to(I16), 2 * lanes)
    pairs = [
        k.call(_TO_16[lanes], I16, 2 * lanes, [whole[first], whole[min(first + 1, count - 1)]]) + zero
        for first in range(0, count, 2)
    ]
    name = _TO_8[lanes].format("u" if place.element.kind == "uint" else "s")
    bytes_ = k.call(name, place.element, 4 * lanes, [pairs[0], pairs[-1]])
    words = _recast(k, bytes_, I32, lanes)
    parts = lanes // 4
    order = [part * 4 + vector for vector in range(count) for part in range(parts)]
    place.cast(I32).store(words if order == [*range(lanes)] else k.shuffle(words, words, order))


def _nearest(k: Kernel, value: Value) -> Value:
    """Return the nearest whole numbers as integers."""
    if value.lanes in _NEAREST:
        return k.call(_NEAREST[value.lanes], I32, value.lanes, [value])
    masked = [k.constant(I32, 0, value.lanes), k.constant(I16, -1), k.constant(I32, _OWN_ROUNDING)]
    return k.call("llvm.x86.avx512.mask.cvtps2dq.512", I32, value.lanes, [value, *masked])


def _recast(k: Kernel, value: Value, type: Scalar, lanes: int) -> Value:
    return k.assign(f"bitcast {value.ir} {value.text} to {type.vector(lanes)}", type, lanes)
