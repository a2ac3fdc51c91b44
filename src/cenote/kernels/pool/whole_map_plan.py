"""From the shape of a whole-map reduction to calls: groups of small planes, or pieces of large ones."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from cenote.core.target import Target
from cenote.core.types import FLOAT64, TensorType
from cenote.kernels.base import Argument, Call
from cenote.kernels.pool.common import SUM, compute_type
from cenote.kernels.pool.whole_map import UNROLLED, GlobalChannels, GlobalPlanes

PIECE = 32 << 10  # elements of a piece of a large plane: a few microseconds of work
FEW_PLANES = 32  # with more planes than this, planes alone keep all threads busy
GRAIN_ELEMENTS = 64 << 10


ONE_RUN = (1, 0, 1, 0)


@dataclass(frozen=True)
class Maps:
    """Where the maps lie: batches and channels (or channel blocks) with their strides in x and y, in elements; a map is
    made of runs of `length` positions, `step` elements from position to position (1: plain). `runs` holds their number
    and distance, and the number and distance of slices of so many runs."""

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
        """Positions of a map."""
        return self.length * self.runs[0] * self.runs[2]


@dataclass(frozen=True)
class Reduce:
    """What a whole map becomes. `factor` multiplies a sum; `norm` and `root` are those of the kernel."""

    reduction: str
    dtype: np.dtype[Any]
    factor: float = 1.0
    nan: str = "propagate"
    norm: int = 0
    root: bool = False


def partials(reduce: Reduce, maps: Maps) -> TensorType | None:
    """The temporary that pieces of large planes leave their totals in; None when planes are taken whole."""
    if maps.step != 1 or maps.elements != maps.length or maps.planes > FEW_PLANES or maps.length < 2 * PIECE:
        return None
    sums = reduce.reduction == SUM and compute_type(SUM, reduce.dtype).is_float
    return TensorType.of(FLOAT64 if sums else reduce.dtype, (maps.planes, -(-maps.length // PIECE)))


def whole_maps(
    reduce: Reduce, maps: Maps, target: Target, x: Argument, y: Argument, temporary: Argument = None
) -> list[Call]:
    """The calls that reduce every map; `temporary` is of the type that `partials` gives."""
    between = partials(reduce, maps)
    if maps.step != 1:
        return [_channels(reduce, maps, target, x, y)]
    if between is None:
        return [_planes(reduce, maps, target, x, y, reduce.dtype, 1)]
    pieces = between.shape[1]
    first = dataclasses.replace(reduce, factor=1.0, root=False)
    split = dataclasses.replace(maps, y=(maps.channels * pieces, pieces))
    second = dataclasses.replace(reduce, dtype=between.dtype, norm=0)
    joined = dataclasses.replace(maps, x=split.y, length=pieces, runs=ONE_RUN)
    return [
        _planes(first, split, target, x, temporary, between.dtype, pieces),
        _planes(second, joined, target, temporary, y, reduce.dtype, 1),
    ]


def _lanes(dtype: np.dtype[Any], reduction: str, length: int, target: Target) -> int:
    widest = min(target.lanes(dtype), target.vector_bytes // compute_type(reduction, dtype).nbytes)
    return 1 << (min(widest, length).bit_length() - 1)


def _planes(
    reduce: Reduce, maps: Maps, target: Target, x: Argument, y: Argument, result: np.dtype[Any], pieces: int
) -> Call:
    piece = maps.length if pieces == 1 else PIECE
    lanes = _lanes(reduce.dtype, reduce.reduction, maps.length - (pieces - 1) * piece, target)
    short = maps.elements == maps.length and pieces == 1 and maps.length <= UNROLLED * lanes
    dense = maps.y == (maps.channels, 1)
    group = lanes if short and dense else 1
    spec = GlobalPlanes(
        reduce.reduction, reduce.dtype, result, lanes, reduce.nan, reduce.norm, reduce.root,
        maps.length if short else 0, group,
    )  # fmt: skip
    items = -(-maps.planes // group) * pieces
    numbers = (
        maps.channels, *maps.x, *maps.y, pieces, piece, maps.length, *maps.runs, maps.planes, maps.step,
    )  # fmt: skip
    grain = max(1, GRAIN_ELEMENTS // (group * piece * maps.elements // maps.length))
    scratch = group * lanes * compute_type(reduce.reduction, reduce.dtype).nbytes
    return Call(spec, (x, y, reduce.factor, *numbers), items, min(grain, -(-items // 8)), scratch)


def _channels(reduce: Reduce, maps: Maps, target: Target, x: Argument, y: Argument) -> Call:
    lanes = _lanes(reduce.dtype, reduce.reduction, maps.step, target)
    wide = 4 if maps.step >= 4 * lanes else 1
    spec = GlobalChannels(
        reduce.reduction, reduce.dtype, reduce.dtype, lanes, reduce.nan, reduce.norm, reduce.root, wide
    )
    pieces = -(-maps.step // (lanes * wide))
    items = maps.planes * pieces
    numbers = (
        maps.channels,
        *maps.x,
        *maps.y,
        pieces,
        0,
        maps.length,
        *maps.runs,
        maps.planes,
        maps.step,
    )
    grain = max(1, GRAIN_ELEMENTS // (lanes * wide * maps.elements))
    return Call(spec, (x, y, reduce.factor, *numbers), items, min(grain, -(-items // 8)))


__all__ = ["Maps", "Reduce", "partials", "whole_maps"]
