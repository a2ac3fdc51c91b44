"""From the geometry of a windowed pooling to a call: which kernel, how wide its vectors, how the work is split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cenote.core.target import Target
from cenote.core.types import Array
from cenote.kernels import pool_across
from cenote.kernels.base import Argument, Call
from cenote.kernels.pool_base import SLACK, SUM, PoolSpec, compute_type
from cenote.kernels.pool_blocks import PoolBlocks
from cenote.kernels.pool_rows import MOST_ROWS, PoolRows

BLOCK_ROWS = 8  # from this many rows on, windows go by blocks: below, row by row costs no more
GRAIN_BYTES = 256 << 10  # memory one thread takes at a time: about 10 us at 25 GB/s


@dataclass(frozen=True)
class Geometry:
    """Windowed pooling over (planes, rows, columns). `pad` is what lies before the input; what lies after follows
    from `out`."""

    size: tuple[int, int, int]
    out: tuple[int, int, int]
    window: tuple[int, int, int]
    stride: tuple[int, int, int] = (1, 1, 1)
    dilation: tuple[int, int, int] = (1, 1, 1)
    pad: tuple[int, int, int] = (0, 0, 0)

    def reach(self, axis: int) -> int:
        """Elements a window spans, holes included."""
        return (self.window[axis] - 1) * self.dilation[axis] + 1

    def overhang(self, axis: int) -> int:
        """How far the last window reaches past the end of the input (negative: not at all)."""
        return (self.out[axis] - 1) * self.stride[axis] - self.pad[axis] + self.reach(axis) - self.size[axis]

    def inside(self, axis: int) -> bool:
        """True when every window lies within the input."""
        return self.pad[axis] <= 0 and self.overhang(axis) <= 0

    def columns(self, begin: int, end: int) -> tuple[int, int]:
        """Input columns within the windows of output columns begin..end-1."""
        start = begin * self.stride[2] - self.pad[2]
        stop = (end - 1) * self.stride[2] - self.pad[2] + self.reach(2)
        return max(start, 0), min(stop, self.size[2])


@dataclass(frozen=True)
class Memory:
    """Where the tensors lie: strides in elements of (batch, channel or channel block, plane, row), `step` from one
    column to the next (1: plain), and how many batches and channels (blocks) there are."""

    batches: int
    channels: int
    x: tuple[int, int, int, int]
    y: tuple[int, int, int, int]
    step: int = 1


def windowed(
    reduction: str, dtype: np.dtype[Any], geometry: Geometry, memory: Memory, target: Target, x: Argument, y: Argument,
    *, scale: tuple[Array | None, Array | None] = (None, None), nan: str = "propagate", blocked: bool = False,
) -> Call | None:  # fmt: skip
    """The call that pools; None when a strip of windows has no input at all (nothing to combine: a host step).

    `scale` holds factors per output row (planes x rows) and per output column, as `divisors` makes them. `blocked`
    says that `step` is the same for every shape (the target's lanes), so it may be part of the machine code.
    """
    if not all(geometry.out) or not memory.batches * memory.channels or not memory.step:
        return None
    compute = compute_type(reduction, dtype)
    widest = min(target.lanes(dtype), target.vector_bytes // compute.nbytes)
    strip = _strip_width(geometry, memory.step, compute.nbytes, target)
    strips = -(-geometry.out[2] // strip)
    strip = -(-geometry.out[2] // strips)
    edges = [geometry.columns(i * strip, min((i + 1) * strip, geometry.out[2])) for i in range(strips)]
    shortest = min(end - begin for begin, end in edges) * memory.step
    fewest = geometry.out[2] - (strips - 1) * strip
    if shortest <= 0 or fewest <= 0:
        return None
    fused = _is_fused(geometry, memory.step)
    spec_fields = {
        "reduction": reduction, "dtype": dtype,
        "width": geometry.window[2], "stride": geometry.stride[2],
        "dilation": geometry.dilation[2] if geometry.window[2] > 1 else 1,
        "lanes": fitting(widest, shortest),
        "out_lanes": fitting(widest, fewest if memory.step == 1 else memory.step if geometry.stride[2] > 1 or scale[1] is not None or fused else fewest * memory.step),
        "step": memory.step if blocked or memory.step == 1 else 0,
        "scale": "none" if scale[0] is None else "row" if scale[1] is None else "both",
        "nan": nan if reduction != SUM else "propagate",
    }  # fmt: skip
    if memory.step == 1 and not fused and geometry.stride[2] not in (1, 2, 4):
        spec_fields["out_lanes"] = 1  # odd strides pick column by column
    spec, band = _scheme(geometry, spec_fields, fused)
    by_blocks = isinstance(spec, PoolBlocks)
    bands = (geometry.out[1] - 1) * geometry.stride[1] // band + 1 if by_blocks else -(-geometry.out[1] // band)
    pitch = _pitch(geometry, strip, memory.step, spec)
    numbers = (
        memory.channels, *memory.x, *memory.y, memory.step, *geometry.size, *geometry.out,
        *geometry.stride[:2], *geometry.dilation[:2], *geometry.pad, band, bands, strip, strips, pitch,
    )  # fmt: skip
    items = memory.batches * memory.channels * geometry.out[0] * bands * strips
    work = (geometry.columns(0, strip)[1] * geometry.stride[1] + strip) * band * memory.step * dtype.itemsize
    rows = spec.scratch_rows + (geometry.window[1] if by_blocks else 0)
    return Call(
        spec, (x, y, *scale, *numbers), items, grain=max(1, min(GRAIN_BYTES // max(work, 1), -(-items // 8))),
        scratch=(rows * pitch + SLACK) * compute.nbytes,
    )  # fmt: skip


def fitting(widest: int, length: int) -> int:
    """The largest power of two within both."""
    return 1 << (min(widest, length).bit_length() - 1)


def _is_fused(geometry: Geometry, step: int) -> bool:
    width, stride = geometry.window[2], geometry.stride[2]
    if not geometry.inside(2) or geometry.window[0] * geometry.window[1] > 4:
        return False
    if step == 1:
        return width == stride and width in (1, 2, 4)
    return width <= stride and width <= 4


def _strip_width(geometry: Geometry, step: int, nbytes: int, target: Target) -> int:
    """Output columns whose scratch rows stay in cache: level 1 for few rows, level 2 for a block of rows."""
    rows = geometry.window[1]
    if _by_blocks(geometry):
        room = target.level2 // 4 // rows
    else:
        room = target.level1 // 4
    columns = room // (nbytes * step * geometry.stride[2])
    return max(columns, 4 * geometry.reach(2), 64)


def _by_blocks(geometry: Geometry) -> bool:
    return geometry.window[1] >= BLOCK_ROWS and geometry.dilation[1] == 1 and geometry.stride[1] < geometry.window[1]


def _scheme(geometry: Geometry, fields: dict[str, Any], fused: bool) -> tuple[PoolRows | PoolBlocks, int]:
    """The kernel, and the output rows of one piece of work."""
    planes, rows = geometry.window[:2]
    if _by_blocks(geometry) or planes * rows > MOST_ROWS:
        return PoolBlocks(**fields, planes=planes), rows
    clipped = not geometry.inside(1) or (planes > 1 and not geometry.inside(0))
    return PoolRows(**fields, planes=planes, rows=rows, clipped=clipped, fused=fused), _band(geometry)


def _band(geometry: Geometry) -> int:
    """Output rows of a piece: about GRAIN_BYTES of input, the whole plane if it is small."""
    row = max(1, geometry.size[2] * geometry.stride[1] * 4)
    rows = max(1, GRAIN_BYTES // row)
    pieces = -(-geometry.out[1] // rows)
    return -(-geometry.out[1] // pieces)


def _pitch(geometry: Geometry, strip: int, step: int, spec: PoolSpec) -> int:
    """Elements from one scratch row to the next: the longest row, what loops run over by, and an odd number of cache
    lines, so that rows do not fall on the same sets of the cache."""
    longest = ((strip - 1) * spec.stride + 1 + 3 * geometry.reach(2)) * step + 2 * SLACK + 8 * spec.lanes
    lines = -(-longest // 16) | 1
    return lines * 16


def divisors(
    geometry: Geometry, include_pad: bool, pad_end: Sequence[int], override: int | None, dtype: np.dtype[Any],
) -> tuple[Array, Array | None]:  # fmt: skip
    """Factors that turn sums into averages: per output row (planes x rows) and per column, None if all are alike.

    The number of elements of a window is a product over the axes of its extent, clipped to the input or, with
    `include_pad`, to the padded input.
    """
    if override is not None:
        return np.full(geometry.out[:2], 1.0 / override).astype(dtype), None
    counts = [clipped_counts(geometry, axis, include_pad, pad_end[axis]) for axis in range(3)]
    rows = np.multiply.outer(counts[0], counts[1])
    if (counts[2] == counts[2][0]).all():
        return (1.0 / (rows * counts[2][0])).astype(dtype), None
    return (1.0 / rows).astype(dtype), (1.0 / counts[2]).astype(dtype)


def clipped_counts(geometry: Geometry, axis: int, include_pad: bool, pad_end: int) -> Array:
    """Elements of each window along one axis that count."""
    starts = np.arange(geometry.out[axis], dtype=np.int64) * geometry.stride[axis] - geometry.pad[axis]
    low = -geometry.pad[axis] if include_pad else 0
    high = geometry.size[axis] + (pad_end if include_pad else 0)
    taps = starts[:, None] + np.arange(geometry.window[axis], dtype=np.int64) * geometry.dilation[axis]
    counts: Array = ((taps >= low) & (taps < high)).sum(axis=1)
    return np.maximum(counts, 1)


__all__ = ["Geometry", "Memory", "divisors", "windowed"]
