"""Pools by the most naive loops: every tap of every window is looked at on its own, with no shared geometry code.

Works on NCHW-like arrays of any number of spatial axes. Padding is represented explicitly: a dictionary from positions
to values, so that what lies outside cannot be confused with an element.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Pairs = Sequence[tuple[int, int]]


def out_size(size: int, k: int, s: int, d: int, begin: int, end: int, ceil_mode: bool) -> int:
    """Count the windows: slide until the next one would not fit (or, rounding up, would start past the input)."""
    reach = (k - 1) * d + 1
    count = 0
    while True:
        start = count * s  # in padded coordinates
        if start + reach <= size + begin + end:
            count += 1
            continue
        # One more window may overhang if the previous one left elements over, and only if it starts in time.
        left_over = count > 0 and (count - 1) * s + reach < size + begin + end
        first = count == 0 and size + begin + end > reach - s
        if ceil_mode and (left_over or first) and start < size + begin:
            count += 1
        return count


def taps(shape: Sequence[int], position: Sequence[int], window: Sequence[int], stride: Sequence[int],
         dilation: Sequence[int], pads: Pairs) -> list[tuple[tuple[int, ...], str]]:  # fmt: skip
    """The taps of a window, row-major, each with what it falls on: "element", "padding" or "beyond"."""
    found = []
    for tap in itertools.product(*map(range, window)):
        kind, at = "element", []
        for o, t, s, d, (begin, end), size in zip(position, tap, stride, dilation, pads, shape, strict=True):
            place = o * s + t * d - begin
            at.append(place)
            if place >= size + end:
                kind = "beyond"
            elif not 0 <= place < size and kind != "beyond":
                kind = "padding"
        found.append((tuple(at), kind))
    return found


def sizes(shape: Sequence[int], window: Sequence[int], stride: Sequence[int], dilation: Sequence[int], pads: Pairs,
          ceil_mode: bool) -> tuple[int, ...]:  # fmt: skip
    return tuple(
        out_size(n, k, s, d, b, e, ceil_mode)
        for n, k, s, d, (b, e) in zip(shape, window, stride, dilation, pads, strict=True)
    )


def pool(x: Array, reduce: Callable[[list[Any], int, int], Any], window: Sequence[int], stride: Sequence[int],
         dilation: Sequence[int], pads: Pairs, ceil_mode: bool = False) -> Array:  # fmt: skip
    """reduce(elements, real taps, taps on elements or padding) of every window, as an object array."""
    spatial = x.shape[2:]
    out = sizes(spatial, window, stride, dilation, pads, ceil_mode)
    y = np.empty((*x.shape[:2], *out), object)
    for n, c in np.ndindex(*x.shape[:2]):
        for position in np.ndindex(*out):
            seen = taps(spatial, position, window, stride, dilation, pads)
            elements = [(at, x[(n, c, *at)]) for at, kind in seen if kind == "element"]
            padded = sum(kind != "beyond" for _, kind in seen)
            y[(n, c, *position)] = reduce(elements, len(elements), padded)
    return y


def max_pool(x: Array, window: Sequence[int], stride: Sequence[int], dilation: Sequence[int], pads: Pairs,
             ceil_mode: bool = False, nan: str = "propagate", largest: bool = True) -> tuple[Array, Array]:  # fmt: skip
    """Values and plane indices. The scan is PyTorch's: a later element wins if it is larger or a NaN."""
    spatial = x.shape[2:]

    def flat(at: tuple[int, ...]) -> int:
        index = 0
        for place, size in zip(at, spatial, strict=True):
            index = index * size + place
        return index

    def reduce(elements: list[Any], real: int, padded: int) -> Any:
        best: Any = None
        where = flat(elements[0][0])
        for at, value in elements:
            hole = value != value
            if hole and nan == "ignore":
                continue
            better = best is None or hole or (best == best and (value > best if largest else value < best))
            if better:
                best, where = value, flat(at)
        if best is None:
            best = -math.inf if largest else math.inf
        return best, where

    both = pool(x, reduce, window, stride, dilation, pads, ceil_mode)
    values = np.array([pair[0] for pair in both.ravel()], x.dtype).reshape(both.shape)
    places = np.array([pair[1] for pair in both.ravel()], np.int64).reshape(both.shape)
    return values, places


def average_pool(x: Array, window: Sequence[int], stride: Sequence[int], dilation: Sequence[int], pads: Pairs,
                 ceil_mode: bool = False, include: bool = False, divisor: int = 0) -> Array:  # fmt: skip
    """float64 means."""

    def reduce(elements: list[Any], real: int, padded: int) -> float:
        total = 0.0
        for _, value in elements:
            total += float(value)
        return total / (divisor or (padded if include else real))

    return pool(x, reduce, window, stride, dilation, pads, ceil_mode).astype(np.float64)


def lp_pool(x: Array, p: float, window: Sequence[int], stride: Sequence[int], dilation: Sequence[int], pads: Pairs,
            ceil_mode: bool = False) -> Array:  # fmt: skip
    def reduce(elements: list[Any], real: int, padded: int) -> float:
        absolute = [abs(float(value)) for _, value in elements]
        return max(absolute) if math.isinf(p) else math.fsum(a**p for a in absolute) ** (1 / p)

    return pool(x, reduce, window, stride, dilation, pads, ceil_mode).astype(np.float64)


def same_pads(size: int, k: int, s: int, d: int, upper: bool) -> tuple[int, int]:
    """SAME: the smallest total padding that gives ceil(size / s) windows."""
    out = (size + s - 1) // s
    total = 0
    while total + size < (out - 1) * s + (k - 1) * d + 1:
        total += 1
    return (total // 2, total - total // 2) if upper else (total - total // 2, total // 2)
