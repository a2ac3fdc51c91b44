"""Bytes of results at the scale of y: bounded, rounded to whole numbers, halves to even, the zero point added.

x86 packs four vectors at a time: VPACKSSDW and VPACKUSWB take two vectors each, where a truncation takes one, and they
saturate, so that of both bounds only the upper one is taken before.

    numbers of pixels a, b, c, d       16 or 8 lanes of 32 bits each
    packs within 128 bits              a0-3 b0-3 c0-3 d0-3 | a4-7 b4-7 c4-7 d4-7 | …
    one permutation of 32 bits         a0-15 | b0-15 | c0-15 | d0-15
"""

from __future__ import annotations

from collections.abc import Sequence

from cenote.codegen.builder import Kernel
from cenote.codegen.values import I16, I32, Pointer, Scalar, Value
from cenote.kernels.quantized.residual import ROUNDING

_TO_16 = {16: "llvm.x86.avx512.packssdw.512", 8: "llvm.x86.avx2.packssdw", 4: "llvm.x86.sse2.packssdw.128"}
_TO_8 = {16: "llvm.x86.avx512.pack{}swb.512", 8: "llvm.x86.avx2.pack{}swb", 4: "llvm.x86.sse2.pack{}swb.128"}
_NEAREST = {8: "llvm.x86.avx.cvt.ps2dq.256", 4: "llvm.x86.sse2.cvtps2dq"}
_OWN_ROUNDING = 4  # that of the control register: halves to even


def requantized(k: Kernel, scaled: Value, element: Scalar) -> Value:
    """Return elements of y from numbers at its scale, by the kernel's words "low", "high" and "zero".

    Bounds are whole numbers, so that bounded numbers round to what rounded ones are bounded to. Adding `ROUNDING`
    leaves no bits of a fraction: the sum is rounded to a whole number, halves to even, which its lowest bits hold.
    """
    low, high = (k.splat(k.number(name), scaled.lanes) for name in ("low", "high"))
    bounded = k.min_drop_nan(k.max_drop_nan(scaled, low), high)
    whole = (bounded + ROUNDING).bits(I32)
    return (whole + k.splat(k.number("zero").to(I32), scaled.lanes)).to(element)


def store_requantized(
    k: Kernel, scaled: Sequence[Value], places: Sequence[Pointer], adjacent: bool, most: int = 4
) -> None:
    """Store vectors of elements of y, made as by `requantized`, each at its place; `adjacent`: one behind the other,
    `most`: that are packed at a time."""
    if not k.target.triple.startswith("x86"):
        for value, place in zip(scaled, places, strict=True):
            place.store(requantized(k, value, place.element))
        return
    done = 0
    while done < len(scaled):
        count = next(each for each in (4, 2, 1) if each <= most and done + each <= len(scaled))
        _store_packed(k, scaled[done : done + count], places[done : done + count], adjacent)
        done += count


def _store_packed(k: Kernel, scaled: Sequence[Value], places: Sequence[Pointer], adjacent: bool) -> None:
    """Store one, two or four vectors."""
    count, parts = len(scaled), scaled[0].lanes // 4
    words = _recast(k, _packed(k, scaled, places[0].element), I32, 4 * parts)
    order = [part * 4 + vector for vector in range(count) for part in range(parts)]
    if order != [*range(4 * parts)]:
        words = k.shuffle(words, words, order)
    if adjacent or count == 1:
        places[0].cast(I32).store(words)
        return
    for index, place in enumerate(places):
        place.cast(I32).store(k.shuffle(words, words, range(index * parts, (index + 1) * parts)))


def _packed(k: Kernel, scaled: Sequence[Value], element: Scalar) -> Value:
    """Return the bytes of one, two or four vectors, in the order of the packs. NaN becomes the lower bound, as in
    `requantized`."""
    count, lanes = len(scaled), scaled[0].lanes
    whole = [_nearest(k, k.min_drop_nan(k.splat(k.number("high"), lanes), each)) for each in scaled]
    zero = k.number("zero")
    pairs = [
        k.intrinsic(
            "sadd.sat",
            k.call(_TO_16[lanes], I16, 2 * lanes, [whole[first], whole[min(first + 1, count - 1)]]),
            k.splat(zero.to(I16), 2 * lanes),
        )
        for first in range(0, count, 2)
    ]
    name = _TO_8[lanes].format("u" if element.kind == "uint" else "s")
    bytes_ = k.call(name, element, 4 * lanes, [pairs[0], pairs[-1]])
    least = (k.number("low").to(I32) + zero.to(I32)).to(element)
    return k.maximum(bytes_, k.splat(least, 4 * lanes))


def _nearest(k: Kernel, value: Value) -> Value:
    """Return the nearest whole numbers as integers: the least one for NaN and for what is below it."""
    if value.lanes in _NEAREST:
        return k.call(_NEAREST[value.lanes], I32, value.lanes, [value])
    masked = [k.constant(I32, 0, value.lanes), k.constant(I16, -1), k.constant(I32, _OWN_ROUNDING)]
    return k.call("llvm.x86.avx512.mask.cvtps2dq.512", I32, value.lanes, [value, *masked])


def _recast(k: Kernel, value: Value, type: Scalar, lanes: int) -> Value:
    return k.assign(f"bitcast {value.ir} {value.text} to {type.vector(lanes)}", type, lanes)
