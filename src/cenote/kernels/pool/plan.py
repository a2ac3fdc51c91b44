"""From the geometry of a windowed pooling to a call: which kernel, how wide its vectors, how the work is split."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cenote.core.target import Target
from cenote.kernels.base import Argument, Call
from cenote.kernels.pool.adaptive import UNROLLED, PoolAdaptive
from cenote.kernels.pool.adaptive_small import PoolAdaptiveSmall
from cenote.kernels.pool.argmax_generic import WIDEST, PoolArgmaxGeneric
from cenote.kernels.pool.argmax_separable import PoolArgmaxSeparable
from cenote.kernels.pool.common import SLACK, SUM, compute_type
from cenote.kernels.pool.generic import PoolGeneric
from cenote.kernels.pool.narrow_plan import (
    MOST_TAPS,
    indexed_fields,
    narrow_fields,
    turned_fields,
    volume_fields,
)
from cenote.kernels.pool.problem import UNSCALED, Bounds, Factors, Geometry, Memory, Places, factors
from cenote.kernels.pool.separable import MOST_ROWS, PoolSeparable
from cenote.kernels.pool.small_map import BUFFERS, PoolSmallMap
from cenote.kernels.pool.small_window import PoolSmallWindow
from cenote.kernels.pool.streaming_store import StreamingStore
from cenote.kernels.pool.van_herk import TOGETHER, PoolVanHerk
from cenote.kernels.pool.window_3x3x3 import PoolWindow3x3x3

Windowed = (
    PoolSmallWindow
    | PoolWindow3x3x3
    | PoolSeparable
    | PoolVanHerk
    | PoolGeneric
    | PoolArgmaxGeneric
    | PoolArgmaxSeparable
    | PoolSmallMap
)

BLOCK_ROWS = 8  # from this many rows on, windows go by blocks: below, row by row costs no more
PLANE_WINDOW = 3  # narrower windows are no faster plane by plane
PLANE_WIDEST = 64
PLANE_COLUMNS = 40  # longer rows keep vectors busy row by row; with windows below 5, rows half as long
GROUP_COLUMNS = 2048  # columns of the rows combined together before going across
RUNS = ((16, 8), (8, 3))  # runs of blocks over all planes that are aimed at, and the fewest blocks of each
STREAMED_ROW, STREAMED_VECTOR = 256, 16  # bytes of the shortest rows and vectors written past the caches
VOLUME_ROWS = 14  # of a band of a volume: 28 rows of 112 take a tenth longer, 8 no less
VOLUME_COLUMNS = VOLUME_ROWS * 112
MOST_PLANES = 8  # windows of more planes are not unrolled
GRAIN_BYTES = 256 << 10  # memory one thread takes at a time: about 5 us (with 64 KiB, 3x3 takes 5 % longer)


def windowed(
    reduction: str, dtype: np.dtype[Any], geometry: Geometry, memory: Memory, target: Target, x: Argument, y: Argument,
    *, scale: Factors = UNSCALED, nan: str = "propagate", norm: int = 0, blocked: bool = False,
    places: Places | None = None, rounding: str = "even",
) -> Call | None:  # fmt: skip
    """The call that pools; None when a strip of windows has no input at all (nothing to combine: a host step).

    `scale` holds factors per output row (planes x rows) and per output column, as `factors` makes them. `blocked`
    says that `step` is the same for every shape (the target's lanes), so it may be part of the machine code.
    `places` asks for the indices of maxima too.
    """
    if not all(geometry.out) or not memory.batches * memory.channels or not memory.step:
        return None
    compute = compute_type(reduction, dtype)
    band = _band(geometry)
    narrow = narrow_fields(
        geometry, memory, reduction, dtype, norm, target, geometry.out[1] - (geometry.out[1] - 1) // band * band
    )  # fmt: skip
    narrow = None if places is not None or _is_fused(geometry, memory.step) else narrow
    volume = None if places is not None else volume_fields(geometry, memory, reduction, dtype, norm, target)
    scheme = (
        PoolSmallWindow
        if narrow
        else PoolWindow3x3x3
        if volume
        else _scheme(geometry, memory, places is not None, target)
    )
    strip = (
        geometry.out[2]
        if scheme in (PoolSmallWindow, PoolWindow3x3x3, PoolSmallMap)
        else _strip_width(geometry, memory.step, compute.nbytes, target)
    )
    strips = -(-geometry.out[2] // strip)
    strip = -(-geometry.out[2] // strips)
    edges = [geometry.columns(i * strip, min((i + 1) * strip, geometry.out[2])) for i in range(strips)]
    shortest = min(end - begin for begin, end in edges) * memory.step
    fewest = geometry.out[2] - (strips - 1) * strip
    if shortest <= 0 or fewest <= 0:
        return None
    by_row = memory.step == 1 or (places is None and geometry.stride[2] == 1 and scale.columns is None)
    by_row = by_row and not (
        memory.step != 1 and scheme is PoolSeparable and _is_fused(geometry, memory.step)
    )
    widest = min(target.lanes(dtype), target.vector_bytes // compute.nbytes)
    if places is not None:
        widest = min(widest, target.lanes(np.int32))
    out_lanes = fitting(widest, fewest * memory.step if by_row else memory.step)
    if memory.step == 1 and not _strides_in_lanes(geometry, scheme):
        out_lanes = 1  # picks column by column
    fields = {
        "reduction": reduction, "dtype": dtype,
        "width": geometry.window[2], "stride": geometry.stride[2],
        "dilation": geometry.dilation[2] if geometry.window[2] > 1 else 1,
        "lanes": fitting(widest, shortest), "out_lanes": out_lanes,
        "step": memory.step if blocked or memory.step == 1 else 0,
        "scale": "none" if scale.rows is None else "row" if scale.columns is None else "both",
        "divides": scale.divides,
        "nan": nan if reduction != SUM else "propagate", "norm": norm,
        "rounding": rounding if not compute.is_float else "",
        "past_caches": _passes_caches(geometry, memory, target, dtype) and _streams(
            scheme, geometry, memory, strips, fewest * dtype.itemsize, out_lanes * dtype.itemsize
        ),
        "deep": geometry.size[0] > 1 or geometry.window[0] > 1,
    }  # fmt: skip
    fields |= narrow or volume or {}
    if scheme is PoolArgmaxSeparable and places is not None:
        fields |= indexed_fields(geometry, memory, places, strips, out_lanes)
    if scheme in (PoolVanHerk, PoolSmallMap):
        columns = memory.batches * memory.channels * geometry.out[0] * strips
        band = _run(geometry, columns) if scheme is PoolVanHerk else geometry.out[1]
    if scheme is PoolArgmaxSeparable:  # neighbouring bands both go across the rows they share
        band = min(max(band, 2 * geometry.window[1]), geometry.out[1])
    if scheme is PoolWindow3x3x3:
        band = _volume_band(geometry, memory.batches * memory.channels)
    group = _group(geometry, strip * memory.step * geometry.stride[2], band)
    spec = _specialised(scheme, fields, geometry, memory.step, group)
    starts = (geometry.out[1] - 1) * (geometry.stride[1] if scheme is PoolVanHerk else 1)
    bands = starts // band + 1
    pitch = _pitch(geometry, strip, memory.step, spec)
    if scheme is PoolSmallMap:
        pitch = _plane_elements(geometry, memory.step) // 16 * 16 + 16
    numbers = (
        memory.channels, *memory.x, *memory.y, memory.step, *geometry.window[:2], *geometry.size, *geometry.out,
        *geometry.stride[:2], *geometry.dilation[:2], *geometry.pad, band, bands, strip, strips, pitch, group,
        _row_pitch(geometry, memory.step),
    )  # fmt: skip
    items = memory.batches * memory.channels * geometry.out[0] * bands * strips
    if scheme is PoolWindow3x3x3:
        items //= geometry.out[0]
    work = (geometry.columns(0, strip)[1] * geometry.stride[1] + strip) * band * memory.step * dtype.itemsize
    work *= geometry.out[0] if scheme is PoolWindow3x3x3 else 1
    extra = () if places is None else (places.indices, *places.steps, geometry.window[2])
    elements = (
        spec.scratch_elements(band, geometry.out[2], pitch, target.line)
        if isinstance(spec, PoolWindow3x3x3)
        else _scratch_rows(spec, geometry, group) * pitch + SLACK
    )
    return Call(
        spec, (x, y, scale.rows, scale.columns, *numbers, *extra), items,
        grain=max(1, min(GRAIN_BYTES // max(work, 1), -(-items // 8))), scratch=elements * compute.nbytes,
    )  # fmt: skip


def bounded(
    reduction: str, dtype: np.dtype[Any], bounds: Bounds, size: tuple[int, int, int], memory: Memory, target: Target,
    x: Argument, y: Argument, *, scale: Factors = UNSCALED, nan: str = "propagate", blocked: bool = False,
    rounding: str = "even",
) -> Call:  # fmt: skip
    """The call that pools the ranges `bounds` (begin, end) of planes, rows and columns."""
    compute = compute_type(reduction, dtype)
    widest = min(target.lanes(dtype), target.vector_bytes // compute.nbytes)
    out = (len(bounds[0]), len(bounds[1]), len(bounds[2]))
    fields: dict[str, Any] = {
        "reduction": reduction, "dtype": dtype, "width": 1, "stride": 1, "dilation": 1,
        "lanes": fitting(widest, size[2] * memory.step),
        "out_lanes": 1 if memory.step == 1 else fitting(widest, memory.step),
        "step": memory.step if blocked or memory.step == 1 else 0,
        "scale": "none" if scale.rows is None else "row" if scale.columns is None else "both",
        "divides": scale.divides, "nan": nan if reduction != SUM else "propagate", "norm": 0, "past_caches": False,
        "rounding": rounding if not compute.is_float else "", "deep": size[0] > 1 or out[0] > 1,
    }  # fmt: skip
    spec: PoolAdaptiveSmall | PoolAdaptive
    turned = turned_fields(bounds, size, memory, widest)
    rows = scale.rows
    if turned:
        spec = PoolAdaptiveSmall(**fields | turned)
        rows = None if rows is None else np.pad(rows.ravel(), (0, -out[1] % widest), constant_values=1)
    else:
        spec = PoolAdaptive(
            **fields,
            fewest=min(min(end - begin for begin, end in bounds[2]), 2 * UNROLLED),
            fewest_rows=min(min(end - begin for begin, end in bounds[1]), UNROLLED),
            columns=_fixed_columns(bounds[2], memory.step),
        )
    pitch = (size[2] * memory.step + 2 * SLACK + 8 * spec.lanes) // 16 * 16 + 16
    numbers = (
        memory.channels, *memory.x, *memory.y, memory.step, 1, 1, *size, *out, *(1,) * 4, *(0,) * 3,
        out[1], 1, out[2], 1, pitch, 1, 0,
    )  # fmt: skip
    items = memory.batches * memory.channels * out[0]
    plane = size[1] * size[2] * memory.step * dtype.itemsize
    ranges = () if turned else (np.array([pair for axis in bounds for pair in axis], np.int64),)
    elements = spec.scratch_elements if isinstance(spec, PoolAdaptiveSmall) else 2 * pitch + SLACK
    return Call(
        spec, (x, y, rows, scale.columns, *numbers, *ranges), items,
        grain=max(1, min(GRAIN_BYTES // plane, -(-items // 8))), scratch=elements * compute.nbytes,
    )  # fmt: skip


def _fixed_columns(ranges: Sequence[tuple[int, int]], step: int) -> tuple[tuple[int, int], ...]:
    """The ranges of columns if all their taps may be unrolled, so that no bounds are read nor compared."""
    few = step == 1 and sum(end - begin for begin, end in ranges) <= MOST_TAPS
    return tuple((int(begin), int(end)) for begin, end in ranges) if few else ()


def fitting(widest: int, length: int) -> int:
    """The largest power of two within both."""
    return 1 << (min(widest, length).bit_length() - 1)


def _is_fused(geometry: Geometry, step: int) -> bool:
    width, stride = geometry.window[2], geometry.stride[2]
    if not geometry.inside(2) or geometry.window[0] * geometry.window[1] > 4:
        return False
    if geometry.dilation[2] > 1 and width > 1:
        return False
    if step == 1:
        return width == stride and width in (1, 2, 4) and (width == 1 or geometry.dilation[2] == 1)
    return width <= stride and width <= 4


def _strip_width(geometry: Geometry, step: int, nbytes: int, target: Target) -> int:
    """Output columns whose scratch rows stay in cache: level 1 for few rows, level 2 for a block of rows."""
    rows = geometry.window[1]
    if _by_blocks(geometry):
        room = target.level2 * 9 // 16 // rows  # narrower strips are slower: more ends of rows, more overlap
    else:
        room = target.level1 // (
            16 if geometry.stride[1] == 1 and rows > 1 else 4
        )  # four rows together, or one
    columns = room // (nbytes * step * geometry.stride[2])
    return max(columns, 4 * geometry.reach(2), 64)


def _by_blocks(geometry: Geometry) -> bool:
    planes, rows = geometry.window[:2]
    return (
        rows >= BLOCK_ROWS
        and planes <= MOST_PLANES
        and geometry.dilation[1] == 1
        and geometry.stride[1] < rows
    )


def _scheme(geometry: Geometry, memory: Memory, places: bool, target: Target) -> type[Windowed]:
    """Which kernel."""
    if places:
        undilated = _depth(geometry) == 1 and geometry.dilation[1:] == (1, 1)
        return PoolArgmaxSeparable if undilated else PoolArgmaxGeneric
    if _is_small(geometry, memory, target):
        return PoolSmallMap
    if _by_blocks(geometry):
        return PoolVanHerk
    return PoolGeneric if geometry.window[0] * geometry.window[1] > MOST_ROWS else PoolSeparable


def _is_small(geometry: Geometry, memory: Memory, target: Target) -> bool:
    """Whether whole planes of scratch fit the level 2 cache, and windows are wide enough to make up for the copy."""
    step = memory.step
    flat = _depth(geometry) == 1 and memory.x[3] == geometry.size[2] * step
    if not flat or geometry.dilation[1:] != (1, 1) or max(geometry.window[1:]) < PLANE_WINDOW:
        return False
    longest = PLANE_COLUMNS if max(geometry.window[1:]) >= 5 else PLANE_COLUMNS // 2
    if max(geometry.window[1:]) > PLANE_WIDEST or geometry.size[2] * step > longest:
        return False
    return BUFFERS * _plane_elements(geometry, step) * 4 <= target.level2 // 2


def _depth(geometry: Geometry) -> int:
    """1 where there is one plane only."""
    return geometry.size[0] * geometry.window[0] * geometry.out[0]


def _row_pitch(geometry: Geometry, step: int) -> int:
    return ((geometry.out[2] - 1) * geometry.stride[2] + geometry.window[2]) * step


def _plane_elements(geometry: Geometry, step: int) -> int:
    """Elements of one scratch plane with its edges."""
    rows = max(
        (geometry.out[1] - 1) * geometry.stride[1] + geometry.window[1], geometry.pad[1] + geometry.size[1]
    )
    return rows * max(_row_pitch(geometry, step), geometry.size[2] * step) + 2 * SLACK + 256


def _strides_in_lanes(geometry: Geometry, scheme: type[Windowed]) -> bool:
    """Whether the kernel knows how to shuffle this stride (plain)."""
    if scheme in (PoolArgmaxGeneric, PoolArgmaxSeparable):
        return geometry.stride[2] <= 2
    return geometry.stride[2] in (1, 2, 4)


def _passes_caches(geometry: Geometry, memory: Memory, target: Target, dtype: np.dtype[Any]) -> bool:
    """Whether the tensors are too large for the last cache, so that memory is what limits."""
    elements = math.prod(geometry.size) + math.prod(geometry.out)
    return elements * memory.step * memory.batches * memory.channels * dtype.itemsize > target.level3


def _streams(
    scheme: type[Windowed], geometry: Geometry, memory: Memory, strips: int, row: int, vector: int
) -> bool:
    """Whether the kernel can write past the caches: rows and vectors of so many bytes are long enough, and what
    PoolSeparable writes is dense."""
    if memory.step != 1 or vector < STREAMED_VECTOR or row < STREAMED_ROW:
        return False
    if scheme in (PoolSeparable, PoolWindow3x3x3):
        return strips == 1 and memory.y[3] == geometry.out[2] and not _is_fused(geometry, 1)
    return scheme is PoolVanHerk


def _group(geometry: Geometry, columns: int, band: int) -> int:
    """Output rows that go down together before they go across: as many as stay in the level 1 cache, evenly."""
    last = geometry.out[1] - (geometry.out[1] - 1) // band * band
    most = max(1, min(8, last, GROUP_COLUMNS // max(columns, 1)))
    return -(-last // -(-last // most))


def _together(geometry: Geometry, group: int) -> int:
    """Output rows that share the rows of their windows in registers: fewer with planes, which need more pointers."""
    if geometry.window[1] == 1 or geometry.stride[1] != 1 or geometry.dilation[1] != 1:
        return 1
    return 4 if group >= 4 and geometry.window[0] == 1 and geometry.window[1] <= 5 else min(group, 2)


def _specialised(
    scheme: type[Windowed], fields: dict[str, Any], geometry: Geometry, step: int, group: int
) -> Windowed:
    planes, rows, columns = geometry.window
    if scheme is PoolArgmaxGeneric:
        return PoolArgmaxGeneric(**fields, unrolled=columns <= WIDEST)
    if scheme is PoolVanHerk:
        together = TOGETHER if planes == 1 and geometry.stride[1] == 1 else 1
        return PoolVanHerk(**fields, planes=planes, together=together)
    if scheme in (PoolArgmaxSeparable, PoolSmallWindow, PoolWindow3x3x3):
        return scheme(**fields)
    if scheme is PoolSmallMap:
        return PoolSmallMap(**fields, rows=rows)
    if scheme is PoolGeneric:
        return PoolGeneric(**fields)
    clipped = not geometry.inside(1) or not geometry.inside(0)
    return PoolSeparable(
        **fields,
        planes=planes,
        rows=rows,
        clipped=clipped,
        fused=_is_fused(geometry, step),
        together=_together(geometry, group),
    )


def _scratch_rows(spec: Windowed, geometry: Geometry, group: int) -> int:
    assert not isinstance(spec, PoolWindow3x3x3)
    if isinstance(spec, PoolArgmaxGeneric):
        return 1 + geometry.window[0] * geometry.window[1]
    if isinstance(spec, PoolArgmaxSeparable):
        return spec.scratch_rows(geometry.window[1])
    if isinstance(spec, PoolSmallMap):
        return BUFFERS
    if isinstance(spec, PoolSeparable) and spec.past_caches:
        return spec.scratch_rows + group + StreamingStore.scratch_rows(group)
    return spec.scratch_rows + (geometry.window[1] if isinstance(spec, PoolVanHerk) else group)


def _band(geometry: Geometry) -> int:
    """Output rows of a piece: about GRAIN_BYTES of input, the whole plane if it is small."""
    row = max(1, geometry.size[2] * geometry.stride[1] * 4)
    rows = max(1, GRAIN_BYTES // row)
    pieces = -(-geometry.out[1] // rows)
    return -(-geometry.out[1] // pieces)


def _run(geometry: Geometry, columns: int) -> int:
    """Rows of a run of blocks, of which there are `columns` side by side: enough runs for many threads, but not so
    short that their first blocks, which are fetched for themselves, count."""
    rows = geometry.window[1]
    blocks = ((geometry.out[1] - 1) * geometry.stride[1]) // rows + 1
    runs = max(1, *(min(-(-aim // columns), blocks // fewest) for aim, fewest in RUNS))
    return -(-blocks // runs) * rows


def _volume_band(geometry: Geometry, volumes: int) -> int:
    """Output rows of a piece that goes through all planes of one of so many volumes: what it keeps stays in the level 1
    cache, and there are enough pieces for many threads."""
    most = max(VOLUME_ROWS, VOLUME_COLUMNS // geometry.out[2])
    most = max(4, min(most, geometry.out[1] * volumes // 16))
    bands = -(-geometry.out[1] // most)
    return min((-(-geometry.out[1] // bands) + 1) & ~1, geometry.out[1])


def _pitch(geometry: Geometry, strip: int, step: int, spec: Windowed) -> int:
    """Elements from one scratch row to the next: the longest row, what loops run over by, and an odd number of cache
    lines, so that rows do not fall on the same sets of the cache."""
    longest = ((strip - 1) * spec.stride + 1 + 3 * geometry.reach(2)) * step + 2 * SLACK + 8 * spec.lanes
    lines = -(-longest // 16) | 1
    return lines * 16


__all__ = ["UNSCALED", "Bounds", "Factors", "Geometry", "Memory", "Places", "bounded", "factors", "windowed"]
