"""Slices as TensorFlow writes them: bounds, steps and a mask each for what is to be ignored, dropped or added."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cenote.core.errors import ModelError
from cenote.frontends.builder import GraphBuilder

TO_END = 2**31 - 1  # a bound behind every axis


def as_int64(builder: GraphBuilder, value: str) -> str:
    """Sizes and positions, which TensorFlow mostly has in 32 bits and ONNX in 64."""
    known = builder.known(value)
    if known is not None:
        return value if known.dtype == np.int64 else builder.constant(known.astype(np.int64))
    return builder.cast(value, np.dtype(np.int64))


def sliced(
    builder: GraphBuilder, value: str, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int],
    steps: Sequence[int], name: str = "",
) -> str:  # fmt: skip
    """A part of a tensor, as Python slices cut it."""
    given = [builder.constant(np.array(numbers, np.int64)) for numbers in (starts, ends, axes, steps)]
    return builder.add("Slice", value, *given, name=name)


@dataclass
class Strided:
    """A strided slice, resolved: what to cut, then which axes to drop, then where to put new ones.

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
) -> Strided:
    """Resolve a strided slice; `masks` are begin, end, ellipsis, new_axis, shrink, a bit per position.

    Raises ModelError for a step of 0.
    """
    result, count = Strided(), len(begin)

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
    result: Strided, place: int, axis: int, begin: Sequence[int], end: Sequence[int], steps: Sequence[int],
    is_set: Callable[[str, int], bool],
) -> None:  # fmt: skip
    """One axis of a strided slice."""
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


def apply_strided(builder: GraphBuilder, value: str, cut: Strided, name: str = "") -> str:
    """The operators of a strided slice."""
    if cut.axes:
        value = sliced(builder, value, cut.starts, cut.ends, cut.axes, cut.steps)
    if cut.dropped:
        value = builder.add("Squeeze", value, builder.constant(np.array(cut.dropped, np.int64)))
    if cut.added:
        value = builder.add("Unsqueeze", value, builder.constant(np.array(cut.added, np.int64)))
    return builder.add("Identity", value, name=name) if name else value
