"""Permutations of the lanes of vectors, by which pooling combines neighbouring columns of plain rows."""

from __future__ import annotations

from collections.abc import Sequence

from cenote.codegen.builder import Kernel
from cenote.codegen.values import I32, I64, U8, U16, U32, U64, Pointer, Scalar, Value

CHEAP_BYTES = 16  # lanes within such parts of a vector are shuffled in one step, across them in two or three


def deinterleave(k: Kernel, vectors: Sequence[Value]) -> Value:
    """Return every len(vectors)-th lane of the concatenated vectors, from the first (their number: a power of two)."""
    parts = list(vectors)
    while len(parts) > 1:
        parts = [_halve(k, a, b, 0) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _halve(k: Kernel, a: Value, b: Value, first: int) -> Value:
    return in_order(k, every_second(k, a, b, first))


def every_second(k: Kernel, a: Value, b: Value, first: int) -> Value:
    """Lanes first, first+2 … of a and b, in an order that costs one shuffle (`second_order`): `in_order` sorts them."""
    return k.shuffle(a, b, [lane + first for lane in _cheap_order(a.type, a.lanes)])


def in_order(k: Kernel, a: Value, type: Scalar | None = None) -> Value:
    """Undo the order of `every_second`; `type` is that of the values picked, if not a's own."""
    order = second_order(type or a.type, a.lanes)
    if order == sorted(order):
        return a
    return k.shuffle(a, a, [order.index(lane) for lane in range(a.lanes)])


def second_order(type: Scalar, lanes: int) -> list[int]:
    """Lane of the sorted result that each lane of `every_second` holds."""
    return [lane // 2 for lane in _cheap_order(type, lanes)]


def _cheap_order(type: Scalar, lanes: int) -> list[int]:
    """Even lanes of two vectors, 128-bit part by part: shuffles within such parts are cheap."""
    parts = max(1, lanes * type.nbytes // CHEAP_BYTES)
    size = lanes // parts
    if size < 2:
        return list(range(0, 2 * lanes, 2))
    chosen: list[int] = []
    for part in range(parts):
        for source in (0, lanes):
            chosen += range(source + part * size, source + (part + 1) * size, 2)
    return chosen


def strided(k: Kernel, source: Pointer, stride: int, lanes: int) -> Value:
    """Load `lanes` elements, `stride` apart; this reads up to lanes * stride elements."""
    if stride == 1 or lanes == 1:
        return source.load(0, lanes)
    vectors = [source.load(part * lanes, lanes) for part in range(stride)]
    if stride & (stride - 1) == 0 and stride <= lanes:
        return deinterleave(k, vectors)
    wanted = [(lane * stride) // lanes for lane in range(lanes)]
    result = vectors[0]
    for part, vector in enumerate(vectors):
        chosen = [lanes + (lane * stride) % lanes if wanted[lane] == part else lane for lane in range(lanes)]
        result = k.shuffle(result, vector, chosen)
    return result


def even_odd(k: Kernel, a: Value, b: Value) -> tuple[Value, Value]:
    """Even and odd lanes of a followed by b."""
    lanes, half = a.lanes, a.lanes // 2
    even = list(range(0, 2 * lanes, 2))
    # Whole 128-bit parts first, then lanes within them: 4 cheap steps.
    if lanes * a.type.nbytes == 2 * CHEAP_BYTES:
        low = [*range(half), *range(lanes, lanes + half)]
        a, b = k.shuffle(a, b, low), k.shuffle(a, b, [lane + half for lane in low])
        even = [
            lane + start
            for start in (0, half)
            for source in (0, lanes)
            for lane in range(source, source + half, 2)
        ]
    return k.shuffle(a, b, even), k.shuffle(a, b, [lane + 1 for lane in even])


def shift_in(k: Kernel, before: Value, value: Value) -> Value:
    """The last lane of `before`, then all but the last of the value: as integers, which x86 does in fewer steps."""
    lanes = value.lanes
    kind = {1: U8, 2: U16, 4: U32, 8: U64}[value.type.nbytes]
    return k.shuffle(before.bits(kind), value.bits(kind), range(lanes - 1, 2 * lanes - 1)).bits(value.type)


def shift_lanes(k: Kernel, value: Value, by: int, *, repeat: bool) -> Value:
    """Lanes moved down (up) by some places; those that come free `repeat` the last (first) lane, or hold zero."""
    lanes = value.lanes
    places = [lane + by for lane in range(lanes)]
    if repeat:
        return k.shuffle(value, value, [min(max(place, 0), lanes - 1) for place in places])
    zero = k.constant(value.type, 0, lanes)
    return k.shuffle(value, zero, [place if 0 <= place < lanes else lanes for place in places])


def lanes_from(k: Kernel, a: Value, b: Value, count: int) -> Value:
    """Lanes count, count+1 … of a followed by b: the vector that starts `count` lanes later."""
    return k.shuffle(a, b, range(count, count + a.lanes))


def transposed(k: Kernel, rows: Sequence[Value]) -> list[Value]:
    """Transpose a square of as many vectors as each has lanes: halves, then quarters … are swapped between them."""
    lanes, vectors = len(rows), list(rows)
    size = lanes // 2
    while size:
        low = [lane + (0 if lane & size == 0 else lanes - size) for lane in range(lanes)]
        for index in range(lanes):
            if not index & size:
                a, b = vectors[index], vectors[index + size]
                vectors[index] = k.shuffle(a, b, low)
                vectors[index + size] = k.shuffle(a, b, [lane + size for lane in low])
        size //= 2
    return vectors


def set_bits(k: Kernel, mask: Value) -> Value:
    """A vector of conditions as the bits of a number."""
    bits = mask.lanes
    return k.assign(
        f"bitcast {mask.ir} {mask.text} to i{bits}", Scalar(f"u{bits}", "uint", bits, f"i{bits}"), 1
    ).to(U64)


def compressed(k: Kernel, value: Value, mask: Value) -> Value:
    """The lanes where the mask is set, moved to the front; the rest is junk."""
    if k.target.lanes() == 8 and value.lanes * max(4, value.type.nbytes) == 32:
        words = value.to(U32) if value.type.nbytes < 4 else value
        return _permuted(k, words, mask).to(value.type)
    suffix = f"v{value.lanes}{value.type.ir}"
    name = f"llvm.experimental.vector.compress.{suffix}"
    k.declare(name, f"{value.ir} ({value.ir}, {mask.ir}, {value.ir})")
    text = f"call {value.ir} @{name}({value.ir} {value.text}, {mask.ir} {mask.text}, {value.ir} poison)"
    return k.assign(text, value.type, value.lanes)


def _permuted(k: Kernel, value: Value, mask: Value) -> Value:
    """The same by a permutation of 32-bit words, from a table: AVX2 has no instruction for it, and LLVM stores each
    lane (16 million float32 of which 99 in 100 are taken, Zen 3: 19 ms, 6.6 so)."""
    words = 8 // value.lanes
    numbers = []
    for bits in range(1 << value.lanes):
        chosen = [lane for lane in range(value.lanes) if bits >> lane & 1]
        rest = [0] * (value.lanes - len(chosen))
        numbers += [lane * words + word for lane in chosen + rest for word in range(words)]
    order = k.table(f"lanes_{value.lanes}", U8, numbers).load(set_bits(k, mask).bits(I64) * 8, 8).to(I32)
    source = k.assign(f"bitcast {value.ir} {value.text} to <8 x i32>", I32, 8)
    moved = k.call("llvm.x86.avx2.permd", I32, 8, [source, order])
    return k.assign(f"bitcast <8 x i32> {moved.text} to {value.ir}", value.type, value.lanes)
