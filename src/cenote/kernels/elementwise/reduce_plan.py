"""From the axes of a reduction to calls of its kernel: joined axes, pieces, columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.core.types import FLOAT32, FLOAT64, is_float
from cenote.kernels.base import Argument, Call, View, dense_strides
from cenote.kernels.elementwise.elementwise import vector_lanes
from cenote.kernels.elementwise.reduce import DEEP, WIDE, ReduceSpec
from cenote.kernels.strided_axes import axis_words, position_count

SPLIT_FROM = 1 << 16  # elements from which a reduction to few outputs is split
PIECE = 1 << 15  # elements of a piece, at least
FEW = 8  # items that keep threads busy


@dataclass(frozen=True)
class ReduceAxis:
    """One axis of x: `y` is its stride in the output, or None when it is reduced."""

    extent: int
    x: int
    y: int | None


def pieces_of(shape: Sequence[int], axes: Sequence[int], target: Target) -> int:
    """Into how many pieces a reduction of a plain tensor is split: a matter of its shape alone."""
    size = prod(shape)
    strides = dense_strides(shape)
    joined = _joined(
        [ReduceAxis(extent, strides[axis], None if axis in axes else 0) for axis, extent in enumerate(shape)],
        strict=False,
    )
    reduced = [axis.extent for axis in joined if axis.y is None]
    kept = [axis.extent for axis in joined if axis.y is not None]
    items = prod(kept)
    if kept and joined[-1].y is not None:
        items = prod(kept[:-1]) * -(-kept[-1] // (WIDE * target.lanes()))
    # Many items, as of most means over pictures, are told by the channels: no question about sizes.
    if not reduced or items >= FEW or size < SPLIT_FROM:
        return 1
    wanted = max(1, min(-(-size // PIECE), 64, reduced[0] // DEEP))
    step = -(-reduced[0] // wanted)
    return -(-reduced[0] // step)  # so that none is empty


def partial_type(kind: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of the totals of pieces."""
    if not is_float(dtype):
        return dtype
    return shift_type(dtype) if kind in ("max", "min") else FLOAT64


def shift_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of the largest terms of a "log_sum_exp"."""
    return FLOAT64 if dtype == FLOAT64 else FLOAT32


def reduce_calls(
    kind: str, axes: Sequence[ReduceAxis], x: View, y: View, pieces: int, partial: View | None, target: Target,
    shift: View | None = None,
) -> list[Call]:  # fmt: skip
    """The launches that reduce x to y; with more than one piece, by way of `partial` (pieces, outputs). `shift`: the
    largest terms, for "log_sum_exp"."""
    count = prod(axis.extent for axis in axes if axis.y is None)
    if pieces <= 1 or partial is None:
        return _launch(kind, axes, x, y, count, target, shift=shift)
    kept = [axis.extent for axis in axes if axis.y is not None]
    dense = iter(dense_strides(kept))
    outputs = prod(kept)
    strides = [None if axis.y is None else next(dense) for axis in axes]
    first = [ReduceAxis(axis.extent, axis.x, stride) for axis, stride in zip(axes, strides, strict=True)]
    second = [ReduceAxis(partial.type.size // outputs, outputs, None)]
    second += [
        ReduceAxis(axis.extent, stride, axis.y)
        for axis, stride in zip(axes, strides, strict=True)
        if stride is not None
    ]
    made = _launch(
        kind, first, x, partial, count, target, pieces=partial.type.shape[0], stride=outputs, shift=shift
    )
    return [*made, *_launch(kind, second, partial, y, count, target, is_partial=True, shift=shift)]


def _launch(
    kind: str, axes: Sequence[ReduceAxis], x: View, y: View, count: int, target: Target, *,
    pieces: int = 1, stride: int = 0, is_partial: bool = False, shift: View | None = None,
) -> list[Call]:  # fmt: skip
    unit = x.layout.lanes or 1
    lanes = unit if unit > 1 else vector_lanes(x.type.dtype, target)
    joined = _joined(axes, strict=True)
    reduced = [axis for axis in joined if axis.y is None] or [ReduceAxis(1, 0, None)]
    kept = [axis for axis in joined if axis.y is not None]
    along = unit == 1 and (not joined or (joined[-1].y is None and joined[-1].x == 1))
    columns = unit
    if not along and joined and joined[-1].y == unit == joined[-1].x:
        columns *= kept.pop().extent
    outer = [(axis.extent, [axis.y or 0, axis.x]) for axis in kept]
    step = -(-reduced[0].extent // pieces)
    words: dict[str, Argument] = {
        "count": count * 1.0, "pieces": pieces, "piece_step": step, "piece_stride": stride,
    }  # fmt: skip
    for index, axis in enumerate(reduced):
        words |= {f"extent_r{index}": axis.extent, f"stride_r{index}": axis.x}
    words |= axis_words(outer, ("y", "x"))
    calls = []
    wide = columns // (WIDE * lanes) * (WIDE * lanes) if not along else 0
    for width, begin, end in ((WIDE, 0, wide), (1, wide, columns)):
        if begin == end:
            continue
        spec = ReduceSpec(
            kind, along, x.type.dtype, y.type.dtype, lanes, width, len(outer), len(reduced), is_partial,
            pieces == 1, not along and (end - begin) % lanes != 0,
        )  # fmt: skip
        blocks = 1 if along else -(-(end - begin) // (lanes * width))
        items = position_count(outer) * blocks * pieces
        work = maximum(1, count // pieces * (1 if along else lanes * width))
        here: dict[str, Argument] = {"y": y.at(begin), "x": x.at(begin), "columns": end - begin}
        if shift is not None:
            here["shift"] = shift.at(begin)
        calls.append(Call.named(spec, words | here, items, grain=maximum(1, 65536 // work)))
    return calls


def _joined(axes: Sequence[ReduceAxis], strict: bool) -> list[ReduceAxis]:
    """Axes of more than one element; neighbours that are both reduced or both kept, and dense, are one."""
    joined: list[ReduceAxis] = []
    for axis in axes:
        if axis.extent == 1:
            continue
        last = joined[-1] if joined else None
        if last is not None and (last.y is None) == (axis.y is None) and last.x == axis.x * axis.extent:
            dense = axis.y is None or not strict or last.y == axis.y * axis.extent
            if dense:
                joined[-1] = ReduceAxis(last.extent * axis.extent, axis.x, axis.y)
                continue
        joined.append(axis)
    return joined
