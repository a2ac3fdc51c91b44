"""Winograd's algorithms for small windows that move by one or two: fewer products, and transforms before and after."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from cenote.core.conv_geometry import ConvShape
from cenote.core.sizes import is_size, plain
from cenote.core.target import Target
from cenote.core.types import FLOAT32, Array, Layout, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.winograd.calls import WinogradTiling
from cenote.kernels.winograd.dilated_calls import WinogradDilatedTiling, dilated_tilings
from cenote.kernels.winograd.row_calls import WinogradRowsTiling
from cenote.kernels.winograd.volume_calls import WinogradVolumeTiling
from cenote.ops.base import Lowering
from cenote.ops.conv.problem import ConvProblem

# Window (height, width): outputs per tile. 1-D convolutions have height 1.
TILES: dict[tuple[int, ...], tuple[tuple[int, int], ...]] = {
    (3, 3): ((4, 4), (3, 3), (2, 2)),
    (5, 5): ((2, 2),),
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
    """Outputs per tile that a convolution's window and channels allow: stride 1, no dilation, one group."""
    if not _moves_by(1, shape) or (max(shape.dilations) > 1 and not _is_cut_evenly(shape)):
        return ()
    plane = as_planes(undilated(shape).deep())[0]
    # Every plane of y sees one of x, so that it has products.
    return TILES.get(plane.window[1:], ()) if max(plane.pads[0]) < plane.window[0] else ()


def strided_tiles_of(shape: ConvShape) -> tuple[tuple[int, int], ...]:
    """Outputs per tile of windows that move by two along each of one or two axes: no dilation, one group. For lack of
    these tiles a large map loses a third of the time, which is not worth a plan of its own: HRNet, RepVGG and
    CSPDarknet would have two classes of sizes in place of one."""
    return STRIDED_TILES.get(shape.window, ()) if _moves_by(2, shape) and max(shape.dilations) == 1 else ()


def dilated_tiles_of(shape: ConvShape) -> tuple[tuple[int, int], ...]:
    """Outputs per tile of the maps of every d-th row and column: known sizes of two axes, stride 1, one group."""
    if shape.rank != 2 or max(shape.dilations) == 1 or not _moves_by(1, shape):
        return ()
    sizes = (*shape.size, *shape.out, *itertools.chain(*shape.pads))
    if any(map(is_size, sizes)) or any(
        begin % step for (begin, _), step in zip(shape.pads, shape.dilations, strict=True)
    ):
        return ()
    return TILES.get(shape.window, ())


def _moves_by(stride: int, shape: ConvShape) -> bool:
    """Whether windows of one group of enough channels move by so many elements along every axis."""
    simple = shape.groups == 1 and set(shape.strides) == {stride} and bool(shape.n)
    return simple and min(shape.channels, shape.filters) >= LEAST_CHANNELS


def _is_cut_evenly(shape: ConvShape) -> bool:
    """Whether a dilated volume is several volumes of equal sizes. Open sizes are not known to be."""
    every = zip(shape.dilations, shape.size, shape.out, shape.pads, strict=True)
    return shape.rank == 3 and all(
        step == 1 or not (is_size(size) or is_size(out) or any(each % step for each in (size, out, *pads)))
        for step, size, out, pads in every
    )


def undilated(shape: ConvShape) -> ConvShape:
    """Return one of the volumes of every d-th plane, row and column; n counts all."""
    steps = shape.dilations
    return dataclasses.replace(
        shape,
        n=shape.n * math.prod(steps),
        size=tuple(size // step for size, step in zip(shape.size, steps, strict=True)),
        out=tuple(out // step for out, step in zip(shape.out, steps, strict=True)),
        pads=tuple(
            (begin // step, end // step) for (begin, end), step in zip(shape.pads, steps, strict=True)
        ),
        dilations=(1,) * shape.rank,
    )


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
    return dataclasses.replace(deep, **parts), axes


def can_pool(shape: ConvShape) -> bool:
    """Whether a convolution in float32 with constant weights and bias can write its 2x2 maxima, two apart."""
    return (
        shape.rank == 2
        and shape.window == (3, 3)
        and bool(tiles_of(shape))
        and all(extent >= 2 for extent in shape.out)
        and shape.n > 0
    )


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
        problem = dataclasses.replace(problem, shape=dataclasses.replace(problem.shape, out=even))
    if in_pieces(problem.shape) and plain(problem.shape.out[0]) >= ROW_TILE * problem.shape.dilations[0]:
        size = flat_shape(problem.shape.deep())
        row_tiling = WinogradRowsTiling(size, 1, ROW_TILE, target)
        yield _in_tiles(problem, [row_tiling], present(problem.weights)[:, :, 0])
    tiles = [tile for tile in tiles_of(problem.shape) if not pool or tile[0] % 2 == tile[1] % 2 == 0]
    if not pool:
        yield from _of_dilated(problem)
        tiles += strided_tiles_of(problem.shape)
    if not tiles:
        return
    if problem.shape.rank == 3:
        yield from _of_volumes(problem, tiles)
        return
    size = flat_shape(problem.shape.deep())
    for tall, wide in tiles:
        if plain(size.out[0]) >= tall and plain(size.out[1]) >= wide:
            tiling = WinogradTiling(size, tall, wide, target, pool)
            yield _in_tiles(problem, [tiling], present(problem.weights)[:, :, 0])


def _of_dilated(problem: ConvProblem) -> Iterator[Lowering]:
    size = flat_shape(problem.shape.deep())
    for tile in dilated_tiles_of(problem.shape):
        tilings = list(dilated_tilings(size, tile, problem.target))
        if tilings[0].shape.out[0] >= tile[0] and tilings[0].shape.out[1] >= tile[1]:
            yield _in_tiles(problem, tilings, present(problem.weights)[:, :, 0])


def _of_volumes(problem: ConvProblem, tiles: Sequence[tuple[int, int]]) -> Iterator[Lowering]:
    size, axes = as_planes(undilated(problem.shape))
    first, second, third = (problem.shape.dilations[axis] for axis in axes)
    weights = present(problem.weights).transpose(0, 1, *(2 + axis for axis in axes))
    for tall, wide in tiles:
        if plain(size.out[1]) >= tall and plain(size.out[2]) >= wide:
            tiling = WinogradVolumeTiling(
                size, tall, wide, problem.target, axes=axes, apart=(first, second, third)
            )
            yield _in_tiles(problem, [tiling], weights)


def flat_shape(deep: ConvShape) -> ConvShape:
    """Height and width only."""
    axes = ("size", "out", "window", "strides", "pads", "dilations")
    return dataclasses.replace(deep, **{name: getattr(deep, name)[1:] for name in axes})


def _in_tiles(problem: ConvProblem, tilings: Sequence[WinogradTiling], weights: Array) -> Lowering:
    """Return the lowering of maps of one size, or of several sizes one after the other."""
    bias, activation, halo = problem.bias, problem.fused.activation, problem.shape.halo
    tiling = tilings[0]
    if isinstance(tiling, WinogradVolumeTiling) and tiling.axes[0] == 0:
        halo = ((0, 0), *halo[1:])  # planes of padding are not read
    if isinstance(tiling, WinogradRowsTiling):
        halo = ((halo[0][0], halo[0][1] + tiling.further),)
    room = max(each.temporary_elements for each in tilings) if len(tilings) > 1 else tiling.temporary_elements

    def calls(x: View, y: View, residual: View | None, between: View | None = None) -> Iterator[Call]:
        packed = tiling.pack(weights)
        for each in tilings:
            yield from each.calls(packed, bias, activation, x, y, residual, between)

    tall, wide = tiling.mv, tiling.mh
    name = f"winograd_f{tall}" if tall == wide else f"winograd_f{tall}x{wide}"
    is_dilated = isinstance(tiling, WinogradDilatedTiling)
    name += "_strided" * (tiling.horizontal.stride > 1) + "_dilated" * is_dilated
    # Rounding errors are two to three times those of a plain sum: tests/kernels/winograd/test_winograd.py.
    return problem.lowering(
        name + "_pool" * tiling.pool,
        Layout(tiling.lanes, halo),
        sum(each.seconds() for each in tilings[1:]) + tiling.seconds(),
        calls,
        temporaries=(TensorType(FLOAT32, (room,)),) if room else (),
        rounding=4,
        by_size=tiling.horizontal.stride == 1 and not is_dilated,
    )
