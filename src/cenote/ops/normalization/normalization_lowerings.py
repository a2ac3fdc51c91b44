"""Lowerings of normalisations by statistics of the input."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cenote.core.target import Target
from cenote.core.types import FLOAT32, FLOAT64, PLAIN, Array, Layout, TensorType
from cenote.kernels.base import Argument, Call, View, present
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.elementwise.normalize import (
    NotedStatistics,
    Parameters,
    RowNormalization,
    normalize_channels_call,
    normalize_rows_call,
)
from cenote.kernels.elementwise.normalize_columns import normalize_columns_call
from cenote.kernels.reduction.normalize_blocked import kept_sums, normalize_blocked_calls
from cenote.kernels.reduction.normalize_short_rows import short_rows_call
from cenote.ops.base import Lowering
from cenote.ops.elementwise.pointwise import error_of
from cenote.ops.values import narrow

ERROR = 2e-6  # of the largest output, in float32
WIDE = ("float64",)  # what `accumulate` of a normalisation may be; None: float32, 4,096 elements at a time


def form_of(statistic: str, accumulate: str | None, **fields: Any) -> RowNormalization:
    """Kernel form of a normalisation of rows, with sums in float64 if `accumulate` is "float64"."""
    return RowNormalization(statistic, wide=accumulate == "float64", **fields)


def _seconds(x: TensorType) -> float:
    return pass_seconds(2 * x.nbytes, 12 * x.size)


def row_lowerings(
    form: RowNormalization,
    inputs: Sequence[TensorType | None],
    first: int,
    epsilon: float,
    target: Target,
    outputs: int = 1,
) -> Iterator[Lowering]:
    """Layer and RMS normalisation over the axes from `first` on; scale and bias must cover them all.

    With more outputs, mean and 1 / deviation of each row are noted.
    """
    x, scale, bias = (*inputs, None, None)[:3]
    x = present(x)
    row = x.shape[first:]
    given = [p for p in (scale, bias) if p is not None]
    if not x.size or any(_without_ones(p.shape) != _without_ones(row) for p in given):
        return

    def bind(views: Sequence[View | None], made: Sequence[View]) -> Sequence[Call]:
        source, factor, shift = (*views, None, None)[:3]
        notes = None
        if outputs > 1:
            notes = NotedStatistics({"mean": made[1], "spread": made[2]}, FLOAT32)
        x_rows, y = present(source), made[0]
        if not (notes or form.wide):
            call = short_rows_call(form.statistic, x_rows, y, first, factor, shift, epsilon, target)
            if call is not None:
                return [call]
        parameters = Parameters(factor, shift)
        return [normalize_rows_call(form, x_rows, y, first, parameters, epsilon, notes=notes)]

    layouts = tuple(None if kind is None else PLAIN for kind in inputs)
    y_dtype = x.dtype if form.statistic == "layer" or scale is None else scale.dtype
    reusable = (0,) if y_dtype == x.dtype else ()
    spare = (TensorType(FLOAT32, (math.prod(x.shape[:first]),)),) if outputs == 2 else ()
    yield Lowering(
        "rows",
        layouts,
        (PLAIN,) * outputs,
        bind,
        _seconds(x),
        error_of(ERROR, y_dtype),
        spare,
        in_place=reusable,
    )


def axes_lowerings(
    form: RowNormalization, x: TensorType, axes: tuple[int, ...], epsilon: float
) -> Iterator[Lowering]:
    """Normalisation without parameters over neighbouring axes, or over all but the channels'."""
    neighbours = axes == tuple(range(axes[0], axes[-1] + 1)) if axes else False
    channels = x.rank > 1 and axes == (0, *range(2, x.rank))
    if not x.size or not (neighbours or channels):
        return

    def call(source: View, y: View) -> Call:
        none = Parameters(None, None)
        if not neighbours:
            return normalize_channels_call(form, source, y, none, epsilon)
        if axes[-1] == x.rank - 1:
            return normalize_rows_call(form, source, y, axes[0], none, epsilon)
        return normalize_columns_call(form, source, y, axes, none, epsilon)

    error = error_of(ERROR, x.dtype)
    yield Lowering.of_call("rows", (PLAIN,), (PLAIN,), call, _seconds(x), error, in_place=(0,))


def channel_lowerings(
    form: RowNormalization,
    inputs: Sequence[TensorType | None],
    epsilon: float,
    momentum: float,
    unbiased: bool,
) -> Iterator[Lowering]:
    """Batch normalisation: by means and variances that are given, or those of the batch with the running ones
    noted. Inputs: x, scale, bias, mean, variance."""
    x = present(inputs[0])
    parameters = [present(kind) for kind in inputs[1:]]
    wide = {kind.dtype == FLOAT64 for kind in (x, *parameters)}
    same = parameters[0].dtype == parameters[1].dtype and parameters[2].dtype == parameters[3].dtype
    if not x.size or x.rank < 2 or len(wide) > 1 or not same:
        return
    training = form.noted == "running"

    def call(
        source: View, scale: View, bias: View, mean: View, variance: View, y: View, *noted: View
    ) -> Call:
        words: dict[str, Argument] = {"mean": mean, "spread": variance}
        if training:
            count = math.prod(x.shape) // x.shape[1]
            correction = count / (count - 1) if unbiased else 1.0
            words = {"mean": noted[0], "spread": noted[1], "old_mean": mean, "old_spread": variance}
            words |= {"momentum": momentum, "correction": correction}
        notes = NotedStatistics(words, parameters[2].dtype)
        entries = Parameters(scale, bias, groups=x.shape[1], group_step=1)
        if x.rank == 2:
            return normalize_columns_call(form, source, y, (0,), entries, epsilon, notes)
        return normalize_channels_call(form, source, y, entries, epsilon, notes)

    error = error_of(ERROR, x.dtype)
    outputs = (PLAIN,) * (3 if training else 1)
    # One pass where statistics are given: before "standardize", which divides by each element's deviation.
    seconds = _seconds(x) if training else 0.9 * pass_seconds(2 * x.nbytes)
    yield Lowering.of_call("channels", (PLAIN,) * 5, outputs, call, seconds, error, in_place=(0,))


def group_lowerings(
    form: RowNormalization, inputs: Sequence[TensorType | None], groups: int, per_group: bool, epsilon: float
) -> Iterator[Lowering]:
    """Group and instance normalisation of plain tensors: a row is one group of channels of one picture."""
    x = present(inputs[0])
    if not x.size:
        return
    size = x.shape[1] // groups

    def bind(views: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
        source, scale, bias = (*views, None, None)[:3]
        x_rows, y_rows = (_grouped(view, groups) for view in (present(source), outputs[0]))
        steps = {"group_step": 1 if per_group else size, "part_step": 0 if per_group else 1}
        parameters = Parameters(scale, bias, groups, **steps)
        return [normalize_rows_call(form, x_rows, y_rows, 2, parameters, epsilon, parts=size)]

    layouts = tuple(None if kind is None else PLAIN for kind in inputs)
    error = error_of(ERROR, x.dtype)
    yield Lowering("rows", layouts, (PLAIN,), bind, _seconds(x), error, in_place=(0,))


def blocked_lowerings(
    inputs: Sequence[TensorType | None], channels: int, epsilon: float, target: Target
) -> Iterator[Lowering]:
    """Normalisation of so many channels of blocked maps together, when scale and bias are constants, one number of each
    for a channel."""
    x, scale, bias = (*inputs, None, None)[:3]
    x = present(x)
    if scale is None or bias is None or scale.value is None or bias.value is None:
        return
    lanes = target.lanes(x.dtype)
    if not 3 <= x.rank <= 5 or not x.size or (lanes % channels and channels % lanes):
        return
    values, blocked = (scale.value, bias.value), Layout(lanes)

    def bind(views: Sequence[View | None], made: Sequence[View]) -> Sequence[Call]:
        source, (y, *between) = present(views[0]), made
        factor, shift = (_filled(value, y.blocks * lanes) for value in values)
        memory = between[0] if between else None
        return [*normalize_blocked_calls(source, y, factor, shift, epsilon, channels, memory)]

    error, kept = error_of(ERROR, x.dtype), kept_sums(x, channels, lanes)
    inputs_as = (blocked, None, None)
    yield Lowering("blocked", inputs_as, (blocked,), bind, _seconds(x), error, kept, in_place=(0,))


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(extent for extent in shape if extent != 1)


def _filled(value: Array, count: int) -> Array:
    filled = np.zeros(count, FLOAT64 if value.dtype == FLOAT64 else FLOAT32)
    filled[: value.size] = narrow(value, filled.dtype)
    return filled


def _grouped(view: View, groups: int) -> View:
    """(N, C, *spatial) seen as (N, groups, C / groups, *spatial)."""
    n, channels, *spatial = view.shape
    shape = (n, groups, channels // groups, *spatial)
    strides = (view.strides[0], view.strides[1] * (channels // groups), *view.strides[1:])
    return View(TensorType(view.type.dtype, shape), view.layout, strides, view.slot)
