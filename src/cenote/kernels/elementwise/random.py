"""Random numbers by Philox-4x32-10, and distributions made of them; ops/random/philox.py says which element takes
which.

    for item in begin .. end:                      emitted; an item is a run of blocks
        for block of 64 elements:                  emitted
            sixteen counters, ten rounds           unrolled: even counters, then odd ones, in 64-bit lanes
            for word: sixteen elements             unrolled

A 64-bit lane holds 32 bits of the generator: its product with a 32-bit constant is one instruction, and what is above
the 32 bits need not be cleared, for the next product does not look at it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, F64, U8, U32, U64, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import maximum, minimum
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named
from cenote.kernels.elementwise.quantiles import normal_quantile

LANES = 16  # counters at a time, whatever the registers
BLOCK = 4 * LANES
PIECE = 256 * BLOCK  # elements of an item
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
SCRATCH = 4 * BLOCK  # bytes for the words of a block


class Philox:
    """Generator of blocks with a key that is read once."""

    def __init__(self, k: Kernel, seed: Pointer) -> None:
        self.k = k
        key = seed.load(0)
        halves = (key & 0xFFFFFFFF, key >> 32)
        self.keys = [
            [k.splat((half + step * number) & 0xFFFFFFFF, LANES // 2) for number in range(ROUNDS)]
            for half, step in zip(halves, WEYL, strict=True)
        ]

    def block(self, number: Value) -> list[Value]:
        """Return the words of a block of 64 elements: four vectors of sixteen."""
        k = self.k
        start = k.splat((number * LANES).bits(U64), LANES // 2)
        parts = [self._rounds(start + k.lanes_constant(U64, range(odd, LANES, 2))) for odd in (0, 1)]
        joined = [(even & 0xFFFFFFFF) | (odd << 32) for even, odd in zip(*parts, strict=True)]
        to = U32.vector(LANES)
        return [k.assign(f"bitcast {pair.ir} {pair.text} to {to}", U32, LANES) for pair in joined]

    def _rounds(self, counter: Value) -> list[Value]:
        zero = self.k.constant(U64, 0, counter.lanes)
        a, b, c, d = counter, counter >> 32, zero, zero
        for first_key, second_key in zip(*self.keys, strict=True):
            first, second = (a & 0xFFFFFFFF) * MULTIPLIERS[0], (c & 0xFFFFFFFF) * MULTIPLIERS[1]
            a, b, c, d = (second >> 32) ^ b ^ first_key, second, (first >> 32) ^ d ^ second_key, first
        return [a, b, c, d]


def _drawn(
    k: Kernel, philox: Philox, first: Value, last: Value, body: Callable[[Value, Value, int], None]
) -> None:
    """Emit loops over elements first (the start of a block) to last: the body gets a place, its words and their
    number."""
    whole = first + (last - first) // BLOCK * BLOCK
    for place in k.range(first, whole, BLOCK):
        for index, word in enumerate(philox.block(place // BLOCK)):
            body(place + index * LANES, word, LANES)
    with k.when(whole < last):
        scratch = k.scratch.cast(U32)
        for index, word in enumerate(philox.block(whole // BLOCK)):
            scratch.store(word, index * LANES)
        for place in k.range(0, last - whole):
            body(whole + place, scratch.load(place), 1)


def _span(k: Kernel, item: Value, count: Value) -> tuple[Value, Value]:
    first = item * PIECE
    return first, k.select(first + PIECE < count, first + PIECE, count)


@dataclass(frozen=True)
class DropoutSpec(KernelSpec):
    """Kernel of y = x * scale + shift where the word is not below the threshold, else a constant. `shared`: one draw
    for each run of elements, which is an item. `mask`: the type of a mask that is written too ("" for none)."""

    dtype: np.dtype[Any]
    shared: bool
    shifted: bool
    mask: str

    @property
    def words(self) -> tuple[Parameter, ...]:
        element = Scalar.of(self.dtype)
        pointers = [("y", element), ("x", element)]
        pointers += [("mask", Scalar.named(self.mask))] if self.mask else []
        tensors = [Parameter(name, scalar, pointer=True, may_alias=True) for name, scalar in pointers]
        numbers = [Parameter(name, F64) for name in ("scale", "shift", "dropped")]
        return (
            *tensors,
            Parameter("seed", U64, pointer=True),
            *numbers,
            *numbers_named(["threshold", "count"]),
        )

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        philox = Philox(k, k.pointer("seed"))
        for item in k.range(k.begin, k.end):
            if self.shared:
                self._run(k, philox, item)
                continue
            first, last = _span(k, item, k.number("count"))
            _drawn(k, philox, first, last, lambda place, word, lanes: self._kept(k, place, word, lanes))
        return k

    def _run(self, k: Kernel, philox: Philox, item: Value) -> None:
        """Emit one draw for many elements."""
        scratch = k.scratch.cast(U32)
        for index, word in enumerate(philox.block(item // BLOCK)):
            scratch.store(word, index * LANES)
        one, count = scratch.load(item % BLOCK), k.number("count")
        begin = item * count
        whole = count // LANES * LANES
        for place in k.range(0, whole, LANES):
            self._kept(k, begin + place, k.splat(one, LANES), LANES)
        for place in k.range(whole, count):
            self._kept(k, begin + place, one, 1)

    def _kept(self, k: Kernel, place: Value, word: Value, lanes: int) -> None:
        x, y = k.pointer("x"), k.pointer("y")
        compute = F64 if x.element is F64 else F32
        scale, shift, dropped = (
            k.splat(k.number(name).to(compute), lanes) for name in ("scale", "shift", "dropped")
        )
        value = x.load(place, lanes).to(compute) * scale
        value = value + shift if self.shifted else value
        kept = word >= k.splat(k.number("threshold").to(U32), lanes)
        y.store(k.select(kept, value, dropped).to(y.element), place)
        if self.mask:
            mask = k.pointer("mask")
            store = (
                kept.to(U8)
                if mask.element is U8
                else k.select(kept, k.constant(F32, 1.0, lanes), k.constant(F32, 0.0, lanes)).to(mask.element)
            )
            mask.store(store, place)


@dataclass(frozen=True)
class UniformSpec(KernelSpec):
    """Kernel of y = low + u * width, u in [0, 1) or, `normal`, of the normal distribution with mean 0 and deviation
    1."""

    dtype: np.dtype[Any]
    normal: bool = False

    @property
    def words(self) -> tuple[Parameter, ...]:
        y = Parameter("y", Scalar.of(self.dtype), pointer=True)
        numbers = (Parameter("low", F64), Parameter("width", F64))
        return (y, Parameter("seed", U64, pointer=True), *numbers, *numbers_named(["count"]))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        philox, y = Philox(k, k.pointer("seed")), k.pointer("y")
        compute = F64 if y.element is F64 else F32
        low, width = k.number("low").to(compute), k.number("width").to(compute)

        def body(place: Value, word: Value, lanes: int) -> None:
            if self.normal:
                u = normal_quantile(k, (word.to(F64) + 0.5) * 2.0**-32).to(compute)
            else:
                u = word.to(F64) * 2.0**-32 if compute is F64 else (word >> 8).to(F32) * 2.0**-24
            y.store((u * width + low).to(y.element), place)

        for item in k.range(k.begin, k.end):
            _drawn(k, philox, *_span(k, item, k.number("count")), body)
        return k


@dataclass(frozen=True)
class BernoulliSpec(KernelSpec):
    """Kernel of y = 1 where u < x, u in [0, 1), else 0. NaN gives 0."""

    dtypes: tuple[np.dtype[Any], np.dtype[Any]]  # of y and x

    @property
    def words(self) -> tuple[Parameter, ...]:
        y, x = (
            Parameter(name, Scalar.of(dtype), pointer=True, may_alias=True)
            for name, dtype in zip("yx", self.dtypes, strict=True)
        )
        return (y, x, Parameter("seed", U64, pointer=True), *numbers_named(["count"]))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        philox, y, x = Philox(k, k.pointer("seed")), k.pointer("y"), k.pointer("x")

        def body(place: Value, word: Value, lanes: int) -> None:
            chance = x.load(place, lanes)
            chance = chance if chance.type is F64 else chance.to(F32)
            u = word.to(F64) * 2.0**-32 if chance.type is F64 else (word >> 8).to(F32) * 2.0**-24
            one, zero = (k.constant(y.element, number, lanes) for number in (1, 0))
            y.store(k.select(u < chance, one, zero), place)

        for item in k.range(k.begin, k.end):
            _drawn(k, philox, *_span(k, item, k.number("count")), body)
        return k


@dataclass(frozen=True)
class Drop:
    """Parameters of dropout: kept elements are scaled and shifted, dropped ones become a constant."""

    threshold: int
    scale: float
    shift: float = 0.0
    dropped: float = 0.0


def dropout_call(drop: Drop, x: View, y: View, mask: View | None, seed: View, run: int) -> Call:
    """Return the launch of dropout of dense memory; `run` elements share a draw."""
    shared = not isinstance(run, int) or run != 1
    kind = "" if mask is None else Scalar.of(mask.type.dtype).name
    spec = DropoutSpec(y.type.dtype, shared, drop.shift != 0, kind)
    total = math.prod(y.shape)
    words: dict[str, Argument] = {
        "y": y,
        "x": x,
        "seed": seed,
        "scale": float(drop.scale),
        "shift": float(drop.shift),
        "dropped": float(drop.dropped),
        "threshold": drop.threshold,
        "count": run if shared else total,
    }
    if mask is not None:
        words["mask"] = mask
    if shared:
        return Call.named(
            spec, words, total // maximum(1, run), maximum(1, PIECE // maximum(1, run)), SCRATCH
        )
    return Call.named(spec, words, -(-total // PIECE), _grain(total), SCRATCH)


def uniform_call(y: View, seed: View, low: float, high: float) -> Call:
    """Return the launch that draws numbers from low to below high."""
    total = math.prod(y.shape)
    words: dict[str, Argument] = {"y": y, "seed": seed, "low": low, "width": high - low, "count": total}
    return Call.named(UniformSpec(y.type.dtype), words, -(-total // PIECE), _grain(total), SCRATCH)


def normal_call(y: View, seed: View, mean: float, deviation: float) -> Call:
    """Return the launch that draws numbers of a normal distribution."""
    total = math.prod(y.shape)
    words: dict[str, Argument] = {"y": y, "seed": seed, "low": mean, "width": deviation, "count": total}
    return Call.named(
        UniformSpec(y.type.dtype, normal=True), words, -(-total // PIECE), _grain(total), SCRATCH
    )


def bernoulli_call(x: View, seed: View, y: View) -> Call:
    """Return the launch that draws ones with the probabilities in x."""
    total = math.prod(y.shape)
    words: dict[str, Argument] = {"y": y, "x": x, "seed": seed, "count": total}
    spec = BernoulliSpec((y.type.dtype, x.type.dtype))
    return Call.named(spec, words, -(-total // PIECE), _grain(total), SCRATCH)


def _grain(total: int) -> int:
    return minimum(4, maximum(1, -(-total // PIECE) // 4))
