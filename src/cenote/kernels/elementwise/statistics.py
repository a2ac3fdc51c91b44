"""Sums over runs of elements for normalising kernels, and the factor and shift that follow from them.

Sums of float32 and narrower types run in float32, 4,096 elements at a time, in as many chains as hide the latency of an
addition; the sums of these pieces are added in float64. So no chain is longer than 64 additions, whatever the row.
`wide` ones are float64 from the first term on: squares of what lies beyond 1.8e19 do not overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cenote.codegen.builder import Kernel
from cenote.codegen.values import BOOL, F32, F64, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.kernels.base import View

UNROLL = 4
PIECE = 4096
CENTRED = "layer"  # mean and variance; the others divide by a norm: "rms", "l1", "l2", "largest"

Made = Callable[[Value, int, "Value | None"], Value]
Body = Callable[[Value, int, "Value | None", int], None]


PAST_CACHES = 32 << 20  # bytes of a result from which on it is written past the caches
_LINE = 64


def goes_past_caches(x: View, y: View) -> bool:
    """Whether a result is so large that its cache lines should be neither read before they are written, nor kept.

    That saves a third of the traffic: layer_norm of [4096, 4096] float32 takes 9 ms so, else 16 (Sapphire Rapids, one
    thread).
    """
    return bool(y.type.nbytes >= PAST_CACHES) and x.slot != y.slot


def write(k: Kernel, x: Pointer, y: Pointer, count: Value, lanes: int, past_caches: bool, made: Made) -> None:
    """Write `count` elements from y on, vector by vector; past the caches from the first aligned vector on, unless x
    lies in the same place, whose lines are in the caches."""
    nbytes = x.element.nbytes

    def plain(place: Value, width: int, mask: Value | None, _: int) -> None:
        y.store(made(place, width, mask), place, mask)

    def streamed(place: Value, width: int, mask: Value | None, _: int) -> None:
        value = made(place, width, mask)
        if mask is not None or width == 1:
            y.store(value, place, mask)
        else:
            k.store_nontemporal(value, y + place)

    begin = k.integer(0)
    if past_caches:
        size = lanes * y.element.nbytes
        first = ((0 - k.misaligned(y, size)) & (size - 1)) // y.element.nbytes
        in_place = k.assign(f"icmp eq ptr {x.text}, {y.text}", BOOL, 1)
        begin = k.select(in_place | (first > count), count, first)
        walk(k, k.integer(0), begin, lanes, nbytes, plain)
    walk(k, begin, count, lanes, nbytes, streamed if past_caches else plain)


def compute_type(x: Pointer) -> Scalar:
    return F64 if x.element is F64 else F32


def walk(k: Kernel, begin: Value, end: Value, lanes: int, nbytes: int, body: Body) -> None:
    """Emit loops over vectors, four at a time (the body gets the number of each), then single ones, then the rest
    under a mask (one by one for types below 32 bits)."""
    step = lanes * UNROLL
    wide = begin + (end - begin) // step * step
    whole = begin + (end - begin) // lanes * lanes
    for place in k.range(begin, wide, step):
        for number in range(UNROLL):
            body(place + number * lanes, lanes, None, number)
    for place in k.range(wide, whole, lanes):
        body(place, lanes, None, 0)
    if nbytes < 4:
        for place in k.range(whole, end):
            body(place, 1, None, 0)
        return
    with k.when(whole < end):
        body(whole, lanes, k.tail_mask(end - whole, lanes), 0)


@dataclass(frozen=True)
class StridedRuns:
    """Set of `count` runs of `length` elements, `step` elements apart."""

    x: Pointer
    count: Value
    length: Value
    step: Value


def sums(
    k: Kernel,
    runs: StridedRuns,
    lanes: int,
    formula: Callable[[Value], Sequence[Value]],
    number: int,
    largest: bool = False,
    wide: bool = False,
) -> list[Value]:
    """Return sums (or the largest) of the values that a formula gives for each element, in float64, in
    a fixed order."""
    compute = F64 if wide else compute_type(runs.x)
    zero, one = k.constant(compute, 0.0, lanes), k.constant(compute, 0.0)

    def joined(a: Value, b: Value) -> Value:
        return k.maximum(a, b) if largest else a + b

    totals = [k.variable(k.constant(F64, 0.0, lanes)) for _ in range(number)]
    singles = [k.variable(k.constant(F64, 0.0)) for _ in range(number)]
    for run in k.range(0, runs.count):
        start = runs.x + run * runs.step
        for first in k.range(0, runs.length, PIECE):
            last = k.select(first + PIECE < runs.length, first + PIECE, runs.length)
            chains = [[k.variable(zero) for _ in range(UNROLL)] for _ in range(number)]
            rest = [k.variable(one) for _ in range(number)]

            def add(
                place: Value,
                width: int,
                mask: Value | None,
                chain: int,
                start: Pointer = start,
                chains: list[list[Any]] = chains,
                rest: list[Any] = rest,
            ) -> None:
                values = formula(start.load(place, width, mask).to(compute))
                for index, value in enumerate(values):
                    kept = value if mask is None else k.select(mask, value, zero)
                    to = chains[index][chain] if width == lanes else rest[index]
                    to.value = joined(to.value, kept)

            walk(k, first, last, lanes, runs.x.element.nbytes, add)
            for total, single, parts, left in zip(totals, singles, chains, rest, strict=True):
                a, b, c, d = (part.value for part in parts)
                total.value = joined(total.value, joined(joined(a, b), joined(c, d)).to(F64))
                single.value = joined(single.value, left.value.to(F64))
    name = "maximum" if largest else "add"
    return [
        joined(k.reduce(total.value, name), single.value)
        for total, single in zip(totals, singles, strict=True)
    ]


@dataclass(frozen=True)
class Moments:
    """Mean and variance of a row or (as vectors) of columns, in float64, or for norms 0 and the norm's base."""

    mean: Value | None
    spread: Value

    def factor(self, k: Kernel, statistic: str, outside: bool, epsilon: Value) -> Value:
        """Factor that values are multiplied by: a norm is at least epsilon, a norm of 0 gives 0."""
        if statistic == CENTRED or statistic == "rms":
            if outside:
                return 1.0 / (k.square_root(self.spread) + epsilon)
            return 1.0 / k.square_root(self.spread + epsilon)
        norm = k.square_root(self.spread) if statistic == "l2" else self.spread
        held = k.select(norm < epsilon, epsilon, norm)
        zero = k.constant(F64, 0.0, held.lanes)
        return k.select(held.equals(0.0), zero, 1.0 / held)


class Centre:
    """Subtraction of a float64 mean from values of less precision: its rounded part here, the rest by the shift."""

    def __init__(self, mean: Value, compute: Scalar) -> None:
        self.high = mean.to(compute)
        self.low = mean - self.high.to(F64)

    def of(self, value: Value) -> Value:
        return value - self.high


def row_moments(k: Kernel, statistic: str, runs: StridedRuns, lanes: int, wide: bool = False) -> Moments:
    """Return the moments of all elements of some runs.

    The mean is that of a first pass, corrected by a second one, which sums differences from it: a mean far from zero
    costs nothing.
    """
    count = (runs.count * runs.length).to(F64)
    if statistic == CENTRED:
        compute = F64 if wide else compute_type(runs.x)
        (total,) = sums(k, runs, lanes, lambda value: [value], 1, wide=wide)
        centre = Centre((total / count).to(compute).to(F64), compute)

        def apart(value: Value) -> Sequence[Value]:
            moved = centre.of(value)
            return [moved, moved * moved]

        rest, square = sums(k, runs, lanes, apart, 2, wide=wide)
        return centred_moments(k, centre.high, rest, square, count)
    if statistic in ("rms", "l2"):
        (square,) = sums(k, runs, lanes, lambda value: [value * value], 1, wide=wide)
        return Moments(None, square / count if statistic == "rms" else square)
    (size,) = sums(k, runs, lanes, lambda value: [k.absolute(value)], 1, statistic == "largest", wide)
    return Moments(None, size)


def centred_moments(k: Kernel, centre: Value, rest: Value, square: Value, count: Value) -> Moments:
    """Return the moments by sums of the differences from a number near the mean, and of their squares, in float64."""
    correction = rest / count
    variance = square / count - correction * correction
    positive = k.select(variance < 0.0, k.constant(F64, 0.0, variance.lanes), variance)
    high = centre.to(F64)
    return Moments(k.select(correction.is_nan(), high, high + correction), positive)  # an infinite mean stays
