"""Reductions of whole maps: the largest value, the sum, or the sum of squares of every plane.

Plain (a plane is one run of memory, or a few):

    for item in items:                              # up to a vector of planes, or one piece of a large plane
        for plane in the item's planes:
            for vector in the run: total[plane] = combine(total[plane], vector)     (4 chains)
        y[planes] = each total's lanes combined, by transposing as many totals as there are lanes

Channels innermost: vectors hold channels, and totals run over positions. Sums of float32 are taken over BLOCK vectors
at a time in float32 and those in float64, so the error does not grow with the map. What a piece is depends on the
shape alone: any number of threads gives the same bits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F64, Emitter, Pointer, Scalar, Value
from cenote.codegen.variables import Variable
from cenote.core.deferred import dataclass
from cenote.core.formulas.certain import always_at_most
from cenote.core.sizes import is_size, maximum, minimum
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.core.types import FLOAT64, TensorType
from cenote.kernels.base import Argument, Call, KernelSpec
from cenote.kernels.pool.common import SUM, combine, combine_all, compute_type, identity
from cenote.kernels.row_lanes import fitting

CHAINS = 4
BLOCK = 64  # vectors summed in float32 before their sum goes to float64: chains of 16 additions
UNROLLED = 32  # runs of up to so many vectors are emitted without a loop: 14x14 in 0.69 of the time

WORDS = split_words(
    "channels x_n x_c y_n y_c pieces piece length runs x_run slices x_slice",
    "planes step",
)


@dataclass(frozen=True)
class GlobalSpec(KernelSpec):
    """Fields of kernels of whole maps. `norm` 1 takes absolute values, 2 squares before the reduction; `root` a
    square root at the end. `result` is the type of y."""

    reduction: str
    dtype: np.dtype[Any]
    result: np.dtype[Any]
    lanes: int
    nan: str
    norm: int
    root: bool

    @property
    def compute(self) -> Scalar:
        return compute_type(self.reduction, self.dtype)

    @property
    def total(self) -> Scalar:
        """Type of totals over a whole piece: float64 for sums of floats."""
        return F64 if self.reduction == SUM and self.compute.is_float else self.compute

    @property
    def words(self) -> tuple[Parameter, ...]:
        """The words of a call, by name and in order."""
        storage, result = Scalar.of(self.dtype), Scalar.of(self.result)
        pointers = Parameter("x", storage, pointer=True), Parameter("y", result, pointer=True)
        return (*pointers, Parameter("factor", F64), *(Parameter(word) for word in WORDS))

    def value(self, pointer: Pointer, offset: Value | int) -> Value:
        """Load a vector of the input in the form that the reduction takes."""
        value = pointer.load(offset, self.lanes).to(self.compute)
        k = value.kernel
        if self.norm == 1:
            value = k.absolute(value)
        elif self.norm == 2:
            value = value * value
        if self.nan == "ignore" and self.reduction != SUM and value.type.is_float:
            value = combine(k, self.reduction, value, self.neutral(k), exact=False)
        return value

    def rows(self, k: Kernel, x: Pointer) -> Iterator[Pointer]:
        """Yield starts of the runs of a map: `slices` times `runs` of them."""
        n = k.number
        for piece in k.range(0, n("slices")):
            for run in k.range(0, n("runs")):
                yield x + (piece * n("x_slice") + run * n("x_run"))

    def neutral(self, k: Emitter, type: Scalar | None = None) -> Value:
        return k.constant(type or self.compute, identity(self.reduction, self.dtype), self.lanes)

    def finish(self, total: Value, factor: Value) -> Value:
        """Scale, root and round a total."""
        k, result = total.kernel, Scalar.of(self.result)
        if self.reduction == SUM and total.type is F64:
            total = total * factor
            if self.root:
                total = k.square_root(total)
        return total.to(result)


@dataclass(frozen=True)
class GlobalPlanes(GlobalSpec):
    """Kernel for the plain layout. `group` is `lanes` (that many short planes per item, y dense) or 1 (one plane, or
    a piece of it). `length` is that of a run short enough to unroll, else 0: any length."""

    length: int
    group: int

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        n, totals = k.number, k.scratch.cast(self.compute)
        for item in k.range(k.begin, k.end):
            first = item // n("pieces") * self.group
            start = item % n("pieces") * n("piece")
            length = k.minimum(n("piece"), n("length") - start)
            count = k.minimum(k.integer(self.group), n("planes") - first)
            for index in k.range(0, count):
                batch, channel = (first + index) // n("channels"), (first + index) % n("channels")
                x = k.pointer("x") + (batch * n("x_n") + channel * n("x_c") + start)
                total = self._plane(k, x, length)
                if self.group > 1:
                    totals.store(total, index * self.lanes)
                else:
                    self._one(k, total, batch * n("y_n") + (channel * n("y_c") + item % n("pieces")))
            if self.group > 1:
                with k.when(count.equals(self.group)):
                    self._many(k, totals, first)
                with k.unless(count.equals(self.group)):
                    for index in k.range(0, count):
                        self._one(k, totals.load(index * self.lanes, self.lanes), first + index)
        return k

    def _plane(self, k: Kernel, x: Pointer, length: Value) -> Value:
        """Compute the total of a plane, still one per lane."""
        if self.length:
            return self._short(k, x)
        total = k.variable(self.neutral(k, self.total))
        for row in self.rows(k, x):
            whole = length & ~(self.lanes * CHAINS - 1)
            for block in k.range(0, whole, BLOCK * self.lanes):
                end = k.minimum(whole, block + BLOCK * self.lanes)
                chains = [k.variable(self.neutral(k)) for _ in range(CHAINS)]
                for at in k.range(block, end, self.lanes * CHAINS):
                    for part, chain in enumerate(chains):
                        chain.value = combine(
                            k, self.reduction, chain.value, self.value(row, at + part * self.lanes)
                        )
                self._add(k, total, combine_all(k, self.reduction, [chain.value for chain in chains]))
            vectors = length & ~(self.lanes - 1)
            for at in k.range(whole, vectors, self.lanes):
                self._add(k, total, self.value(row, at))
            with k.when(vectors < length):
                self._add(k, total, self._tail(k, row, length))
        return total.value

    def _add(self, k: Kernel, total: Variable, value: Value) -> None:
        total.value = combine(k, self.reduction, total.value, value.to(self.total))

    def _tail(self, k: Kernel, row: Pointer, length: Value) -> Value:
        """Load the last, partial vector: it reaches back; lanes already counted become the identity."""
        value = self.value(row, length - self.lanes)
        if self.reduction != SUM:
            return value
        fresh = ~k.tail_mask(self.lanes - (length & (self.lanes - 1)), self.lanes)
        return k.select(fresh, value, self.neutral(k))

    def _short(self, k: Kernel, x: Pointer) -> Value:
        """Reduce a run of known length, unrolled."""
        parts = [self.value(x, at) for at in range(0, self.length - self.lanes + 1, self.lanes)]
        rest = self.length % self.lanes
        if rest:
            parts.append(self._tail(k, x, k.integer(self.length)))
        return combine_all(k, self.reduction, parts)

    def _one(self, k: Kernel, total: Value, place: Value) -> None:
        """Combine the lanes of one total and write it."""
        while total.lanes > 1:
            half = total.lanes // 2
            low, high = (
                k.shuffle(total, total, range(half)),
                k.shuffle(total, total, range(half, total.lanes)),
            )
            total = combine(k, self.reduction, low, high)
        self._write(k, total.to(self.total), place)

    def _many(self, k: Kernel, totals: Pointer, first: Value) -> None:
        """Combine the lanes of as many totals as there are lanes: half the vectors remain after each step."""
        parts = [totals.load(plane * self.lanes, self.lanes) for plane in range(self.group)]
        size = 1  # lanes that belong together
        while len(parts) > 1:
            parts = [self._fold(k, a, b, size) for a, b in zip(parts[::2], parts[1::2], strict=True)]
            size *= 2
        self._write(k, parts[0].to(self.total), first)

    def _fold(self, k: Kernel, a: Value, b: Value, size: int) -> Value:
        """Combine pairs of lanes of two vectors: lane sets of a and b alternate in runs of `size`."""
        even: list[int] = []
        odd: list[int] = []
        for start in range(0, self.lanes, 2 * size):
            for source in (0, self.lanes):
                even += range(source + start, source + start + size)
                odd += range(source + start + size, source + start + 2 * size)
        return combine(k, self.reduction, k.shuffle(a, b, even), k.shuffle(a, b, odd))

    def _write(self, k: Kernel, total: Value, place: Value) -> None:
        k.pointer("y").store(self.finish(total, k.number("factor")), place)


@dataclass(frozen=True)
class GlobalChannels(GlobalSpec):
    """Kernel for channels innermost: `step` channels per position; `wide` vectors of them at a time."""

    wide: int

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        n, width = k.number, self.lanes * self.wide
        for item in k.range(k.begin, k.end):
            group, part = item // n("pieces"), item % n("pieces")
            batch, channel = group // n("channels"), group % n("channels")
            at = k.minimum(part * width, n("step") - width)
            x = k.pointer("x") + (batch * n("x_n") + channel * n("x_c") + at)
            y = k.pointer("y") + (batch * n("y_n") + channel * n("y_c") + at)
            totals = [k.variable(self.neutral(k, self.total)) for _ in range(self.wide)]
            for row in self.rows(k, x):
                self._run(k, row, totals)
            for index, total in enumerate(totals):
                y.store(self.finish(total.value, n("factor")), index * self.lanes)
        return k

    def _run(self, k: Kernel, row: Pointer, totals: Sequence[Variable]) -> None:
        """Add the positions of one run to the totals, BLOCK at a time."""
        n, unroll = k.number, CHAINS // self.wide
        for block in k.range(0, n("length"), BLOCK):
            end = k.minimum(n("length"), block + BLOCK)
            chains = [[k.variable(self.neutral(k)) for _ in totals] for _ in range(unroll)]
            whole = block + ((end - block) & ~(unroll - 1))
            for position in k.range(block, whole, unroll):
                for index, chain in enumerate(chains):
                    self._position(k, row + (position + index) * n("step"), chain)
            for position in k.range(whole, end):
                self._position(k, row + position * n("step"), chains[0])
            for index, total in enumerate(totals):
                block_total = combine_all(k, self.reduction, [chain[index].value for chain in chains])
                total.value = combine(k, self.reduction, total.value, block_total.to(self.total))

    def _position(self, k: Kernel, place: Pointer, chain: Sequence[Variable]) -> None:
        for index, variable in enumerate(chain):
            variable.value = combine(k, self.reduction, variable.value, self.value(place, index * self.lanes))


# ---- the call -------------------------------------------------------------------------------------------------------

PIECE = 32 << 10  # elements of a piece of a large plane: a few microseconds of work
# With more planes than this, planes alone keep all threads busy; where the batch is open, a quarter of it in one
# picture decides, so that the batch is not asked for.
FEW_PLANES = 32
GRAIN_ELEMENTS = 64 << 10


ONE_RUN = (1, 0, 1, 0)


@dataclass(frozen=True)
class Maps:
    """Layout of the maps: batches and channels (or channel blocks) with their strides in x and y, in elements; a map
    is made of runs of `length` positions, `step` elements from position to position (1: plain). `runs` holds their
    number and distance, and the number and distance of slices of so many runs.
    """

    batches: int
    channels: int
    x: tuple[int, int]
    y: tuple[int, int]
    length: int
    runs: tuple[int, int, int, int] = ONE_RUN
    step: int = 1

    @property
    def planes(self) -> int:
        return self.batches * self.channels

    @property
    def elements(self) -> int:
        """Number of positions of a map."""
        return self.length * self.runs[0] * self.runs[2]


@dataclass(frozen=True)
class Reduce:
    """Reduction of a whole map. `factor` multiplies a sum of floats; `norm` and `root` are those of the kernel. The
    type of the result is x's where `result` names none."""

    reduction: str
    dtype: np.dtype[Any]
    factor: float = 1.0
    nan: str = "propagate"
    norm: int = 0
    root: bool = False
    result: np.dtype[Any] | None = None


def partials(reduce: Reduce, maps: Maps) -> TensorType | None:
    """Type of the temporary for the totals of pieces of large planes; None when planes are taken whole."""
    many = is_size(maps.planes) and always_at_most(FEW_PLANES // 4, maps.planes)
    whole = maps.step != 1 or many or maps.elements != maps.length
    if whole or maps.planes > FEW_PLANES or maps.length < 2 * PIECE:
        return None
    sums = reduce.reduction == SUM and compute_type(SUM, reduce.dtype).is_float
    kind = FLOAT64 if sums else reduce.result or reduce.dtype
    return TensorType.of(kind, (maps.planes, -(-maps.length // PIECE)))


def whole_maps(
    reduce: Reduce, maps: Maps, target: Target, x: Argument, y: Argument, temporary: Argument = None
) -> list[Call]:
    """Return the calls that reduce every map; `temporary` is of the type that `partials` gives."""
    between = partials(reduce, maps)
    if maps.step != 1:
        return [_channels(reduce, maps, target, x, y)]
    if between is None:
        return [_planes(reduce, maps, target, x, y, reduce.result or reduce.dtype, 1)]
    pieces = between.shape[1]
    first = dataclasses.replace(reduce, factor=1.0, root=False)
    split = dataclasses.replace(maps, y=(maps.channels * pieces, pieces))
    second = dataclasses.replace(reduce, dtype=between.dtype, norm=0)
    joined = dataclasses.replace(maps, x=split.y, length=pieces, runs=ONE_RUN)
    return [
        _planes(first, split, target, x, temporary, between.dtype, pieces),
        _planes(second, joined, target, temporary, y, reduce.result or reduce.dtype, 1),
    ]


def _widest(dtype: np.dtype[Any], reduction: str, target: Target) -> int:
    return min(target.lanes(dtype), target.vector_bytes // compute_type(reduction, dtype).nbytes)


def _words(maps: Maps, pieces: int, piece: int) -> dict[str, int]:
    runs, x_run, slices, x_slice = maps.runs
    return {
        "channels": maps.channels,
        "x_n": maps.x[0],
        "x_c": maps.x[1],
        "y_n": maps.y[0],
        "y_c": maps.y[1],
        "pieces": pieces,
        "piece": piece,
        "length": maps.length,
        "runs": runs,
        "x_run": x_run,
        "slices": slices,
        "x_slice": x_slice,
        "planes": maps.planes,
        "step": maps.step,
    }


def _planes(
    reduce: Reduce, maps: Maps, target: Target, x: Argument, y: Argument, result: np.dtype[Any], pieces: int
) -> Call:
    piece = maps.length if pieces == 1 else PIECE
    # Unrolled loops are for maps whose size is known; the loop serves all, element by element in short ones.
    known, last = not is_size(maps.length), maps.length - (pieces - 1) * piece
    widest = _widest(reduce.dtype, reduce.reduction, target)
    lanes = fitting(widest, last) if known else widest
    short = known and maps.elements == maps.length and pieces == 1 and maps.length <= UNROLLED * lanes
    dense = maps.y == (maps.channels, 1)
    group = lanes if short and dense else 1
    ends, length = (reduce.nan, reduce.norm, reduce.root), int(maps.length) if short else 0
    spec = GlobalPlanes(reduce.reduction, reduce.dtype, result, lanes, *ends, length, group)
    items = -(-maps.planes // group) * pieces
    words: dict[str, Argument] = {"x": x, "y": y, "factor": reduce.factor, **_words(maps, pieces, piece)}
    grain = maximum(1, GRAIN_ELEMENTS // (group * piece * maps.elements // maps.length))
    scratch = group * lanes * compute_type(reduce.reduction, reduce.dtype).nbytes
    call = Call.named(spec, words, items, minimum(grain, -(-items // 8)), scratch)
    variants = (spec,) if known else (spec, dataclasses.replace(spec, lanes=1))
    return call.among(variants, minimum(1, maximum(0, lanes - last)))


def _channels(reduce: Reduce, maps: Maps, target: Target, x: Argument, y: Argument) -> Call:
    lanes = fitting(_widest(reduce.dtype, reduce.reduction, target), maps.step)
    wide = 4 if maps.step >= 4 * lanes else 1
    kind, ends = reduce.result or reduce.dtype, (reduce.nan, reduce.norm, reduce.root)
    spec = GlobalChannels(reduce.reduction, reduce.dtype, kind, lanes, *ends, wide)
    pieces = -(-maps.step // (lanes * wide))
    items = maps.planes * pieces
    words: dict[str, Argument] = {"x": x, "y": y, "factor": reduce.factor, **_words(maps, pieces, 0)}
    grain = maximum(1, GRAIN_ELEMENTS // (lanes * wide * maps.elements))
    return Call.named(spec, words, items, minimum(grain, -(-items // 8)))
