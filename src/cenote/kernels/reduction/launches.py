"""Launches of a reduction: in pieces or at once, the kernel, and the cut of its work."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from cenote.core.formulas.certain import always_at_most
from cenote.core.sizes import is_size, maximum
from cenote.core.target import Target
from cenote.core.types import FLOAT32, FLOAT64, TensorType, is_float
from cenote.kernels.base import Argument, Call, View, dense_strides
from cenote.kernels.elementwise.elementwise import vector_lanes
from cenote.kernels.reduction.axes import ReduceAxis, joined
from cenote.kernels.reduction.columns import in_runs, takes_columns
from cenote.kernels.reduction.compensated import PARTS, ReduceCompensatedSpec
from cenote.kernels.reduction.reduce import DEEP, EXACT, WIDE, ReduceSpec
from cenote.kernels.reduction.rows import ROWS, ReduceRowsSpec, takes_rows
from cenote.kernels.strided_axes import axis_words, position_count

SPLIT_FROM = 1 << 16  # elements from which a reduction to few outputs is split
PIECE = 1 << 15  # elements of a piece, at least
FEW = 8  # items that keep threads busy


def pieces_of(shape: Sequence[int], axes: Sequence[int], target: Target) -> int:
    """Number of pieces into which a reduction of a plain tensor is split; it depends on the shape alone."""
    size = prod(shape)
    strides = dense_strides(shape)
    dense = joined(
        [ReduceAxis(extent, strides[axis], None if axis in axes else 0) for axis, extent in enumerate(shape)],
        strict=False,
    )
    reduced = [axis.extent for axis in dense if axis.y is None]
    kept = [axis.extent for axis in dense if axis.y is not None]
    items = prod(kept)
    if kept and dense[-1].y is not None:
        items = prod(kept[:-1]) * -(-kept[-1] // (WIDE * target.lanes()))
    # Where there are many items, as in most means over pictures, the channels decide: no question about sizes is
    # asked, nor where those of one picture are half as many and the batch is open.
    many = is_size(items) and always_at_most(FEW // 2, items)
    if not reduced or many or items >= FEW or size < SPLIT_FROM:
        return 1
    wanted = max(1, min(-(-size // PIECE), 64, reduced[0] // DEEP))
    step = -(-reduced[0] // wanted)
    return -(-reduced[0] // step)  # so that none is empty


def partial_totals(
    kind: str, dtype: np.dtype[Any], pieces: int, kept: Sequence[int], accumulate: str | None = None
) -> TensorType:
    """Type of the pieces' totals; where these keep what additions lose, the lost parts follow behind them."""
    if accumulate != "compensated":
        return TensorType(partial_type(kind, dtype), (pieces, *kept))
    own = FLOAT64 if dtype == FLOAT64 or kind in EXACT else FLOAT32
    return TensorType(own, (PARTS * pieces, *kept))


def partial_type(kind: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Type of the totals of pieces."""
    if not is_float(dtype):
        return dtype
    return shift_type(dtype) if kind in ("max", "min") else FLOAT64


def shift_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Type of the largest terms of a "log_sum_exp"."""
    return FLOAT64 if dtype == FLOAT64 else FLOAT32


def reduce_calls(
    kind: str,
    axes: Sequence[ReduceAxis],
    x: View,
    y: View,
    pieces: int,
    partial: View | None,
    target: Target,
    shift: View | None = None,
    accumulate: str | None = None,
) -> list[Call]:
    """Return the launches that reduce x to y; with more than one piece, by way of `partial` (`partial_totals`).
    `shift`: the largest terms, for "log_sum_exp"; `accumulate` as in ReduceSpec."""
    count = prod(axis.extent for axis in axes if axis.y is None)
    if pieces <= 1 or partial is None:
        return _launch(kind, axes, x, y, count, target, shift=shift, accumulate=accumulate)
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
    call = _launch(
        kind,
        first,
        x,
        partial,
        count,
        target,
        pieces=pieces,
        stride=outputs,
        shift=shift,
        accumulate=accumulate,
    )
    joined = _launch(
        kind, second, partial, y, count, target, is_partial=True, shift=shift, accumulate=accumulate
    )
    return [*call, *joined]


def _launch(
    kind: str,
    axes: Sequence[ReduceAxis],
    x: View,
    y: View,
    count: int,
    target: Target,
    *,
    pieces: int = 1,
    stride: int = 0,
    is_partial: bool = False,
    shift: View | None = None,
    accumulate: str | None = None,
) -> list[Call]:
    unit = x.layout.lanes or 1
    lanes = unit if unit > 1 else vector_lanes((x if is_float(x.type.dtype) else y).type.dtype, target)
    dense = joined(axes, strict=True)
    reduced = [axis for axis in dense if axis.y is None] or [ReduceAxis(1, 0, None)]
    kept = [axis for axis in dense if axis.y is not None]
    along = unit == 1 and (not dense or (dense[-1].y is None and dense[-1].x == 1))
    compensated = accumulate == "compensated"
    if along and pieces == 1 and not compensated and takes_rows(kind, x, reduced, kept, lanes):
        return [_rows_call(kind, x, y, reduced[0], kept, lanes, count, is_partial, accumulate)]
    columns = unit
    if not along and dense and dense[-1].y == unit == dense[-1].x:
        columns *= kept.pop().extent
    outer = [(axis.extent, [axis.y or 0, axis.x]) for axis in kept]
    step = -(-reduced[0].extent // pieces)
    words: dict[str, Argument] = {"pieces": pieces, "piece_step": step, "piece_stride": stride}
    words |= {"count": count * 1.0, **_reduced_words(reduced), **axis_words(outer, ("y", "x"))}
    calls = []
    wide = columns // (WIDE * lanes) * (WIDE * lanes) if not along else 0
    for width, begin, end in ((WIDE, 0, wide), (1, wide, columns)):
        if begin == end:
            continue
        spec = (ReduceCompensatedSpec if compensated else ReduceSpec)(
            kind,
            along,
            x.type.dtype,
            y.type.dtype,
            lanes,
            width,
            len(outer),
            len(reduced),
            is_partial,
            pieces == 1,
            not along and (end - begin) % lanes != 0,
            accumulate=accumulate,
        )
        blocks = 1 if along else -(-(end - begin) // (lanes * width))
        items = position_count(outer) * blocks * pieces
        work = maximum(1, count // pieces * (1 if along else lanes * width))
        here: dict[str, Argument] = {"y": y.at(begin), "x": x.at(begin), "columns": end - begin}
        if shift is not None:
            here["shift"] = shift.at(begin)
        if width == WIDE and not compensated and takes_columns(kind, x, reduced, wide):
            calls.append(in_runs(spec, words | here, position_count(outer), pieces))
            continue
        calls.append(Call.named(spec, words | here, items, grain=maximum(1, 65536 // work)))
    return calls


def _reduced_words(axes: Sequence[ReduceAxis]) -> dict[str, Argument]:
    """Words of the axes that do not stay."""
    words: dict[str, Argument] = {}
    for index, axis in enumerate(axes):
        words |= {f"extent_r{index}": axis.extent, f"stride_r{index}": axis.x}
    return words


def _rows_call(
    kind: str,
    x: View,
    y: View,
    row: ReduceAxis,
    kept: Sequence[ReduceAxis],
    lanes: int,
    count: int,
    is_partial: bool,
    accumulate: str | None,
) -> Call:
    """Return the launch for many short rows."""
    outer = [(axis.extent, [axis.y or 0, axis.x]) for axis in kept[:-1]]
    rows, columns = kept[-1].extent, row.extent
    tail = columns % lanes != 0
    spec = ReduceRowsSpec(
        kind,
        True,
        x.type.dtype,
        y.type.dtype,
        lanes,
        1,
        len(outer),
        1,
        is_partial,
        True,
        tail,
        accumulate=accumulate,
    )
    words: dict[str, Argument] = {
        "y": y,
        "x": x,
        "count": count * 1.0,
        "columns": columns,
        "rows": rows,
        "row_stride": kept[-1].x,
        **axis_words(outer, ("y", "x")),
    }
    items = position_count(outer) * -(-rows // ROWS)
    return Call.named(spec, words, items, grain=maximum(1, 65536 // maximum(1, columns * ROWS)))
