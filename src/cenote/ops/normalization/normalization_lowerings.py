"""Native ways to compute normalisations by statistics of the input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cenote.core.target import Target
from cenote.core.types import FLOAT32, FLOAT64, PLAIN, Array, Layout, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.elementwise.normalize import normalize_blocked_call, normalize_rows_call
from cenote.ops.base import Lowering
from cenote.ops.elementwise.pointwise import error_of
from cenote.ops.values import narrow

ERROR = 2e-6  # of the largest output, in float32


def _seconds(x: TensorType) -> float:
    return pass_seconds(2 * x.nbytes, 12 * x.size)


def row_lowerings(
    inputs: Sequence[TensorType | None], first: int, centred: bool, epsilon: float
) -> Iterator[Lowering]:
    """Layer and RMS normalisation over the axes from `first` on; scale and bias must cover them all."""
    x, scale = present(inputs[0]), present(inputs[1])
    bias = inputs[2] if len(inputs) > 2 else None
    row = x.shape[first:]
    if (
        any(_without_ones(p.shape) != _without_ones(row) for p in (scale, bias) if p is not None)
        or not x.size
    ):
        return

    def bind(views: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
        source, factor, shift = present(views[0]), present(views[1]), (*views, None)[2]
        call = normalize_rows_call(source, outputs[0], factor, shift, first, centred=centred, epsilon=epsilon)
        return [call]

    layouts = tuple(None if kind is None else PLAIN for kind in inputs)
    reusable = (0,) if scale.dtype == x.dtype else ()
    error = error_of(ERROR, scale.dtype)
    yield Lowering("rows", layouts, (PLAIN,), bind, _seconds(x), error, in_place=reusable)


def group_lowerings(
    inputs: Sequence[TensorType | None], groups: int, per_group: bool, epsilon: float
) -> Iterator[Lowering]:
    """Group and instance normalisation of plain tensors: a row is one group of channels of one picture."""
    x = present(inputs[0])
    if not x.size:
        return
    size = x.shape[1] // groups

    def bind(views: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
        source, scale, bias = present(views[0]), present(views[1]), views[2]
        x_rows, y_rows = (_grouped(view, groups) for view in (source, outputs[0]))
        call = normalize_rows_call(
            x_rows, y_rows, scale, bias, 2, centred=True, epsilon=epsilon, parts=size, groups=groups,
            group_step=1 if per_group else size, part_step=0 if per_group else 1,
        )  # fmt: skip
        return [call]

    yield Lowering("rows", (PLAIN,) * 3, (PLAIN,), bind, _seconds(x), error_of(ERROR, x.dtype), in_place=(0,))


def instance_blocked_lowerings(
    inputs: Sequence[TensorType | None], epsilon: float, target: Target
) -> Iterator[Lowering]:
    """Instance normalisation of blocked maps, when scale and bias are constants."""
    x, scale, bias = (present(kind) for kind in inputs)
    if scale.value is None or bias.value is None or not 3 <= x.rank <= 5 or not x.size:
        return
    values = scale.value, bias.value
    blocked = Layout(target.lanes(x.dtype))

    def bind(views: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
        source, y = present(views[0]), outputs[0]
        lanes = y.layout.lanes
        factor, shift = (_filled(value, y.blocks * lanes) for value in values)
        return [normalize_blocked_call(source, y, factor, shift, epsilon)]

    error = error_of(ERROR, x.dtype)
    yield Lowering("blocked", (blocked, None, None), (blocked,), bind, _seconds(x), error, in_place=(0,))


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
