"""Native ways to pool where all elements of a window are looked at together, in the caller's memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

from cenote.core.pool_geometry import AxisWindow
from cenote.core.target import Target
from cenote.core.types import FLOATS, PLAIN, TensorType
from cenote.kernels.cost_model import WHOLE_WINDOW_TAP, stream_seconds
from cenote.kernels.pool_variants.median import MOST_TAPS, PoolMedian
from cenote.kernels.pool_variants.whole_window import MOST_COLUMNS, WholeWindowSpec, band_rows, window_call
from cenote.ops.base import Lowering
from cenote.ops.pool.algorithms import TOLERANCES

MOST_STRIDE = 8  # of plain columns, whose vectors are shuffled together


def whole_window_lowerings(
    name: str,
    kind: type[WholeWindowSpec],
    axes: Sequence[AxisWindow],
    x: TensorType,
    y: TensorType,
    target: Target,
    channels_last: bool,
) -> Iterator[Lowering]:
    """Windows over one or two axes that are small enough to be unrolled; others are left to the reference."""
    if not x.size or not y.size or len(axes) > 2 or x.dtype not in FLOATS:
        return
    rows, columns = (AxisWindow(1, 1, out=1), *axes)[-2:]
    taps = math.prod(axis.window for axis in axes)
    is_median = kind is PoolMedian
    if taps > MOST_TAPS if is_median else columns.window > MOST_COLUMNS or rows.window > 1 << 16:
        return
    if not channels_last and columns.stride > MOST_STRIDE:
        return
    if not band_rows(rows, columns, x.shape[-1] if channels_last else 1, max(4, x.dtype.itemsize)):
        return
    seconds = stream_seconds(x.nbytes + y.nbytes) + y.size * taps * WHOLE_WINDOW_TAP
    exact = is_median and x.dtype.itemsize >= 4
    error = 0.0 if exact else TOLERANCES[x.dtype.name]
    call = partial(window_call, kind, axes, target=target, channels_last=channels_last)
    yield Lowering.of_call(name, (PLAIN,), (PLAIN,), call, seconds, error)
