"""Problem of a pool, and the common parts of the algorithms' calls: how work is cut, and words by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from cenote.codegen.values import Scalar
from cenote.core.computed import ComputedArray, computed, known
from cenote.core.deferred import cached_property, dataclass
from cenote.core.formulas.certain import always_at_most
from cenote.core.pool_geometry import distinct
from cenote.core.sizes import is_size, maximum, minimum, plain
from cenote.core.target import Target
from cenote.core.types import Array
from cenote.kernels.base import Argument, Call
from cenote.kernels.cost_model import PoolWork
from cenote.kernels.pool.common import INDEX_PARAMETERS, SLACK, SUM, PoolSpec, compute_type
from cenote.kernels.pool.divisors import ALIKE, DIVIDES, GENERAL, scale_form, scale_part
from cenote.kernels.row_lanes import RowLanes, fitting

GRAIN_BYTES = 256 << 10  # memory one thread takes at a time: about 5 us (with 64 KiB, 3x3 takes 5 % longer)
GROUP_COLUMNS = 2048  # columns of the rows combined together before going across
STREAMED_ROW, STREAMED_VECTOR = 256, 16  # bytes of the shortest rows and vectors written past the caches

Bounds = Sequence[Sequence[tuple[int, int]]]


@dataclass(frozen=True)
class Geometry:
    """Geometry of windows over (planes, rows, columns). `pad` is the padding before the input; the padding after it
    follows from `out`."""

    size: tuple[int, int, int]
    out: tuple[int, int, int]
    window: tuple[int, int, int]
    stride: tuple[int, int, int] = (1, 1, 1)
    dilation: tuple[int, int, int] = (1, 1, 1)
    pad: tuple[int, int, int] = (0, 0, 0)

    def reach(self, axis: int) -> int:
        """Number of elements that a window spans, holes included."""
        return (self.window[axis] - 1) * self.dilation[axis] + 1

    def overhang(self, axis: int) -> int:
        """Distance by which the last window reaches past the end of the input (negative: it does not)."""
        return (self.out[axis] - 1) * self.stride[axis] - self.pad[axis] + self.reach(axis) - self.size[axis]

    def inside(self, axis: int) -> bool:
        """Whether every window lies within the input, at all sizes."""
        return self.pad[axis] <= 0 and always_at_most(self.overhang(axis), 0)

    def columns(self, begin: int, end: int) -> tuple[int, int]:
        """Input columns within the windows of output columns begin..end-1."""
        start = begin * self.stride[2] - self.pad[2]
        stop = (end - 1) * self.stride[2] - self.pad[2] + self.reach(2)
        return maximum(start, 0), minimum(stop, self.size[2])

    @property
    def is_flat(self) -> bool:
        """Whether there is one plane only."""
        return self.size[0] * self.window[0] * self.out[0] == 1


@dataclass(frozen=True)
class Memory:
    """Layout of the tensors: strides in elements of (batch, channel or channel block, plane, row), `step` from one
    column to the next (1: plain), and the numbers of batches and channels (blocks)."""

    batches: int
    channels: int
    x: tuple[int, int, int, int]
    y: tuple[int, int, int, int]
    step: int = 1


@dataclass(frozen=True)
class IndexLayout:
    """Meaning and layout of indices: what an index adds per (plane, row, column, batch, channel), then the strides of
    the indices themselves (batch, channel or block, plane, row)."""

    adds: tuple[int, int, int, int, int]
    strides: tuple[int, int, int, int]


@dataclass(frozen=True)
class Scale:
    """Factors of the results, or with `divides` (and for integers) divisors: per output row (planes x rows), and per
    output column."""

    rows: Array | None = None
    columns: Array | None = None
    divides: bool = False

    @staticmethod
    def of(counts: Sequence[Sequence[float]], dtype: np.dtype[Any], times: float = 1.0) -> Scale:
        """Scale that turns sums of the dtype into averages: a factor per output row (planes x rows), and one per column
        unless all columns are alike; divisors for integers, and where a reciprocal is not exact: the mean of equal
        elements is that element. `counts` has the divisor's share per axis and position; `times`: a further share."""
        each = tuple(count if isinstance(count, ComputedArray) else tuple(count) for count in counts)
        shares = (each, dtype.name, float(times))
        # Counts that differ at some sizes have the form of those that differ.
        asked = tuple(map(distinct, each))
        alike = not isinstance(asked[2], ComputedArray)
        form = known(scale_form, asked, *shares[1:], alike, general=GENERAL)
        rows, columns = computed(scale_part, *shares, form, 0), computed(scale_part, *shares, form, 1)
        return Scale(rows, None if form in ALIKE else columns, form in DIVIDES)

    @property
    def kind(self) -> str:
        """Kind of scale, as in `PoolSpec.scale`."""
        return "none" if self.rows is None else "row" if self.columns is None else "both"


@dataclass(frozen=True)
class PoolProblem:
    """Complete description of a pool for its algorithms.

    `geometry` are the windows; with `bounds` instead, ranges (begin, end) of planes, rows and columns (geometry then
    holds sizes alone). `index` asks for the indices of maxima too. `fixed_step`: memory.step is the same for every
    shape (the target's lanes), so it may be part of the machine code. The other fields are as in PoolSpec.
    """

    reduction: str
    dtype: np.dtype[Any]
    geometry: Geometry
    memory: Memory
    scale: Scale = field(default_factory=Scale)
    nan: str = "propagate"
    norm: int = 0
    rounding: str = "even"
    index: IndexLayout | None = None
    bounds: Bounds | None = None
    fixed_step: bool = False
    accumulate: str | None = None

    @cached_property
    def compute(self) -> Scalar:
        return compute_type(self.reduction, self.dtype, self.accumulate)

    @cached_property
    def converts(self) -> bool:
        """Whether windows are combined in another type than that of the tensors."""
        return self.compute is not Scalar.of(self.dtype)

    @cached_property
    def planes(self) -> int:
        """Number of planes of the output, of all channels and batches."""
        return self.memory.batches * self.memory.channels * self.geometry.out[0]

    @cached_property
    def nbytes(self) -> int:
        """Bytes of input and output (with indices), each once."""
        size, out = math.prod(self.geometry.size), math.prod(self.geometry.out)
        each = self.memory.batches * self.memory.channels * self.memory.step
        return each * ((size + out) * self.dtype.itemsize + (8 * out if self.index else 0))

    def passes_caches(self, target: Target) -> bool:
        """Whether the tensors exceed the last cache, so that memory limits the speed."""
        memory, elements = self.memory, math.prod(self.geometry.size) + math.prod(self.geometry.out)
        every = plain(elements * memory.step * memory.batches * memory.channels)
        return every * self.dtype.itemsize > target.l3_bytes

    def widest(self, target: Target) -> int:
        """Number of lanes of the widest vectors that hold elements in both types."""
        lanes = min(target.lanes(self.dtype), target.vector_bytes // self.compute.nbytes)
        return lanes if self.index is None else min(lanes, target.lanes(np.int32))


Build = Callable[..., Call]
"""Function of (x, y, indices=None) that makes the call once memory is known."""


@dataclass(frozen=True)
class Candidate:
    """One way to solve a problem: its work, or its estimated seconds, on one core, and the builder of its call."""

    work: PoolWork | float
    build: Build

    def seconds(self, target: Target) -> float:
        """Estimated seconds on one core."""
        return self.work.seconds(target) if isinstance(self.work, PoolWork) else self.work


def index_words(problem: PoolProblem) -> dict[str, Argument]:
    """Arguments for INDEX_PARAMETERS, except the indices themselves."""
    assert problem.index is not None
    names = [parameter.name for parameter in INDEX_PARAMETERS[1:-1]]
    words = dict(zip(names, (*problem.index.adds, *problem.index.strides), strict=True))
    return {**words, "window_w": problem.geometry.window[2]}


@dataclass(frozen=True)
class Partition:
    """Cut of the work into items: strips of `strip` columns of bands of `band` rows, `strips` and `bands` of them in
    each plane."""

    strip: int
    strips: int
    band: int
    bands: int

    @staticmethod
    def of(geometry: Geometry, widest_strip: int | None, band: int, starts: int | None = None) -> Partition:
        """Cut into equal strips that are no wider than `widest_strip` (None: whole rows); `starts`: number of rows
        that bands divide, if not those of the output."""
        strips = -(-geometry.out[2] // widest_strip) if widest_strip and not is_size(geometry.out[2]) else 1
        bands = ((starts or geometry.out[1]) - 1) // band + 1
        return Partition(-(-geometry.out[2] // strips), strips, band, bands)

    def last_strip(self, geometry: Geometry) -> int:
        """Number of output columns of the last strip, which may be narrower."""
        return geometry.out[2] - (self.strips - 1) * self.strip

    def narrowest_input(self, geometry: Geometry) -> int:
        """Number of input columns of the strip that has the fewest (0 or less: a window without elements)."""
        if self.strips == 1:
            begin, end = geometry.columns(0, geometry.out[2])
            return end - begin
        strips = (
            range(i * self.strip, min((i + 1) * self.strip, geometry.out[2])) for i in range(self.strips)
        )
        edges = (geometry.columns(columns.start, columns.stop) for columns in strips)
        return min(end - begin for begin, end in edges)


def default_band(problem: PoolProblem, target: Target) -> int:
    """Output rows of an item: as many as half of the level 2 cache holds with their input, evenly, as the planner of
    tiles cuts planes for this CPU (docs/tiling.md); but enough items for 8 threads, if none is smaller than a grain."""
    geometry, element = problem.geometry, problem.dtype.itemsize * problem.memory.step
    read, written = geometry.size[2] * geometry.window[0] * element, geometry.out[2] * element
    room = minimum(target.l2_bytes // 2, maximum(GRAIN_BYTES, problem.nbytes // 8))
    overlap = geometry.reach(1) - geometry.stride[1]
    rows = maximum(1, (room - overlap * read) // (geometry.stride[1] * read + written))
    pieces = -(-geometry.out[1] // rows)
    return -(-geometry.out[1] // pieces)


def strip_within(problem: PoolProblem, nbytes: int) -> int:
    """Output columns of a strip whose scratch row takes so many bytes, but not too few: small strips mostly overlap."""
    columns = nbytes // (problem.compute.nbytes * problem.memory.step * problem.geometry.stride[2])
    return max(columns, max(4 * problem.geometry.reach(2), 64))  # a single question, where columns are a Size


def strip_in_l1(problem: PoolProblem, target: Target) -> int:
    """Number of output columns of a strip whose scratch rows stay in the level 1 cache: four rows together, or one."""
    geometry = problem.geometry
    together = geometry.stride[1] == 1 and geometry.window[1] > 1
    return strip_within(problem, target.l1_bytes // (16 if together else 4))


def group_of(problem: PoolProblem, cut: Partition) -> int:
    """Output rows combined down together before going across: as many as stay in the level 1 cache, evenly."""
    columns = cut.strip * problem.memory.step * problem.geometry.stride[2]
    last = problem.geometry.out[1] - (problem.geometry.out[1] - 1) // cut.band * cut.band
    most = maximum(1, minimum(minimum(8, last), GROUP_COLUMNS // maximum(columns, 1)))
    return -(-last // -(-last // most))


def lanes_for(
    problem: PoolProblem, cut: Partition, target: Target, *, shuffled: Sequence[int] = (1, 2, 4)
) -> tuple[int, int] | None:
    """Return (lanes, out_lanes) of PoolSpec; None when a strip of windows has no input at all: nothing to combine.
    Open sizes are asked. `shuffled`: strides that the kernel makes of shuffles (plain)."""
    widest, rows = problem.widest(target), _rows(problem, cut, shuffled)
    return rows and (fitting(widest, rows[0]), fitting(widest, rows[1]))


def row_lanes(
    problem: PoolProblem, cut: Partition, target: Target, by_column: bool = False
) -> RowLanes | None:
    """Return pairs as `lanes_for`, of which open sizes choose one. `by_column`: each column is written by itself."""
    rows = _rows(problem, cut, (1, 2, 4), by_column)
    return rows and RowLanes.of(problem.widest(target), *rows)


def _rows(
    problem: PoolProblem, cut: Partition, shuffled: Sequence[int], by_column: bool = False
) -> tuple[int, int] | None:
    """Return the lengths of the shortest rows whose vectors are read and written."""
    geometry, step = problem.geometry, problem.memory.step
    shortest, fewest = cut.narrowest_input(geometry) * step, cut.last_strip(geometry)
    if shortest <= 0 or fewest <= 0:
        return None
    if step == 1:  # else column by column
        return shortest, fewest if geometry.stride[2] in shuffled else 1
    in_rows = problem.index is None and geometry.stride[2] == 1 and problem.scale.columns is None
    return shortest, fewest * step if in_rows and not by_column else step


def spec_fields(
    problem: PoolProblem, lanes: int, out_lanes: int, past_caches: bool = False
) -> dict[str, Any]:
    """The fields of PoolSpec."""
    geometry, memory = problem.geometry, problem.memory
    planes = geometry.out[0] if problem.bounds is not None else geometry.window[0]
    fields: dict[str, Any] = {"reduction": problem.reduction, "dtype": problem.dtype}
    fields |= {"width": geometry.window[2], "stride": geometry.stride[2]}
    fields |= {"dilation": geometry.dilation[2] if geometry.window[2] > 1 else 1}
    fields |= {"step": memory.step if problem.fixed_step or memory.step == 1 else 0}
    fields |= {"deep": geometry.size[0] > 1 or planes > 1, "lanes": lanes, "out_lanes": out_lanes}
    fields |= {"accumulate": problem.accumulate, "norm": problem.norm, "past_caches": past_caches}
    fields |= {"scale": problem.scale.kind, "divides": problem.scale.divides}
    fields |= {"nan": problem.nan if problem.reduction != SUM else "propagate"}
    return fields | {"rounding": problem.rounding if not problem.compute.is_float else ""}


def streams(
    problem: PoolProblem, cut: Partition, target: Target, out_lanes: int, *, dense_rows: bool = False
) -> bool:
    """Whether results should be written past the caches: the tensors are larger than those, rows and vectors long
    enough, and with `dense_rows` whole rows lie side by side."""
    geometry, memory, nbytes = problem.geometry, problem.memory, problem.dtype.itemsize
    if memory.step != 1 or not problem.passes_caches(target):
        return False
    if out_lanes * nbytes < STREAMED_VECTOR or plain(cut.last_strip(geometry)) * nbytes < STREAMED_ROW:
        return False
    return not dense_rows or (cut.strips == 1 and memory.y[3] == geometry.out[2])


def estimate(
    algorithm: str,
    problem: PoolProblem,
    lanes: int,
    *,
    down: float = 0,
    across: float = 0,
    passes: float = 1,
    proven: bool = True,
) -> PoolWork:
    """Work of one core: the bytes once, `down` steps of a vector of the input's columns and `across` of the output's
    in each output row, which takes so many `passes`. `proven`: within what was measured to win somewhere."""
    geometry, step = problem.geometry, problem.memory.step
    read, written = (-(-columns * step // lanes) for columns in (geometry.size[2], geometry.out[2]))
    rows = problem.planes * geometry.out[1]
    steps = rows * read * down, rows * written * across
    return PoolWork(algorithm, problem.nbytes, *steps, rows * passes, proven)


def row_pitch(problem: PoolProblem) -> int:
    """Elements that the windows of a row of outputs span."""
    geometry = problem.geometry
    return ((geometry.out[2] - 1) * geometry.stride[2] + geometry.window[2]) * problem.memory.step


def scratch_pitch(problem: PoolProblem, strip: int, lanes: int) -> int:
    """Elements from one scratch row to the next: the longest row, what loops run over by, and an odd number of cache
    lines, so that rows do not fall on the same sets of the cache."""
    geometry = problem.geometry
    columns = (strip - 1) * geometry.stride[2] + 1 + 3 * geometry.reach(2)
    lines = -(-(columns * problem.memory.step + 2 * SLACK + 8 * lanes) // 16)
    return (lines // 2 * 2 + 1) * 16


def window_build(
    problem: PoolProblem,
    spec: PoolSpec | tuple[PoolSpec, ...],
    cut: Partition,
    *,
    pitch: int,
    scratch: int,
    group: int = 1,
    planes_of_item: int = 1,
    work: int = 0,
    more: Mapping[str, Argument] | None = None,
    chosen: int = 0,
) -> Build:
    """Builder of the call of a windowed pool. `scratch` counts elements, `planes_of_item` the output planes that an
    item makes, `work` the bytes that it moves (0: what follows from the windows). Several specs and `chosen` as in
    `Call.among`."""
    variants = spec if isinstance(spec, tuple) else (spec,)

    def build(x: Argument, y: Argument, indices: Argument = None) -> Call:
        geometry, memory = problem.geometry, problem.memory
        words: dict[str, Argument] = {"x": x, "y": y, "channels": memory.channels, "step": memory.step}
        words |= {"pitch": pitch, "group": group, "row_pitch": row_pitch(problem)}
        words |= {"row_scale": problem.scale.rows, "column_scale": problem.scale.columns}
        words |= {"band": cut.band, "bands": cut.bands, "strip": cut.strip, "strips": cut.strips}
        words |= _named("x", "ncdh", memory.x) | _named("y", "ncdh", memory.y)
        words |= _named("window", "dh", geometry.window) | _named("size", "dhw", geometry.size)
        words |= _named("out", "dhw", geometry.out) | _named("stride", "dh", geometry.stride)
        words |= _named("dilation", "dh", geometry.dilation) | _named("pad", "dhw", geometry.pad)
        words |= ({} if problem.index is None else {"indices": indices}) | dict(more or {})
        items = problem.planes // planes_of_item * cut.bands * cut.strips
        rows = geometry.columns(0, cut.strip)[1] * geometry.stride[1] + cut.strip
        moved = work or rows * cut.band * memory.step * problem.dtype.itemsize * planes_of_item
        grain = maximum(1, minimum(GRAIN_BYTES // maximum(moved, 1), -(-items // 8)))
        call = Call.named(variants[0], words, items, grain, scratch * problem.compute.nbytes)
        return call.among(variants, chosen)

    return build


def _named(name: str, axes: str, values: Sequence[int]) -> dict[str, Argument]:
    return {f"{name}_{axis}": value for axis, value in zip(axes, values, strict=False)}
