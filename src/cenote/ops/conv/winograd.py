"""Winograd's algorithms for small windows that move by one or two: fewer products, and transforms before and after."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from operator import add, mul
from typing import Any

from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size, maximum, plain
from cenote.core.target import Target
from cenote.core.types import FLOAT32, Array, Layout, TensorType
from cenote.kernels.base import Call, Packed, View, present
from cenote.kernels.winograd.calls import WinogradTiling
from cenote.kernels.winograd.dilated_calls import WinogradDilatedTiling, parts_apart
from cenote.kernels.winograd.row_calls import WinogradRowsTiling
from cenote.kernels.winograd.volume_calls import WinogradVolumeTiling
from cenote.ops.base import Lowering
from cenote.ops.conv.problem import ConvProblem

# Window (height, width): outputs per tile. 1-D convolutions have height 1.
TILES: dict[tuple[int, ...], tuple[tuple[int, int], ...]] = {
    (3, 3): ((4, 4), (3, 3), (2, 2)),
    (5, 5): ((2, 2),),
    (2, 2): ((4, 4), (3, 3), (2, 2)),
    (1, 2): ((1, 4),),
    (2, 1): ((4, 1),),
    (1, 3): ((1, 4),),
    (3, 1): ((4, 1),),
    (1, 7): ((1, 2),),
    (7, 1): ((2, 1),),
}
# Of windows that move by two.
STRIDED_TILES: dict[tuple[int, ...], tuple[tuple[int, int], ...]] = {
    (3, 3): ((4, 4), (3, 3), (2, 2)),
    (3,): ((1, 4),),
}
ROW_TILE = 4  # outputs, and taps of a piece of a window
LEAST_CHANNELS = 16  # below, transforms cost more than they save


def tiles_of(shape: ConvShape) -> tuple[tuple[int, int], ...]:
    """Outputs per tile that a window and channels allow: stride 1, one group; dilations of volumes alone."""
    if not _moves_by(1, shape) or (max(shape.dilations) > 1 and not _is_volume_apart(shape)):
        return ()
    plane = as_planes(shape.deep())[0]
    # Every plane of y sees one of x, so that it has products.
    sees = max(plane.pads[0]) < plane.window[0] * plane.dilations[0]
    return TILES.get(plane.window[1:], ()) if sees else ()


def strided_tiles_of(shape: ConvShape) -> tuple[tuple[int, int], ...]:
    """Outputs per tile of windows that move by two along each of one or two axes: no dilation, one group. For lack of
    these tiles a large map loses a third of the time, which is not worth a plan of its own: HRNet, RepVGG and
    CSPDarknet would have two classes of sizes in place of one."""
    return STRIDED_TILES.get(shape.window, ()) if _moves_by(2, shape) and max(shape.dilations) == 1 else ()


def dilated_tiles_of(shape: ConvShape) -> tuple[tuple[int, int], ...]:
    """Outputs per tile of the maps of every d-th row and column: two axes, stride 1, one group."""
    if shape.rank != 2 or max(shape.dilations) == 1 or not _moves_by(1, shape):
        return ()
    return TILES.get(shape.window, ()) if _begins_apart(shape) else ()


def _begins_apart(shape: ConvShape) -> bool:
    """Whether what a dilated layer is made of begins in x where it begins in y: the dilations divide the pads before
    x."""
    known = not any(map(is_size, itertools.chain(*shape.pads)))
    return known and not any(
        begin % step for (begin, _), step in zip(shape.pads, shape.dilations, strict=True)
    )


def _moves_by(stride: int, shape: ConvShape) -> bool:
    """Whether windows of one group of enough channels move by so many elements along every axis."""
    simple = shape.groups == 1 and set(shape.strides) == {stride} and bool(shape.n)
    return simple and min(shape.channels, shape.filters) >= LEAST_CHANNELS


def _is_volume_apart(shape: ConvShape) -> bool:
    """Whether a dilated volume is several volumes. Where the dilation does not divide the planes of x and of y, they
    have to be as many, so that each of y sees its own."""
    if shape.rank != 3 or not _begins_apart(shape):
        return False
    for step, size, out, pads, reach in zip(
        shape.dilations, shape.size, shape.out, shape.pads, shape.reach, strict=True
    ):
        cut_evenly = not (is_size(size) or is_size(out) or size % step or out % step or pads[1] % step)
        if step > 1 and not cut_evenly and sum(pads) != reach - 1:
            return False
    return True


def in_pieces(shape: ConvShape) -> bool:
    """Whether a convolution of one axis has a window that is cut into pieces, or dilated."""
    if shape.rank != 1 or not _moves_by(1, shape):
        return False
    return shape.window[0] > ROW_TILE or (shape.window[0] == 3 and shape.dilations[0] > 1)


def as_planes(deep: ConvShape) -> tuple[ConvShape, tuple[int, int, int]]:
    """Return the sizes across, down and along planes in which a window has several taps, and the axes of x that these
    are. A window of 3x1x1 moves down planes of depth and width; others move in planes of height and width."""
    axes = (1, 0, 2) if deep.window[0] > 1 and deep.window[1:] == (1, 1) else (0, 1, 2)
    names = ("size", "out", "window", "strides", "pads", "dilations")
    parts: dict[str, Any] = {name: tuple(getattr(deep, name)[axis] for axis in axes) for name in names}
    return replace(deep, **parts), axes


def can_pool(shape: ConvShape) -> bool:
    """Whether a convolution in float32 with constant weights and bias can write its 2x2 maxima, two apart."""
    return (
        shape.rank == 2
        and shape.window == (3, 3)
        and bool(tiles_of(shape))
        and all(extent >= 2 for extent in shape.out)
        and shape.n > 0
    )


@dataclass(frozen=True, eq=False)
class _Part:
    """Part of a convolution that calls compute: all of it, maps or volumes of one size, or a group of channels.
    `first`: the group's first vector of channels, and of filters; `place`: where the first map or volume begins."""

    tiling: WinogradTiling
    weights: Array
    bias: Array | None
    first: tuple[int, int] = (0, 0)
    place: tuple[int, ...] = ()

    def of_x(self, x: View) -> View:
        """Return x from its first element on."""
        return self._from(x, self.first[0])

    def of_y(self, y: View) -> View:
        """Return y, or the residual, from its first element on."""
        return self._from(y, self.first[1])

    def _from(self, view: View, vector: int) -> View:
        steps = view.strides[len(view.strides) - len(self.place) :]
        moved = vector * view.strides[1] + sum(map(mul, self.place, steps))
        return view.at(moved) if is_size(moved) or moved else view


def winograd(problem: ConvProblem, target: Target) -> Iterator[Lowering]:
    """Yield the lowering of maps at least as large as a tile, judged by the shapes at hand where sizes are open.
    Smaller maps are one shorter tile. A 2x2 pool sees no odd last row or column."""
    pool = problem.fused.pool
    if (
        problem.local
        or not problem.can_transform
        or (pool and (problem.fused.residual is not None or problem.shape.rank != 2))
    ):
        return
    if pool:
        even = tuple(extent - extent % 2 for extent in problem.shape.out)
        problem = replace(problem, shape=replace(problem.shape, out=even))
    if in_pieces(problem.shape) and plain(problem.shape.out[0]) >= ROW_TILE * problem.shape.dilations[0]:
        size = flat_shape(problem.shape.deep())
        yield _of_one(problem, WinogradRowsTiling(size, 1, ROW_TILE, target))
    tiles = [tile for tile in tiles_of(problem.shape) if not pool or tile[0] % 2 == tile[1] % 2 == 0]
    if problem.shape.rank == 3:
        yield from _of_volumes(problem, tiles)
        return
    if not pool:
        yield from _of_dilated(problem)
        yield from _of_groups(problem)
        tiles += strided_tiles_of(problem.shape)
    size = flat_shape(problem.shape.deep())
    for tall, wide in _that_fit(tiles, size):
        yield _of_one(problem, WinogradTiling(size, tall, wide, target, pool))


def _that_fit(tiles: Iterable[tuple[int, int]], size: ConvShape) -> Iterator[tuple[int, int]]:
    """Yield the tiles that are no larger than a map."""
    for tall, wide in tiles:
        if plain(size.out[-2]) >= tall and plain(size.out[-1]) >= wide:
            yield tall, wide


def _of_one(problem: ConvProblem, tiling: WinogradTiling) -> Lowering:
    return _in_tiles(problem, [_Part(tiling, present(problem.weights)[:, :, 0], problem.bias)])


def _of_dilated(problem: ConvProblem) -> Iterator[Lowering]:
    tiles, size = dilated_tiles_of(problem.shape), flat_shape(problem.shape.deep())
    weights = present(problem.weights)[:, :, 0]
    maps = list(parts_apart(size)) if tiles else []
    for tall, wide in _that_fit(tiles, maps[0].shape) if maps else ():
        parts = []
        for each in maps:
            tiling = WinogradDilatedTiling(
                each.shape, tall, wide, problem.target, apart=size.dilations, begins=each.begins
            )
            parts.append(_Part(tiling, weights, problem.bias, place=each.first))
        yield _in_tiles(problem, parts)


def _of_groups(problem: ConvProblem) -> Iterator[Lowering]:
    """Yield the lowerings of groups that are whole vectors, one after the other."""
    shape, lanes, weights = problem.shape, problem.lanes, present(problem.weights)
    channels, filters = shape.group_channels, shape.group_filters
    if shape.groups == 1 or channels % lanes or filters % lanes:
        return
    one = replace(shape, groups=1, channels=channels, filters=filters)
    size = flat_shape(one.deep())
    for tall, wide in _that_fit((*tiles_of(one), *strided_tiles_of(one)), size):
        tiling = WinogradTiling(size, tall, wide, problem.target)
        parts = []
        for group in range(shape.groups):
            own = slice(group * filters, (group + 1) * filters)
            bias = None if problem.bias is None else problem.bias[own]
            first = group * (channels // lanes), group * (filters // lanes)
            parts.append(_Part(tiling, weights[own, :, 0], bias, first))
        yield _in_tiles(problem, parts)


def _of_volumes(problem: ConvProblem, tiles: Sequence[tuple[int, int]]) -> Iterator[Lowering]:
    if not tiles:
        return
    size, axes = as_planes(problem.shape)
    weights = present(problem.weights).transpose(0, 1, *(2 + axis for axis in axes))
    volumes = list(parts_apart(size))
    for tall, wide in _that_fit(tiles, volumes[0].shape):
        parts = []
        for each in volumes:
            tiling = WinogradVolumeTiling(
                each.shape, tall, wide, problem.target, axes=axes, apart=size.dilations, begins=each.begins
            )
            place = tuple(each.first[axes.index(axis)] for axis in range(3))
            parts.append(_Part(tiling, weights, problem.bias, place=place))
        yield _in_tiles(problem, parts)


def flat_shape(deep: ConvShape) -> ConvShape:
    """Height and width only."""
    axes = ("size", "out", "window", "strides", "pads", "dilations")
    return replace(deep, **{name: getattr(deep, name)[1:] for name in axes})


def _in_tiles(problem: ConvProblem, parts: Sequence[_Part]) -> Lowering:
    """Return the lowering of parts of one kind, one after the other."""
    tiling, halo, activation = parts[0].tiling, problem.shape.halo, problem.fused.activation
    if isinstance(tiling, WinogradVolumeTiling) and tiling.axes[0] == 0:
        halo = ((0, 0), *halo[1:])  # planes of padding are not read
    if isinstance(tiling, WinogradRowsTiling):
        halo = ((halo[0][0], halo[0][1] + tiling.further),)
    room = reduce(maximum, (part.tiling.temporary_elements for part in parts))
    if is_size(room) and tiling.may_be_empty:
        room = maximum(1, room)

    def calls(x: View, y: View, residual: View | None, between: View | None = None) -> Iterator[Call]:
        packed: dict[int, Packed] = {}
        for index, part in enumerate(parts):
            u = packed.setdefault(id(part.weights), part.tiling.pack(part.weights))
            added = None if residual is None else part.of_y(residual)
            made = part.tiling.calls(u, part.bias, activation, part.of_x(x), part.of_y(y), added, between)
            # Two calls have V between them.
            yield from (replace(call, independent=index > 0 and len(made) == 1) for call in made)

    tall, wide = tiling.mv, tiling.mh
    name = f"winograd_f{tall}" if tall == wide else f"winograd_f{tall}x{wide}"
    strided, dilated = tiling.horizontal.stride > 1, isinstance(tiling, WinogradDilatedTiling)
    name += "_strided" * strided + "_dilated" * dilated + "_pool" * tiling.pool
    # Rounding errors are two to three times those of a plain sum: tests/kernels/winograd/test_winograd.py.
    return problem.lowering(
        name,
        Layout(tiling.lanes, halo),
        reduce(add, (part.tiling.seconds() for part in parts if plain(part.tiling.tiles)), 0.0),
        calls,
        temporaries=(TensorType(FLOAT32, (room,)),) if room else (),
        rounding=4,
        by_size=not strided and not dilated and len(parts) == 1,
    )
