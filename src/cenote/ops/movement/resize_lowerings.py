"""Lowerings of Resize: along the last two axes on plain or channel-blocked maps, along three axes in two steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from cenote.core.computed import computed, known
from cenote.core.sizes import is_size, plain
from cenote.core.target import Target
from cenote.core.types import PLAIN, Layout, TensorType, is_float
from cenote.kernels.base import Call, View, dense_strides, present
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.sampling.resize import MOST_ROW_TAPS, MOST_TAPS, TapSource, resize_call
from cenote.ops.base import Lowering
from cenote.ops.elementwise.pointwise import block_lanes, error_of
from cenote.ops.movement.resize_taps import (
    ResizedAxis,
    Rule,
    column_indices,
    column_weights,
    repeats_of,
    tap_count,
    tap_offsets,
    tap_weights,
)

# Seconds per element of the result, beside the bytes that are moved (AVX-512, one thread).
_GATHERED = 0.1e-9  # by a table
_TAP = 0.04e-9  # per tap of a row or of a column
_BY_DEPTH = 0.05e-9  # per tap, of rows that are as long as planes

Rest = tuple[None, ...]


def resize_lowerings(
    x: TensorType, output: TensorType, axes: Sequence[ResizedAxis], rule: Rule, rest: Rest, target: Target
) -> Iterator[Lowering]:
    """Lowerings of x resized along `axes`; `rest` stands for the operator's other inputs."""
    if not is_size(x.shape[-1]) and x.shape[-1] >= 1 << 31:
        return  # tables of columns have 32 bits
    first = max(x.rank - 2, 0)
    if not all(axis.is_identity for axis in axes[:first]):
        yield from _by_depth(x, output, axes, rule, rest, target)
        return
    taps = [_tap_source(axis, rule) for axis in axes[first:]]
    unresized, nearest = _tap_source(ResizedAxis(1, 1, 1.0), rule), rule.mode == "nearest"
    counts = [each.count for each in taps]
    if not 0 < min(counts) <= max(counts) <= MOST_ROW_TAPS:
        return
    error = 0.0 if nearest else error_of(2e-6, x.dtype)

    def call(source: View, y: View) -> Call:
        spatial = 2 if y.layout.is_blocked else 0
        used = taps[-(x.rank - spatial) :]
        used = [unresized] * (2 - len(used)) + used
        return resize_call(source, y, used, nearest, target)

    moved = plain(x.nbytes + output.nbytes)
    seconds = pass_seconds(moved) + plain(output.size) * _element_seconds(taps, nearest)
    yield Lowering.of_call("taps", (PLAIN, *rest), (PLAIN,), call, seconds, error)
    blockable = 3 <= x.rank <= 5 and (x.rank > 3 or axes[1].is_identity)
    lanes = block_lanes(x.dtype, target) if nearest or is_float(x.dtype) else 0
    if blockable and lanes and math.prod(counts) <= MOST_TAPS:
        blocked = Layout(lanes)
        channels = plain(x.shape[1])
        # Lanes without a channel are computed too.
        filled = -(-channels // blocked.lanes) * blocked.lanes / channels
        steps = plain(output.size) * filled * 2 * math.prod(counts)
        seconds = pass_seconds(moved * filled, steps)
        yield Lowering.of_call("taps_blocked", (blocked, *rest), (blocked,), call, seconds, error)


def _element_seconds(taps: Sequence[TapSource], nearest: bool) -> float:
    """Estimated seconds per element of a plain result."""
    if nearest:
        return 0.0 if taps[-1].kept or taps[-1].repeats else _GATHERED
    return _TAP * sum(axis.count for axis in taps if not axis.kept)


def _tap_source(axis: ResizedAxis, rule: Rule) -> TapSource:
    """The taps along an axis, as the kernel's call takes them."""
    numbers = tuple(axis)
    return TapSource(
        axis.size,
        known(tap_count, numbers, rule),
        lambda step: computed(tap_offsets, numbers, rule, step),
        lambda dtype: computed(tap_weights, numbers, rule, dtype.name),
        lambda lanes: computed(column_indices, numbers, rule, lanes),
        lambda lanes, dtype: computed(column_weights, numbers, rule, lanes, dtype.name),
        axis.is_identity,
        repeats_of(axis, rule) if rule.mode == "nearest" else 0,
        plain(axis.scale) > 1,
    )


def _by_depth(
    x: TensorType, output: TensorType, axes: Sequence[ResizedAxis], rule: Rule, rest: Rest, target: Target
) -> Iterator[Lowering]:
    """Yield the lowering of three axes: the planes first, then the depths of each place."""
    if not all(axis.is_identity for axis in axes[: output.rank - 3]):
        return
    depth, down, across = (_tap_source(axis, rule) for axis in axes[-3:])
    counts = [axis.count for axis in (depth, down, across)]
    if not 0 < min(counts) <= max(counts) <= MOST_ROW_TAPS:
        return
    planes = TensorType(x.dtype, (*x.shape[:-2], *output.shape[-2:]))
    nearest, (height, width) = rule.mode == "nearest", output.shape[-2:]

    def bind(views: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
        y, between = outputs
        flat = _tap_source(ResizedAxis(height * width, height * width, 1.0), rule)
        first = resize_call(present(views[0]), between, (down, across), nearest, target)
        stacked, result = (_rows_of(view, height * width) for view in (between, y))
        return [first, resize_call(stacked, result, (depth, flat), nearest, target)]

    seconds = pass_seconds(plain(x.nbytes + 2 * planes.nbytes + output.nbytes))
    seconds += plain(planes.size) * _element_seconds((down, across), nearest)
    seconds += plain(output.size) * depth.count * _BY_DEPTH
    error = 0.0 if nearest else error_of(2e-6, x.dtype)
    yield Lowering("taps_by_depth", (PLAIN, *rest), (PLAIN,), bind, seconds, error, (planes,))


def _rows_of(view: View, width: int) -> View:
    """A dense tensor with its last two axes as one."""
    shape = (*view.shape[:-2], width)
    return replace(view, type=TensorType(view.type.dtype, shape), strides=dense_strides(shape))
