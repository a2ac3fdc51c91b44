"""Which small windows are pooled in registers (`small_window`), and what the kernel is specialised on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cenote.codegen.values import Scalar
from cenote.core.target import Target
from cenote.kernels.pool.argmax_separable import MOST_ROWS as MOST_INDEXED_ROWS
from cenote.kernels.pool.common import compute_type
from cenote.kernels.pool.problem import Bounds, Geometry, Memory, Places
from cenote.kernels.pool.small_window import MOST_COLUMNS, MOST_ROWS
from cenote.kernels.pool.window_3x3x3 import WINDOW

MANY_COLUMNS = 3  # wider windows pay in rows of at most SHORT_ROW outputs
SHORT_ROW = 32
FEWEST_TURNED = 3  # output rows: below, most lanes would be idle
MOST_TAPS = 96  # of an axis that are unrolled, where windows differ
FEWEST_LANES = 4  # shuffles at the ends of rows need as many as two columns


def narrow_fields(
    geometry: Geometry,
    memory: Memory,
    reduction: str,
    dtype: np.dtype[Any],
    norm: int,
    target: Target,
    shortest: int,
) -> dict[str, Any] | None:
    """What the kernel is specialised on besides the fields of all; None where it does not serve. `shortest`: output
    rows of the shortest band."""
    rows, width = geometry.window[1:]
    stride = geometry.stride[2]
    flat = memory.step == 1 and geometry.size[0] * geometry.window[0] * geometry.out[0] == 1
    if not flat or norm or geometry.dilation[1:] != (1, 1) or geometry.stride[1] != stride:
        return None
    if compute_type(reduction, dtype) is not Scalar.of(dtype) or not 1 <= rows <= MOST_ROWS:
        return None  # 16-bit floats would be converted once per column of a window
    if width > MANY_COLUMNS and geometry.out[2] > SHORT_ROW:
        return None
    left, right = geometry.pad[2], max(geometry.overhang(2), 0)
    if left < 0 or not (
        _neighbours(width, left, right) if stride == 1 else _pairs(width, stride, left, right)
    ):
        return None
    lanes = _lanes(target.lanes(dtype), geometry, left, right)
    if lanes is None:
        return None
    return {
        "rows": rows, "left": left, "right": right, "clipped": not geometry.inside(1), "lanes": lanes,
        "out_lanes": lanes, "alone": geometry.out[2] == lanes,
        "tail": right > 0 or geometry.out[2] % lanes > 0,
        "together": min(4 if stride == 1 else 2, _power_of_two(shortest)),
    }  # fmt: skip


def volume_fields(
    geometry: Geometry, memory: Memory, reduction: str, dtype: np.dtype[Any], norm: int, target: Target
) -> dict[str, Any] | None:
    """What the kernel of small windows in volumes (`window_3x3x3`) is specialised on besides the fields of all; None
    where it does not serve."""
    if memory.step != 1 or norm or compute_type(reduction, dtype) is not Scalar.of(dtype):
        return None
    if geometry.window != (WINDOW,) * 3 or geometry.stride != (1,) * 3 or geometry.dilation != (1,) * 3:
        return None
    if min(geometry.pad) < 0:
        return None
    left, right = geometry.pad[2], max(geometry.overhang(2), 0)
    if not _neighbours(WINDOW, left, right):
        return None
    lanes = target.lanes(dtype)
    while geometry.out[2] < lanes + max(left, right) or geometry.size[2] < lanes:
        lanes //= 2
    if lanes < FEWEST_LANES:
        return None
    return {"left": left, "right": right, "lanes": lanes, "out_lanes": lanes}


def _neighbours(width: int, left: int, right: int) -> bool:
    return 2 <= width <= MOST_COLUMNS and left + right < width and max(left, right) <= FEWEST_LANES // 2


def _pairs(width: int, stride: int, left: int, right: int) -> bool:
    return stride == 2 and width == 3 and max(left, right) <= 1


def _lanes(widest: int, geometry: Geometry, left: int, right: int) -> int | None:
    """Lanes so that a row is one vector, or its first and last vector lie apart enough."""
    count, lanes = geometry.out[2], widest
    while lanes >= FEWEST_LANES:
        fits = count == lanes or count >= lanes + max(left, right)
        if fits and geometry.size[2] >= lanes:
            return lanes
        lanes //= 2
    return None


def _power_of_two(rows: int) -> int:
    """The largest within so many."""
    return 1 << (rows.bit_length() - 1)


def indexed_fields(
    geometry: Geometry, memory: Memory, places: Places, strips: int, lanes: int
) -> dict[str, Any]:
    """What the separable kernel with indices (`argmax_separable`) is specialised on besides the fields of all."""
    rows, width = geometry.window[1:]
    left, right = geometry.pad[2], max(geometry.overhang(2), 0)
    plain = memory.step == 1 and strips == 1 and lanes >= FEWEST_LANES
    stride = geometry.stride[2]
    apart = width == 2 and stride == 2 and left == 0 and right <= 1
    pairs = plain and left >= 0 and (apart or _pairs(width, stride, left, right))
    return {
        "rows": rows if rows <= MOST_INDEXED_ROWS else 0, "unit": places.steps[2] == 1,
        "pairs": pairs, "left": left if pairs else 0, "right": right if pairs else 0,
        **({"lanes": lanes} if pairs else {}),
    }  # fmt: skip


def turned_fields(bounds: Bounds, size: Sequence[int], memory: Memory, lanes: int) -> dict[str, Any] | None:
    """What the kernel of ranges in registers (`adaptive_small`) is specialised on besides the fields of all; None where
    it does not serve."""
    down, across = (tuple((int(begin), int(end)) for begin, end in axis) for axis in bounds[1:])
    flat = memory.step == 1 and size[0] * len(bounds[0]) == 1
    if not flat or min(lanes, size[2] // lanes, len(down) // FEWEST_TURNED) < 1 or lanes < FEWEST_LANES:
        return None
    if max(sum(end - begin for begin, end in axis) for axis in (down, across)) > MOST_TAPS:
        return None
    dense = memory.y[3] == len(across) or len(down) == 1
    return {"lanes": lanes, "down": down, "across": across, "row": memory.x[3], "dense": dense}
