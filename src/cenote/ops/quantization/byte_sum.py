"""Sums of two tensors of bytes, dequantised, added and quantised, as two multiply-adds.

    y = saturate(round(a * A + (b * B + C)) + zero point),  A = a_scale / y_scale, B = b_scale / y_scale

That takes a third of the instructions, no division, and other roundings: near halves it may differ by one. But there
are 65,536 pairs of bytes. So all of them are computed both ways, with the rounding of the instructions, and numbers A,
B, C are taken for which every pair agrees; of random scales 81 % agree at once, and 99 % with some of the numbers moved
by a few units in the last place. Where none agree, the chain is computed step by step.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from cenote.core.types import FLOAT32, Array
from cenote.kernels.elementwise.expression import Expression, Step
from cenote.ops.elementwise.pointwise import Function

_MOVES = 40  # units in the last place of C, in both directions
_NEAR = 2e-3  # pairs that are further from a half agree whatever the roundings
_LARGEST = 2.0**20  # sums beyond it are not rounded by the kernel
_LEAST = 2.0**-8  # of A, B and C, which are at most its inverse: then all sums below are exact in float64
# Instructions per vector of float32. Packing four vectors into one register of bytes at once saves two of them, and
# takes 19.1 us in place of 17.0 for 50,176 numbers (Zen 3; ONNX Runtime 19.6).
WEIGHT = 12


def bytes_of(dtype: np.dtype[Any]) -> Array:
    """Return all values of a type of one byte."""
    return np.arange(256).astype(np.uint8).view(dtype)


def byte_sum(
    table: Array, types: tuple[np.dtype[Any], ...], scales: tuple[float, float], zeros: tuple[int, int, int]
) -> tuple[Function, list[Array]] | None:
    """Return the function of two tensors of bytes of these types, whose results for all pairs are the `table` (256,
    256), and its scalars; None where no numbers give that.

    `scales`: A and B; `zeros`: the zero points of both and of the sum.
    """
    low, high = int(table.min()), int(table.max())
    first, second = scales
    near = (first, second, -(zeros[0] * first + zeros[1] * second))
    factors = agreeing_factors(table, bytes_of(types[0]), bytes_of(types[1]), near, (low, high), zeros[2])
    if factors is None:
        return None
    steps = (
        Step("cast", (0,), FLOAT32),
        Step("cast", (1,), FLOAT32),
        Step("multiply_add", (7, 3, 4), FLOAT32),
        Step("multiply_add", (6, 2, 8), FLOAT32),
        Step("quantized_finite", (9, 5), np.dtype(np.int32), (low, high)),
        Step("cast", (10,), table.dtype),
    )
    scalars = [*(np.array(each, FLOAT32) for each in factors), np.array(zeros[2], np.int32)]
    return Function(Expression(6, steps), (), tuple(range(6)), weight=WEIGHT, exact=True), scalars


def agreeing_factors(
    table: Array,
    a: Array,
    b: Array,
    near: tuple[float, float, float],
    bounds: tuple[int, int],
    zero: int,
) -> tuple[float, float, float] | None:
    """Return numbers A, B and C of float32 `near` these, for which every pair agrees; None where none do.

    `table`: the sums of all numbers `a` (rows) and `b` (columns), whole ones of at most nine bits, each rounded to a
    whole number, around the `zero` point and within `bounds`.
    """
    given = (table, a.astype(np.float64), b.astype(np.float64))
    return _factors(tuple((each.dtype.str, each.tobytes()) for each in given), near, bounds, zero)


@lru_cache(256)  # algorithms are listed several times in a load
def _factors(
    content: tuple[tuple[str, bytes], ...],
    numbers: tuple[float, float, float],
    bounds: tuple[int, int],
    zero: int,
) -> tuple[float, float, float] | None:
    """Return A, B and C for which every pair of a table, of rows and of columns agrees."""
    table, a, b = (np.frombuffer(data, kind).astype(np.float64) for kind, data in content)
    wanted = table.reshape(len(a), len(b))
    first, second, constant = numbers
    exact = a[:, None] * first + b * second + constant
    ordinary = all(_LEAST <= abs(each) <= 1 / _LEAST for each in (first, second, constant or 1.0))
    if not ordinary or not np.abs(exact).max() < _LARGEST:
        return None
    rows, columns = np.nonzero(np.abs(exact - np.floor(exact) - 0.5) < _NEAR)
    for factors in _tries(first, second, constant):
        near = _computed(a[rows], b[columns], factors)
        if not np.array_equal(np.clip(near + zero, *bounds), wanted[rows, columns]):
            continue
        if np.array_equal(np.clip(_computed(a[:, None], b, factors) + zero, *bounds), wanted):
            return factors
    return None


def _tries(first: float, second: float, constant: float) -> Iterator[tuple[float, float, float]]:
    """Yield numbers of float32 around these, the nearest first."""
    a, b, c = (np.float32(each) for each in (first, second, constant))
    for moved in sorted(range(-_MOVES, _MOVES + 1), key=abs):
        for left, right in product((0, -1, 1), repeat=2):
            yield (
                float(np.float32(a + left * np.spacing(a))),
                float(np.float32(b + right * np.spacing(b))),
                float(np.float32(c + moved * np.spacing(np.abs(c)))),
            )


def _computed(a: Array, b: Array, factors: tuple[float, float, float]) -> Array:
    """Return the rounded sums as two multiply-adds of float32 round them: products of a byte and a float32, and their
    sums with another float32 that is no less than 2^-31 times as large, are exact in float64."""
    first, second, constant = factors
    inner = np.float32(b * second + constant).astype(np.float64)
    whole: Array = np.rint(np.float32(a * first + inner)).astype(np.float64)
    return whole
