"""Calls of a convolution by products of parts, and its weights as the kernel reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cenote.codegen.tiles import ROWS, WORDS, in_words
from cenote.core.sizes import maximum
from cenote.core.types import Array
from cenote.kernels.base import Argument, Call, Packed, View
from cenote.kernels.conv.direct_calls import DirectProblem
from cenote.kernels.layout.reorder import deep_strides
from cenote.kernels.parts.product import ENTRY, SCRATCH, ConvPartsSpec
from cenote.kernels.parts.regions import CHANNELS, FILTERS, Regions
from cenote.kernels.parts.split import LARGEST_SCALE, split_calls

_SMALLEST = np.float32(2.0**-24)  # in float16
_ITEM_DOTS = 8192  # products of tiles that a thread should take at a time: 50 us


def parts_calls(
    problem: DirectProblem,
    regions: Regions,
    way: str,
    x: View,
    y: View,
    residual: View | None,
    memory: Sequence[View],
    columns: int = 0,
) -> Iterator[Call]:
    """Yield the calls that split x, in blocks, into regions in `memory` (`Regions.memory`), and that multiply them by
    the weights, which are finite. `way`: that of `codegen.tiles`. `columns`: of y and the residual where they are plain
    matrices, with nothing behind a row's last filter."""
    parts, sizes = memory
    yield from split_calls(regions, x, parts, sizes)
    shape, (share, shares) = regions.shape, regions.shares
    added = y if residual is None else residual
    filter_exponents = exponents_of(problem.weights)
    weights = Packed(
        (regions.groups, regions.blocks * shape.taps * ENTRY),
        lambda: packed(problem.weights, filter_exponents),
        np.dtype(np.int32),
    )
    words: dict[str, Argument] = {
        "parts": parts,
        "sizes": sizes,
        "weights": weights,
        "filter_exponents": _filled(-filter_exponents, FILTERS),
        "places": regions.places(),
        "bias": _filled(
            np.zeros(shape.filters, np.float32) if problem.bias is None else problem.bias, FILTERS
        ),
        "residual": residual,
        "y": y,
        "blocks": regions.blocks,
        "taps": shape.taps,
        "room": regions.room,
        "pairs": regions.pairs,
        "pitch": regions.pitch,
        "band": regions.band,
        "bands": regions.bands,
        "share": share,
        "shares": shares,
        "groups": regions.groups,
        "vectors": y.blocks,
        "columns": columns,
        "out_w": shape.out[2],
        "out_h": shape.out[1],
        **_steps("y", y),
        **_steps("r", added),
    }
    spec = ConvPartsSpec(
        y.layout.lanes, residual is not None, problem.activation, way, columns % y.layout.lanes > 0
    )
    dots = regions.pairs * share * regions.blocks * shape.taps * 12
    grain = maximum(1, _ITEM_DOTS // maximum(1, dots))
    operations = 2 * regions.dots * ROWS * WORDS * CHANNELS
    yield Call.named(spec, words, regions.count * shares, grain, SCRATCH, operations)


def _steps(name: str, view: View) -> dict[str, Argument]:
    image, block, _, h, w = deep_strides(view)
    return {f"{name}_image": image, f"{name}_block": block, f"{name}_h": h, f"{name}_w": w}


def _filled(numbers: Array, multiple: int) -> Array:
    """Numbers of filters with zeros behind them, up to a multiple."""
    return np.pad(numbers, (0, -len(numbers) % multiple))


def exponents_of(weights: Array) -> Array:
    """The exponent of the power of two that scales each filter's largest weight to at least 2^14, as far as float32
    has it, and below 2^15."""
    largest = np.abs(weights.reshape(len(weights), -1)).max(1).astype(np.float64)
    exponents = np.frexp(largest)[1]  # largest < 2^exponent
    return np.where(largest == 0, 0, np.minimum(15 - exponents, LARGEST_SCALE)).astype(np.int32)


def split_numbers(numbers: Array) -> tuple[Array, Array]:
    """Both float16 parts of float32 numbers below 2^15, as the kernel splits x."""
    high = numbers.astype(np.float16)
    return high, (numbers - high.astype(np.float32)).astype(np.float16)


def packed(weights: Array, exponents: Array) -> Array:
    """Weights (filters, channels, *window) in parts: [group][channel block][tap][part][tile][pair][filter], as words of
    two channels. None becomes zero that is not: its sign is that of an infinity that it multiplies."""
    filters, channels = weights.shape[:2]
    scaled = np.ldexp(weights, exponents.reshape(-1, *(1,) * (weights.ndim - 1)))
    lost = (weights != 0) & (np.abs(scaled) < _SMALLEST)
    scaled = np.where(lost, np.copysign(_SMALLEST, weights), scaled).reshape(filters, channels, -1)
    scaled = np.pad(scaled, ((0, -filters % FILTERS), (0, -channels % CHANNELS), (0, 0)))
    tiles = scaled.reshape(-1, 2, WORDS, scaled.shape[1] // CHANNELS, CHANNELS, scaled.shape[2])
    tiles = tiles.transpose(0, 3, 5, 1, 4, 2)  # group, block, tap, tile, channel, filter
    both = np.stack(split_numbers(tiles), 3)
    return in_words(both).view(np.int32).reshape(len(tiles), -1)
