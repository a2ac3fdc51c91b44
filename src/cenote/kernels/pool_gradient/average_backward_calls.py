"""Call that spreads a pool's gradient: the windows that reach each row, and their weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.pool_geometry import AxisWindow
from cenote.core.target import Target
from cenote.core.types import Array
from cenote.kernels.base import Argument, Call, View
from cenote.kernels.plane_items import named, planes_of
from cenote.kernels.pool_gradient.average_backward import (
    ABOVE,
    BY_POWER,
    PLAIN_SLOPE,
    PoolAverageBackward,
    sum_type,
)
from cenote.kernels.pool_variants.power import doubled
from cenote.kernels.row_lanes import fitting

ITEM = 1 << 16  # approximate bytes of the gradient that an item computes
SLACK = 128  # elements past a scratch row that vectors may touch

Bounds = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class AxisSpread:
    """Windows along one axis, regular or half-open ranges of the input, and the weight of each."""

    size: int
    windows: AxisWindow | Bounds
    weights: tuple[float, ...]

    def taps(self) -> list[list[int]]:
        """Return for each element of the input the windows that read it."""
        reached: list[list[int]] = [[] for _ in range(self.size)]
        for o in range(len(self.weights)):
            windows = self.windows
            read = windows.positions(o) if isinstance(windows, AxisWindow) else slice(*windows[o])
            for element in reached[read]:
                element.append(o)
        return reached

    def groups(self) -> tuple[Array, Array, Array]:
        """Return runs of elements that the same windows read, as rows of (begin, end, first tap, last tap); the taps'
        windows and weights."""
        runs: list[tuple[int, int, int, int]] = []
        chosen: list[int] = []
        last: list[int] | None = None
        for place, windows in enumerate(self.taps()):
            if windows == last:
                begin, _, low, high = runs[-1]
                runs[-1] = (begin, place + 1, low, high)
                continue
            runs.append((place, place + 1, len(chosen), len(chosen) + len(windows)))
            chosen += windows
            last = windows
        taps = np.array(chosen or [0], np.int64)
        return np.array(runs, np.int64), taps, np.array(self.weights, np.float64)[taps]


ONE = AxisSpread(1, ((0, 1),), (1.0,))


def average_backward_call(
    axes: Sequence[AxisSpread],
    g: View,
    x: View,
    y: View,
    target: Target,
    *,
    channels_last: bool,
    slope: str = PLAIN_SLOPE,
    exponent: float = 0.0,
    floor: float = 0.0,
) -> Call:
    """Return the launch for plain views: `axes` are the spatial ones, g the gradient of the pool's output (float64
    when there is a slope), x the pool's input, y its gradient."""
    planes, rows, columns = (ONE,) * (3 - len(axes)) + tuple(axes)
    compute = sum_type(y.type.dtype, slope)
    real = np.dtype(np.float64 if compute.bits == 64 else np.float32)
    step = y.shape[-1] if channels_last else 1
    width, stride, dilation, pad = _regular(columns)
    alike = len(set(columns.weights)) == 1
    common = columns.weights[0] if width and alike else 1.0
    widest = min(target.lanes(y.type.dtype), target.vector_bytes // compute.nbytes)
    scaled = bool(width) and not alike
    out = len(columns.weights)
    lanes = fitting(widest, columns.size * step)
    power = doubled(exponent) if slope in (BY_POWER, ABOVE) else 0
    vectors = (lanes, fitting(widest, out * step), fitting(widest, step))
    window = (width, stride, dilation, 0 if channels_last else 1)
    spec = PoolAverageBackward(y.type.dtype, *window, *vectors, scaled, slope, power)
    left = max(0, (width - 1) * dilation - pad) * step if width else 0
    length = (left + max(columns.size + pad, out * stride) * step + SLACK) // 16 * 16 + 16
    runs, row_taps, row_weights = rows.groups()
    plane_runs, plane_taps, plane_weights = planes.groups()
    plane_ranges = np.repeat(plane_runs[:, 2:], plane_runs[:, 1] - plane_runs[:, 0], 0)
    column_runs, column_taps, column_weights = columns.groups()
    shares = np.array(columns.weights) if scaled else column_weights  # regular columns take no groups
    row_bytes = max(1, columns.size * step * y.type.dtype.itemsize * rows.size // len(runs))
    band = min(len(runs), max(1, ITEM // row_bytes))
    bands = -(-len(runs) // band)
    to, of = planes_of(y, channels_last), planes_of(g, channels_last)
    channels = 1 if channels_last else y.shape[1]
    strides = [(p.strides[0], 0 if channels_last else p.strides[1], *p.strides[2:4]) for p in (to, of)]
    words: dict[str, Argument] = {"y": y, "x": x, "g": g}
    words |= {"rows": runs, "row_taps": row_taps, "row_weights": (row_weights * common).astype(real)}
    words |= {"planes_of": np.ascontiguousarray(plane_ranges), "plane_taps": plane_taps}
    words |= {"plane_weights": plane_weights.astype(real), "column_weights": shares.astype(real)}
    words |= {"columns": column_runs, "column_taps": column_taps, "column_groups": len(column_runs)}
    words |= {"channels": channels, "bands": bands, "band": band, "groups": len(runs), "planes": planes.size}
    words |= {"out_w": out, "size_w": columns.size, "step": step, "pad": pad, "left": left, "length": length}
    words |= named(("y_n", "y_c", "y_d", "y_h"), strides[0]) | named(("g_n", "g_c", "g_d", "g_h"), strides[1])
    words |= {"exponent": float(exponent), "floor": float(floor)}
    items = y.shape[0] * channels * planes.size * bands
    return Call.named(
        spec,
        words,
        items,
        grain=max(1, min(ITEM // (row_bytes * band), -(-items // 8))),
        scratch=3 * length * compute.nbytes,
    )


def _regular(columns: AxisSpread) -> tuple[int, int, int, int]:
    """Return width, stride, dilation and padding of regular windows; width 0 where the columns go by groups."""
    windows = columns.windows
    if not isinstance(windows, AxisWindow):
        return 0, 1, 1, 0
    return windows.window, windows.stride, windows.dilation if windows.window > 1 else 1, windows.begin


def scratch_bytes(axes: Sequence[AxisSpread], step: int) -> int:
    """Approximate bytes of scratch of a thread: absurd windows are left to the reference."""
    columns = axes[-1]
    width, stride, dilation, pad = _regular(columns)
    return 24 * step * (width * dilation + max(columns.size + pad, len(columns.weights) * stride) + SLACK)
