"""Convolutions without the taps that see padding: a map whose window is dilated is cut into regions, each with the part
of the window that lies inside the input for all of it. So is a volume of open depth, along that.

With a dilation of 12 on a map of 16x16, the middle of the map sees one tap of 3x3, its corners four and its edges
two: 2.25 taps a pixel instead of 9, and no border of zeros around the input, which would be six times the map. All
regions of a direct convolution read the same packed weights, by a table of the taps they have; those of a depthwise one
have weights of their own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size, maximum, minimum, plain
from cenote.core.target import Target
from cenote.kernels.base import Call, View
from cenote.kernels.conv.direct_calls import DirectProblem, direct_calls
from cenote.kernels.layout.reorder import deep_strides

WORTH_REGIONS = 0.8  # of the plain sum's taps
# Seconds of a tap in a row of a depthwise region, whose pixels are too few to hide the latency of additions.
_TAP_OF_ROW = 1.6e-9


@dataclass(frozen=True)
class AxisPart:
    """Output places begin..end of an axis, which see the taps first..last."""

    begin: int
    end: int
    first: int
    last: int

    @property
    def seen(self) -> int:
        """Number of taps that all places see together."""
        return (self.end - self.begin) * (self.last - self.first + 1)


def is_cut(shape: ConvShape, axis: int) -> bool:
    """Whether regions of a deep convolution differ along an axis; x needs no border there."""
    return max(shape.dilations) > 1 or (axis == 0 and is_size(shape.size[0]))


def axis_parts(shape: ConvShape, axis: int) -> list[AxisPart]:
    """Return the parts of an axis (of stride 1), in order; an empty list where some place sees no tap. Where the size
    is open, any part may be empty, and there are parts only where a tap lies on the place itself."""
    if not is_cut(shape, axis):
        return [AxisPart(0, shape.out[axis], 0, shape.window[axis] - 1)]
    size, window, step, pad = shape.size[axis], shape.window[axis], shape.dilations[axis], shape.pads[axis][0]
    if is_size(size):
        on_place = pad % step == 0 and pad // step < window and sum(shape.pads[axis]) == (window - 1) * step
        return list(_open_parts(size, window, step, pad)) if on_place else []
    parts: list[AxisPart] = []
    for place in range(shape.out[axis]):
        inside = [tap for tap in range(window) if 0 <= place + tap * step - pad < size]
        if not inside:
            return []
        if parts and (parts[-1].first, parts[-1].last) == (inside[0], inside[-1]):
            parts[-1] = replace(parts[-1], end=place + 1)
        else:
            parts.append(AxisPart(place, place + 1, inside[0], inside[-1]))
    return parts


def _open_parts(size: int, window: int, step: int, pad: int) -> Iterator[AxisPart]:
    """Yield the parts of an axis whose result is as long as it is: a place sees a tap from `pad - tap * step` on, and
    up to as far from the end."""
    for first, last in itertools.product(range(pad // step + 1), range(pad // step, window)):
        begin, end = max(0, pad - first * step), size + min(0, pad - last * step)
        if first:
            end = minimum(end, pad - (first - 1) * step)
        if last < window - 1:
            begin = maximum(begin, size + pad - (last + 1) * step)
        yield AxisPart(begin, maximum(begin, end), first, last)


def share_of_taps(shape: ConvShape) -> float:
    """Share of the plain sum's multiply-adds that regions need for a deep convolution; 1 where regions do not suit
    it."""
    pads = [*itertools.chain(*shape.pads)]
    known = not any(map(is_size, pads)) and min((0, *pads)) == 0
    if not known or set(shape.strides) != {1} or not is_cut(shape, 0):
        return 1.0
    seen = math.prod(_seen(shape, axis) for axis in range(3))
    return seen / (plain(shape.pixels) * shape.taps) or 1.0


def taps_read(shape: ConvShape) -> int:
    """Number of taps of all regions together that have a place: each reads the weights of its own taps."""
    return math.prod(_taps_read(shape, axis) for axis in range(3))


def row_seconds(shape: ConvShape, lanes: int) -> float:
    """Seconds that regions of a depthwise convolution take beside what they move: those of the taps that their rows
    see, however long these are."""
    taps = _seen(shape, 0) * _seen(shape, 1) * _taps_read(shape, 2)
    return shape.n * -(-shape.filters // lanes) * taps * _TAP_OF_ROW


def _seen(shape: ConvShape, axis: int) -> int:
    """Number of taps along an axis that all its places see together."""
    return sum(plain(part.seen) for part in axis_parts(shape, axis))


def _taps_read(shape: ConvShape, axis: int) -> int:
    """Number of taps along an axis of all parts together that have a place."""
    return sum(part.last - part.first + 1 for part in axis_parts(shape, axis) if plain(part.seen))


def border(shape: ConvShape) -> int:
    """Number of zeros around x: of a dilated window they may outweigh it."""
    around = math.prod(size + sum(pads) for size, pads in zip(shape.size, shape.pads, strict=True))
    return shape.n * shape.channels * (around - math.prod(shape.size))


def direct_region_calls(
    problem: DirectProblem, x: View, y: View, residual: View | None, target: Target
) -> Iterator[Call]:
    """Yield the calls of a convolution of groups of whole vectors for which `share_of_taps` is below 1; x needs no
    border where it `is_cut`."""
    shape = problem.shape
    problem = replace(problem, packed={}, pixels=shape.pixels * shape.n)

    def calls(
        small: ConvShape, taps: tuple[int, ...], x: View, y: View, residual: View | None
    ) -> Iterator[Call]:
        return direct_calls(replace(problem, shape=small, taps=taps), x, y, residual, target)

    return region_calls(shape, calls, x, y, residual)


def region_calls(
    shape: ConvShape,
    calls: Callable[[ConvShape, tuple[int, ...], View, View, View | None], Iterator[Call]],
    x: View,
    y: View,
    residual: View | None,
) -> Iterator[Call]:
    """Yield what `calls` yields for each region: for its shape, the numbers of the taps that it sees, and its parts of
    x, y and a residual."""
    independent = False
    for parts in itertools.product(*(axis_parts(shape, axis) for axis in range(3))):
        begins = [part.begin for part in parts]
        inside = [
            part.begin + part.first * step - pads[0]
            for part, step, pads in zip(parts, shape.dilations, shape.pads, strict=True)
        ]
        taps = itertools.product(*(range(part.first, part.last + 1) for part in parts))
        _, high, wide = shape.window
        small = replace(
            shape,
            out=tuple(part.end - part.begin for part in parts),
            window=tuple(part.last - part.first + 1 for part in parts),
            pads=((0, 0),) * 3,
        )
        there = None if residual is None else _moved(residual, begins)
        numbers = tuple((d * high + h) * wide + w for d, h, w in taps)
        for call in calls(small, numbers, _moved(x, inside), _moved(y, begins), there):
            yield replace(call, independent=independent)
            independent = True


def _moved(view: View, places: list[int]) -> View:
    """View from a place on."""
    steps = deep_strides(view)[2:]
    return view.at(sum(place * step for place, step in zip(places, steps, strict=True)))
