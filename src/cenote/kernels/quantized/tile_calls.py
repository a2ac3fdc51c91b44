"""Calls of a convolution of bytes on tiles: packed weights, the table of a window's taps, numbers of filters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cenote.codegen.tiles import ROW, ROWS, in_words
from cenote.core.computed import computed
from cenote.core.conv_geometry import ConvShape
from cenote.core.target import Target
from cenote.core.types import Array
from cenote.kernels.base import Argument, Call, Packed, View, present
from cenote.kernels.layout.reorder import deep_strides
from cenote.kernels.quantized.conv_calls import FilterRun, QuantizedProblem
from cenote.kernels.quantized.tile_cut import FILTERS, ByteTileCut, blocks_of
from cenote.kernels.quantized.tiles import PLACE_BYTES, STEPS, ConvQuantizedTilesSpec
from cenote.kernels.tables import window_table

INT8 = np.dtype(np.int8)


def quantized_tile_calls(
    problem: QuantizedProblem, way: str, x: View, y: View, target: Target, residual: View | None = None
) -> Iterator[Call]:
    """Yield the call of one convolution whose bias is that for x's own numbers, of either sign. `way`: that of
    `codegen.tiles`; `residual`: where the problem has one."""
    shape = problem.shape
    if not shape.n:
        return
    unit = x.layout.lanes
    cut, blocks = ByteTileCut.of(shape, unit, target.l2_bytes), blocks_of(shape, unit)
    spec = ConvQuantizedTilesSpec(
        tiles=way,
        signed=x.type.dtype == np.int8,
        unit=unit,
        y=y.type.dtype,
        residual=residual is not None,
        short_sum=problem.has_short_sum,
        added=problem.adds,
        activation=problem.activation,
    )
    levels, (_, block, *steps) = problem.levels, deep_strides(x)
    depth, height, width = shape.out
    y_blocks = -(-shape.group_filters // y.layout.lanes)
    pads = sum(begin * step for (begin, _), step in zip(shape.pads, steps, strict=True))
    taps = tuple(step * dilation for step, dilation in zip(steps, shape.dilations, strict=True))
    words: dict[str, Argument] = {
        "x": x,
        "weights": Packed(
            (shape.groups, cut.weight_bytes), lambda: _packed(problem.weights, cut, blocks), INT8
        ),
        "bias": _by_filter(problem, "bias", cut),
        "scales": _by_filter(problem, "scales", cut),
        "y": y,
        "table": computed(window_table, shape.window, taps, pads, blocks, block, ROW // unit),
        **cut.words,
        "out_d": depth,
        "out_h": height,
        "out_w": width,
        "y_block": deep_strides(y)[1],
        "y_blocks": y_blocks,
        **_steps("x", x, blocks, shape.strides),
        **_steps("y", y, y_blocks),
        "zero": levels.zero,
        "low": float(levels.low),
        "high": float(levels.high),
    }
    if problem.adds:
        words["added"] = _by_filter(problem, "added", cut)
    if problem.residual is not None:
        added = present(residual)
        words |= {"residual": added, **problem.residual.words, "r_block": deep_strides(added)[1]}
        words |= _steps("r", added, y_blocks)
    yield Call.named(spec, words, cut.items, cut.grain, cut.scratch(PLACE_BYTES), cut.operations)


def filter_run(shape: ConvShape) -> FilterRun:
    """Return where numbers of filters lie that a program computes: each group's filled up to whole steps."""
    return FilterRun(0, shape.group_filters, 0, -(-shape.group_filters // FILTERS) * FILTERS)


def _steps(name: str, view: View, blocks: int, strides: tuple[int, ...] = (1, 1, 1)) -> dict[str, int]:
    """Steps in memory from one image, group, and position along each axis to the next."""
    image, block, *spatial = deep_strides(view)
    numbers = image, blocks * block, *(step * each for step, each in zip(spatial, strides, strict=True))
    return {f"{name}_{axis}": number for axis, number in zip(STEPS.split(), numbers, strict=True)}


def _packed(weights: Array, cut: ByteTileCut, blocks: int) -> Array:
    """Weights (filters, channels of a group, d, h, w) as tiles: (groups, bytes of the steps of 32 filters, each of
    entries, each of two tiles of 16 filters)."""
    groups, (filters, channels, *window) = cut.groups, weights.shape
    padded = np.zeros((filters, blocks * cut.unit, *window), np.int8)
    padded[:, :channels] = weights
    windows = padded.reshape(groups, cut.filters, blocks, cut.unit, -1).swapaxes(-1, -2)
    whole = np.zeros((groups, cut.filter_steps * FILTERS, cut.entries * ROW), np.int8)
    whole[:, : cut.filters, : cut.row_bytes] = windows.reshape(groups, cut.filters, -1)
    tiles = whole.reshape(groups, cut.filter_steps, 2, ROWS, cut.entries, ROW)
    return in_words(tiles.transpose(0, 1, 4, 2, 5, 3)).reshape(groups, -1)


def _by_filter(problem: QuantizedProblem, name: str, cut: ByteTileCut) -> Argument:
    """One number per filter, zeros for those that fill the last step; in the memory of `filter_run` where a program
    computes it."""
    if name in problem.computed:
        return problem.computed[name]
    values = present(getattr(problem, name))
    padded = np.zeros((cut.groups, cut.filter_steps * FILTERS), values.dtype)
    padded[:, : cut.filters] = values.reshape(cut.groups, -1)
    return padded
