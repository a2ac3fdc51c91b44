"""The answers to the pooling cases, in float64, by the obvious method made just fast enough.

Windows are rectangles, so both maximum and sum are taken along one axis after the other, one shifted view per
position in the window: no running sums, nothing clever, nothing shared with an engine.
"""

from types import EllipsisType

import numpy as np

from bench.cases import PoolCase
from bench.engines.base import Arrays

Index = tuple[EllipsisType | slice, ...]


def reference(case: PoolCase, x: np.ndarray) -> Arrays:
    """The float64 result of a case, followed by the indices where the case asks for them."""
    if case.kind == "adaptive average":
        return (adaptive_average(case, x.astype(np.float64)),)
    if case.kind == "global average":
        return (x.astype(np.float64).mean(axis=tuple(range(2, x.ndim)), keepdims=True),)
    if case.indices:
        return maximum_with_indices(case, x)
    if case.kind == "max":
        return (along_every_axis(case, x.astype(np.float64), np.maximum, -np.inf),)
    total = along_every_axis(case, x.astype(np.float64), np.add, 0.0)
    return (total / divisors(case),)


def along_every_axis(case: PoolCase, x: np.ndarray, combine: np.ufunc, fill: float) -> np.ndarray:
    """Reduces the windows, one spatial axis after the other."""
    for axis in range(2, x.ndim):
        x = along_axis(case, np.moveaxis(x, axis, 0), combine, fill)
        x = np.moveaxis(x, 0, axis)
    return x


def along_axis(case: PoolCase, x: np.ndarray, combine: np.ufunc, fill: float) -> np.ndarray:
    """Reduces the windows along the first axis."""
    margin = [(case.padding, case.padding)] + [(0, 0)] * (x.ndim - 1)
    padded = np.pad(x, margin, constant_values=fill)
    count = case.output_size(x.shape[0])
    reach = (count - 1) * case.stride + 1
    out: np.ndarray = padded[: reach : case.stride].copy()
    for shift in range(1, case.kernel):
        combine(out, padded[shift : shift + reach : case.stride], out=out)
    return out


def divisors(case: PoolCase) -> np.ndarray:
    """What each window's sum is divided by."""
    if case.count_padding:
        return np.array(float(case.kernel**case.rank))
    inside = np.ones((1, 1, *case.shape[2:]))
    return along_every_axis(case, inside, np.add, 0.0)


def adaptive_average(case: PoolCase, x: np.ndarray) -> np.ndarray:
    """Windows that share the input out evenly: from floor(i*n/m) to ceil((i+1)*n/m)."""
    out = np.empty(case.output_shape)
    for place in np.ndindex(*case.output_shape[2:]):
        window = tuple(
            slice(i * size // case.adaptive_size, -(-(i + 1) * size // case.adaptive_size))
            for i, size in zip(place, x.shape[2:], strict=True)
        )
        seen: Index = (..., *window)
        out[(..., *place)] = x[seen].mean(axis=tuple(range(2, x.ndim)))
    return out


def maximum_with_indices(case: PoolCase, x: np.ndarray) -> Arrays:
    """Largest value and its flat position in the unpadded plane; the first of equals wins."""
    height, width = x.shape[2:]
    positions = np.broadcast_to(np.arange(height * width).reshape(height, width), x.shape)
    margin = [(0, 0), (0, 0)] + [(case.padding, case.padding)] * 2
    values = np.pad(x.astype(np.float64), margin, constant_values=-np.inf)
    positions = np.pad(positions, margin)
    best = np.full(case.output_shape, -np.inf)
    where = np.zeros(case.output_shape, np.int64)
    for shift in np.ndindex(case.kernel, case.kernel):
        steps = zip(shift, case.output_shape[2:], strict=True)
        view: Index = (..., *(slice(s, s + (n - 1) * case.stride + 1, case.stride) for s, n in steps))
        larger = values[view] > best
        best = np.where(larger, values[view], best)
        where = np.where(larger, positions[view], where)
    return best, where


def error(found: Arrays, expected: Arrays) -> float:
    """Largest error over largest output; infinite where shapes or indices differ."""
    values, truth = found[0], expected[0]
    if len(found) != len(expected) or values.shape != truth.shape:
        return float("inf")
    if any(not np.array_equal(a, b) for a, b in zip(found[1:], expected[1:], strict=True)):
        return float("inf")
    difference = np.abs(values.astype(np.float64) - truth).max()
    return float(difference / np.abs(truth).max())
