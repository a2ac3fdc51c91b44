"""Matrices of Winograd's minimal filtering F(m, r), exact, from evaluation points; and the code that applies them.

m outputs of a filter of r taps come from a = m + r - 1 inputs by y = A^T [(G g) * (B^T d)]: polynomials are evaluated
at a - 1 points and at infinity, multiplied, interpolated (A. L. Toom, S. A. Cook; transposed as S. Winograd did).
Points decide the rounding error: for F(4,3) 0, ±3/4, ±3/2 halve that of the textbook's 0, ±1, ±2, at the same number
of operations and with coefficients that float32 holds exactly; for F(3,3) ±1/2, ±3/2 nearly halve that of 0, ±1, 1/2
(1.3 and 2.3 times that of a plain sum), with fewer operations. B^T and A^T get the simple coefficients, G the
fractions: it is applied to the weights once, in float64.

Windows of three taps that move by two meet inputs of even places with their outer taps, F(m, 2), and those of odd
places with the middle one (J. Yepez, S.-B. Ko, "Stride 2 1-D, 2-D, and 3-D Winograd for convolutional neural
networks", IEEE Transactions on VLSI Systems 28, 2020): 81 products in place of 144 for 4x4 outputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import ClassVar, TypeVar

import numpy as np

from cenote.codegen.builder import Kernel
from cenote.codegen.values import Value
from cenote.core.deferred import cached_property, dataclass
from cenote.core.types import Array

Row = tuple[Fraction, ...]
Matrix = tuple[Row, ...]
T = TypeVar("T")
Number = TypeVar("Number", int, Value)
"""A number, or code that computes it."""

# Finite points, by how many there are; pairs ±p stand side by side, for their rows share even and odd parts.
POINTS: dict[int, tuple[str, ...]] = {
    0: (),
    1: ("0",),
    2: ("0", "1"),
    3: ("0", "1", "-1"),
    4: ("1/2", "-1/2", "3/2", "-3/2"),
    5: ("0", "3/4", "-3/4", "3/2", "-3/2"),
    6: ("1/4", "-1/4", "3/4", "-3/4", "2", "-2"),
    7: ("0", "1", "-1", "2", "-2", "1/2", "-1/2"),
}


@dataclass(frozen=True)
class Filtering:
    """Minimal filtering F(m, r): `a` inputs and as many products, the matrices as exact fractions.

    `others` are points of a larger filtering whose transformed weights this one shares: the weights' divisors by them
    move into the input matrix.
    """

    m: int
    r: int
    points: tuple[Fraction, ...]
    others: tuple[Fraction, ...] = ()

    stride: ClassVar[int] = 1

    @property
    def a(self) -> int:
        return self.samples(self.m)

    def samples(self, outputs: Number) -> Number:
        """Number of inputs, and of products, of so many outputs: a number, or code that computes it."""
        return outputs * self.stride + (self.r - self.stride)

    def weight_row(self, product: Number) -> Number:
        """The row of G whose result a product multiplies."""
        return product

    @property
    def is_trivial(self) -> bool:
        """Whether there is one output of one tap: nothing to transform."""
        return self.a == 1

    @cached_property
    def input_matrix(self) -> Matrix:
        """B^T, a by a: each row has the coefficients of the product of (x - q) over the other points q; the last,
        over all."""
        rows = []
        for p in self.points:
            scale = math.prod((p - q for q in self.others), start=Fraction(1))
            rows.append(tuple(scale * c for c in _product([q for q in self.points if q != p], self.a)))
        return (*rows, _product(self.points, self.a))

    @cached_property
    def weight_matrix(self) -> Matrix:
        """G, a by r."""
        rows = []
        for p in self.points:
            scale = math.prod((p - q for q in (*self.points, *self.others) if q != p), start=Fraction(1))
            rows.append(tuple(p**k / scale for k in range(self.r)))
        return (*rows, tuple(Fraction(int(k == self.r - 1)) for k in range(self.r)))

    @cached_property
    def output_matrix(self) -> Matrix:
        """A^T, m by a."""
        return tuple((*(p**i for p in self.points), Fraction(int(i == self.m - 1))) for i in range(self.m))


@dataclass(frozen=True)
class StridedFiltering(Filtering):
    """Minimal filtering of windows of three taps that move by two: products of inputs of even and of odd places take
    turns, so that shorter ones have the first of them and the last, infinity. All those of odd places multiply the
    middle tap, the last row of G."""

    stride: ClassVar[int] = 2

    @property
    def outer(self) -> Filtering:
        """F(m, 2) of the outer taps, on inputs of even places."""
        return Filtering(self.m, 2, self.points, self.others)

    @property
    def middle(self) -> Fraction:
        """Factor of the middle tap."""
        return Fraction(1)

    def weight_row(self, product: Number) -> Number:
        half = product // 2
        return half + (product - half * 2) * (half * -1 + (self.m + 1))

    @cached_property
    def input_matrix(self) -> Matrix:
        outer = [_spread(row, self.a) for row in self.outer.input_matrix]
        odd = [tuple(Fraction(int(j == 2 * i + 1)) for j in range(self.a)) for i in range(self.m)]
        return tuple(alternated(outer, odd))

    @cached_property
    def weight_matrix(self) -> Matrix:
        middle = Fraction(0), self.middle, Fraction(0)
        return (*((first, Fraction(0), last) for first, last in self.outer.weight_matrix), middle)

    @cached_property
    def output_matrix(self) -> Matrix:
        return tuple(
            tuple(alternated(row, [Fraction(int(j == i)) for j in range(self.m)]))
            for i, row in enumerate(self.outer.output_matrix)
        )


@dataclass(frozen=True)
class WholeFiltering(Filtering):
    """Minimal filtering whose matrices are whole numbers; its results are `scale` times y.

    `scale` times G is whole. Infinity's row of it, which has the largest number, is halved, and A^T doubles its
    product: F(4x4, 3x3) makes 16 bits of windows of 8 bits (at most 12 * 12 * 128), and 25 of the results.
    """

    scale: int = 1

    @cached_property
    def weight_matrix(self) -> Matrix:
        *rows, last = self._exact.weight_matrix
        return (
            *(tuple(self.scale * c for c in row) for row in rows),
            tuple(c * self.scale / 2 for c in last),
        )

    @cached_property
    def output_matrix(self) -> Matrix:
        return tuple((*row, 2 * last) for *row, last in self._exact.output_matrix)

    @property
    def _exact(self) -> Filtering:
        return Filtering(self.m, self.r, self.points, self.others)


@dataclass(frozen=True)
class WholeStridedFiltering(StridedFiltering):
    """Minimal filtering of windows that move by two, in whole numbers: F(4x4, 3x3) makes 9180 of bytes at most."""

    scale: int = 1

    @property
    def outer(self) -> WholeFiltering:
        return WholeFiltering(self.m, 2, self.points, self.others, self.scale)

    @property
    def middle(self) -> Fraction:
        return Fraction(self.scale)


Whole = WholeFiltering | WholeStridedFiltering


@cache
def whole_filtering(m: int, r: int, stride: int = 1) -> Whole:
    """Return F(m, r) in whole numbers, m + r at most 7: on the points 0, 1, -1, 2, -2. Windows that move by two have
    three taps."""
    if stride == 2:
        outer = whole_filtering(m, 2)
        return WholeStridedFiltering(m, r, outer.points, scale=outer.scale)
    exact = Filtering(m, r, tuple(map(Fraction, (0, 1, -1, 2, -2)[: m + r - 2])))
    scale = math.lcm(2, *(c.denominator for row in exact.weight_matrix for c in row))
    return WholeFiltering(m, r, exact.points, scale=scale)


@cache
def filtering(m: int, r: int, stride: int = 1) -> Filtering:
    """Return F(m, r) with the best points known for its size. Windows that move by two have three taps."""
    if stride == 2 and r == 3:
        return StridedFiltering(m, r, tuple(map(Fraction, POINTS[m])))
    return Filtering(m, r, tuple(map(Fraction, POINTS[m + r - 2])))


@cache
def shortened(f: Filtering, m: int) -> Filtering:
    """Return F(m, r) with fewer outputs than f, on the first of its points and infinity: it shares the weights of f."""
    count = len(f.points) - (f.m - m)
    return replace(f, m=m, points=f.points[:count], others=f.points[count:])


def weights_of_window(vertical: Filtering, horizontal: Filtering) -> int:
    """Return the number of transformed weights of a window."""
    return len(vertical.weight_matrix) * len(horizontal.weight_matrix)


def _product(roots: Sequence[Fraction], length: int) -> Row:
    """Coefficients, lowest first, of the product of (x - root)."""
    coefficients = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *coefficients]
        coefficients = [s - root * c for s, c in zip(shifted, [*coefficients, Fraction(0)], strict=True)]
    return (*coefficients, *(Fraction(0),) * (length - len(coefficients)))


def transform_weights(taps: Array, vertical: Filtering, horizontal: Filtering) -> Array:
    """Transform windows (rv, rh, K) to (av, ah, K), in float64.

    This uses plain array arithmetic: a matrix product of nine columns gains nothing from a BLAS, whose threads cost
    ten times as much on a busy machine.
    """
    rows = _weighted(vertical, taps.astype(np.float64))
    return np.swapaxes(_weighted(horizontal, np.swapaxes(rows, 0, 1)), 0, 1)


def _weighted(f: Filtering, taps: Array) -> Array:
    """Apply G to the first axis."""
    if f.is_trivial:
        return taps
    results = np.zeros((len(f.weight_matrix), *taps.shape[1:]))
    scaled = np.empty(taps.shape[1:])  # one for all products: fresh memory costs more than the arithmetic
    for row, total in zip(f.weight_matrix, results, strict=True):
        for factor, tap in zip(row, taps, strict=True):
            if factor:
                total += np.multiply(tap, float(factor), out=scaled)
    return results


def alternated(even: Sequence[T], odd: Sequence[T]) -> list[T]:
    """Return the items of even and odd places in order."""
    found = [*even, *odd]
    found[::2], found[1::2] = even, odd
    return found


def _spread(row: Row, length: int) -> Row:
    """Return a row whose coefficients stand at even places."""
    return tuple(alternated(row, (Fraction(0),) * (length - len(row))))


def apply_input(k: Kernel, f: Filtering, d: Sequence[Value]) -> list[Value]:
    """Emit B^T d on vectors. The rows of p and -p differ in the sign of their odd part, which is computed once."""
    if isinstance(f, StridedFiltering):
        return alternated(apply_input(k, f.outer, d[::2]), d[1::2])
    rows = f.input_matrix
    results: list[Value] = []
    for index, row in enumerate(rows):
        if len(results) > index:
            continue
        if not _is_pair(f, index) or any(
            c + e if i % 2 else c - e for i, (c, e) in enumerate(zip(row, rows[index + 1], strict=True))
        ):
            results.append(combine(k, row, d))  # also where a lonely point breaks the symmetry
            continue
        even = tuple(c if i % 2 == 0 else Fraction(0) for i, c in enumerate(row))
        odd = tuple(c if i % 2 else Fraction(0) for i, c in enumerate(row))
        scale = next(c for c in reversed(odd) if c)
        base, rest = combine(k, even, d), combine(k, tuple(c / scale for c in odd), d)
        results += _plus_minus(k, base, rest, scale)
    return results


def apply_output(k: Kernel, f: Filtering, m: Sequence[Value]) -> list[Value]:
    """Emit A^T m on vectors: pairs of points enter even rows by their sum, odd rows by their difference."""
    if isinstance(f, StridedFiltering):
        return [a + b for a, b in zip(apply_output(k, f.outer, m[::2]), m[1::2], strict=True)]
    sums: dict[int, tuple[Value, Value]] = {}
    for index in range(len(f.points)):
        if _is_pair(f, index):
            sums[index] = (m[index] + m[index + 1], m[index] - m[index + 1])
    results = []
    for i, row in enumerate(f.output_matrix):
        terms, factors = [], []
        for index, factor in enumerate(row):
            if _is_pair(f, index - 1) or not factor:
                continue
            terms.append(sums[index][i % 2] if index in sums else m[index])
            factors.append(factor)
        results.append(combine(k, tuple(factors), terms))
    return results


def _is_pair(f: Filtering, index: int) -> bool:
    """Whether points index and index + 1 are p and -p."""
    return 0 <= index < len(f.points) - 1 and f.points[index] != 0 and f.points[index] == -f.points[index + 1]


def _plus_minus(k: Kernel, base: Value, rest: Value, scale: Fraction) -> list[Value]:
    if scale == 1:
        return [base + rest, base - rest]
    return [_added(k, sign * float(scale), rest, base) for sign in (1.0, -1.0)]


def combine(k: Kernel, row: Row, d: Sequence[Value]) -> Value:
    """Emit the sum of row[i] * d[i]; it starts from a term whose factor is 1 where there is one."""
    terms = [(float(c), x) for c, x in zip(row, d, strict=True) if c]
    terms.sort(key=lambda term: term[0] != 1.0)
    factor, total = terms[0]
    if factor != 1.0:
        total = total * factor
    for factor, x in terms[1:]:
        if factor == 1.0:
            total = total + x
        elif factor == -1.0:
            total = total - x
        else:
            total = _added(k, factor, x, total)
    return total


def _added(k: Kernel, factor: float, x: Value, total: Value) -> Value:
    """Return total + factor * x."""
    if not x.type.is_float:
        return total + x * factor
    return k.fma(k.constant(x.type, factor, x.lanes), x, total)
