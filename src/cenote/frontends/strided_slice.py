"""Slices in TensorFlow's form: bounds, steps and a mask each for bounds to ignore, axes to drop and axes to add."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ModelError
from cenote.frontends.builder import GraphBuilder

# A bound behind the end of every axis.
TO_END = 2**31 - 1


def as_int64(builder: GraphBuilder, value: str) -> str:
    """Return sizes and positions, which mostly have 32 bits in TensorFlow, in the 64 bits of ONNX."""
    known = builder.known(value)
    if known is not None:
        return value if known.dtype == np.int64 else builder.constant(known.astype(np.int64))
    return builder.cast(value, np.dtype(np.int64))


def sliced(
    builder: GraphBuilder,
    value: str,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int],
    steps: Sequence[int],
    name: str = "",
) -> str:
    """Add a part of a tensor, cut as by Python's slices."""
    bounds = [builder.integers(numbers) for numbers in (starts, ends, axes, steps)]
    return builder.add("Slice", value, *bounds, name=name)


@dataclass
class ResolvedSlice:
    """A resolved strided slice: the cut, then the axes to drop, then the places of new axes.

    Axes before an ellipsis count from the front, those after it from the back.
    """

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    axes: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    added: list[int] = field(default_factory=list)


def strided(
    begin: Sequence[int], end: Sequence[int], steps: Sequence[int], masks: Mapping[str, int]
) -> ResolvedSlice:
    """Resolve a strided slice; `masks` are begin, end, ellipsis, new_axis, shrink, each with a bit per position.

    Raises ModelError for a step of 0.
    """
    result, count = ResolvedSlice(), len(begin)

    def is_set(mask: str, place: int) -> bool:
        return bool(masks.get(mask, 0) >> place & 1)

    ellipsis = next((place for place in range(count) if is_set("ellipsis", place)), None)
    axis = made = 0
    for place in range(count):
        if place == ellipsis:
            axis = -sum(not is_set("new_axis", later) for later in range(place + 1, count))
            made = -sum(
                not is_set("shrink", later) or is_set("new_axis", later) for later in range(place + 1, count)
            )
        elif is_set("new_axis", place):
            result.added.append(made)
            made += 1
        else:
            _cut(result, place, axis, begin, end, steps, is_set)
            made += not is_set("shrink", place)
            axis += 1
    return result


def _cut(
    result: ResolvedSlice,
    place: int,
    axis: int,
    begin: Sequence[int],
    end: Sequence[int],
    steps: Sequence[int],
    is_set: Callable[[str, int], bool],
) -> None:
    """Resolve one axis of a strided slice."""
    step = steps[place]
    if step == 0:
        raise ModelError("a step of 0")
    if is_set("shrink", place):
        start, stop, step = begin[place], begin[place] + 1 or TO_END, 1
        result.dropped.append(axis)
    else:
        first, last = (0, TO_END) if step > 0 else (TO_END, -TO_END)
        start = first if is_set("begin", place) else begin[place]
        stop = last if is_set("end", place) else end[place]
    if (start, stop, step) != (0, TO_END, 1):
        result.starts.append(start)
        result.ends.append(stop)
        result.steps.append(step)
        result.axes.append(axis)


def apply_strided(builder: GraphBuilder, value: str, cut: ResolvedSlice, name: str = "") -> str:
    """Add the operators of a strided slice."""
    if cut.axes:
        value = sliced(builder, value, cut.starts, cut.ends, cut.axes, cut.steps)
    if cut.dropped:
        value = builder.add("Squeeze", value, builder.integers(cut.dropped))
    if cut.added:
        value = builder.add("Unsqueeze", value, builder.integers(cut.added))
    return builder.add("Identity", value, name=name) if name else value
