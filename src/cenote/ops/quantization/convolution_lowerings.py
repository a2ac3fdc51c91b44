"""Convolutions of bytes with constant weights, scales and zero points: the direct and the depthwise kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from cenote.codegen.dots import BYTES, WIDE
from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import cached_property, dataclass
from cenote.core.pool_geometry import Pairs
from cenote.core.sizes import maximum
from cenote.core.sizes import plain as plain_size
from cenote.core.target import PAIRS, Target
from cenote.core.types import PLAIN, Array, Layout, TensorType
from cenote.kernels.base import Call, View, buffer_elements, dense_strides, halo_offset, present
from cenote.kernels.conv.depthwise import suits
from cenote.kernels.conv.direct_calls import joined_groups, merge_groups
from cenote.kernels.conv.regions import WORTH_REGIONS, border, region_calls, row_seconds, share_of_taps
from cenote.kernels.cost_model import BYTES_FASTER, LAUNCH, moved_seconds, peak_seconds
from cenote.kernels.layout.memcpy import memcpy_call
from cenote.kernels.layout.reorder import reorder_call, zero_halo_call
from cenote.kernels.quantized.conv import Levels
from cenote.kernels.quantized.conv_calls import QuantizedProblem, copies_bands, quantized_calls
from cenote.kernels.quantized.depthwise import LARGEST_SUM, quantized_depthwise_calls
from cenote.kernels.quantized.depthwise_rows import rows_call, suits_rows
from cenote.kernels.quantized.residual import Residual
from cenote.kernels.quantized.tile_calls import quantized_tile_calls
from cenote.kernels.quantized.tile_cut import ByteTileCut
from cenote.kernels.quantized.widened import widened, widened_type
from cenote.kernels.quantized.window_rows import WindowRows
from cenote.kernels.quantized.window_rows import suits as suits_window_rows
from cenote.kernels.winograd.quantized_calls import INT32, WinogradQuantizedTiling
from cenote.ops.base import Lowering
from cenote.ops.conv.direct import efficiency
from cenote.ops.conv.winograd import strided_tiles_of, tiles_of

Taps = tuple[int, ...] | slice
"""Numbers of some taps of a window, in rising order."""

EVERY = slice(None)
_WHOLE_TILES = (4, 2)  # results along the side of a tile whose transforms fit 16 bits
_MOST_JOINED = 4  # times as many products, at most, as groups joined by zeros may cost


@dataclass(frozen=True)
class QuantizedConvolution:
    """A convolution of bytes as its kernels see it.

    `inputs` are the operator's; x is the first, and the weights (filters, channels / groups, *window) are constants.
    `x_zero` and `w_zero` are the zero points, that of the weights one or one per filter; `scales` lead from sums to
    numbers of y, which is bounded to `bounds` and has the zero point `zero`. `added`: the number of the input that is
    added, as `residual` says; `scales` then lead to numbers before that.
    """

    shape: ConvShape
    inputs: Sequence[TensorType | None]
    target: Target
    weights: Array
    x_zero: int
    w_zero: Array
    bias: Array | None
    scales: Array
    zero: int
    bounds: tuple[int, int]
    added: int | None = None
    residual: Residual | None = None

    @cached_property
    def centred(self) -> Array:
        """Weights without their zero point (depth, height, width behind the channels)."""
        weights, rank = self.weights, self.shape.rank
        deep = weights.reshape(*weights.shape[:2], *(1,) * (3 - rank), *self.shape.window).astype(np.int16)
        centred: Array = deep - self.w_zero.astype(np.int16).reshape(-1, 1, 1, 1, 1)
        return centred

    @property
    def fits_bytes(self) -> bool:
        """Whether the weights without their zero point are numbers of 8 bits."""
        return bool(self.centred.min() >= -128 and self.centred.max() <= 127)

    def of_taps(self, taps: Taps = EVERY) -> Array:
        """Weights without their zero point, (filters, channels / groups, taps of the window)."""
        return self.centred.reshape(*self.centred.shape[:2], -1)[:, :, taps]

    def offsets(self, zero: int, taps: Taps = EVERY) -> Array:
        """The bias, and what x's zero point adds to the sums of these taps taken off (int64)."""
        bias = np.zeros(self.shape.filters, np.int64) if self.bias is None else self.bias.astype(np.int64)
        offsets: Array = bias - zero * self.of_taps(taps).sum(axis=(1, 2), dtype=np.int64)
        return offsets

    @property
    def halo(self) -> Pairs:
        """Widths of the border of x that is read."""
        return self.shape.halo

    @property
    def filter_scales(self) -> Array:
        """One scale per filter."""
        return np.ascontiguousarray(np.broadcast_to(self.scales, (self.shape.filters,)), np.float32)

    @property
    def levels(self) -> Levels:
        low, high = self.bounds
        return Levels(low - self.zero, high - self.zero, self.zero)

    def of_kernels(self, shape: ConvShape, weights: Array, offsets: Array) -> QuantizedProblem:
        """The problem of kernels that sum bytes in 32 bits."""
        return QuantizedProblem(
            shape, weights, offsets, self.filter_scales, self.target.dots, self.levels, residual=self.residual
        )

    def lowerings(
        self,
        name: str,
        unit: int,
        seconds: float,
        calls: Callable[..., Iterable[Call]],
        temporaries: tuple[TensorType, ...] = (),
        by_size: bool = False,
        bordered: bool = True,
    ) -> Iterator[Lowering]:
        """Yield the lowerings whose `calls` read x in blocks of `unit` channels, and get views of x, y, what is added
        (or None) and temporaries. x is `bordered` by what windows reach. The halo of a tensor holds zeros: where x has
        another zero point, and for blocks that no other operator has, x is copied, from wherever it lies."""
        x, lanes = present(self.inputs[0]), self.target.lanes()
        halo = self.halo if bordered else ()
        layout = Layout(unit, halo)
        in_place = unit == lanes and (self.x_zero == 0 or not any(map(any, halo)))
        copies = () if in_place else (TensorType(x.dtype, (buffer_elements(x.shape, layout),)),)

        def bind(views: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
            source, (y, *memory) = present(views[0]), outputs
            added = None if self.added is None else present(views[self.added])
            if not copies:
                return [*calls(source, y, added, *memory)]
            copy = _blocked(source, memory.pop(0), layout)
            moved = memcpy_call(source, copy) if source.layout.is_blocked else reorder_call(source, copy)
            return [zero_halo_call(copy, self.x_zero & 0xFF), moved, *calls(copy, y, added, *memory)]

        rest: list[Layout | None] = [None] * (len(self.inputs) - 1)
        if self.added is not None:
            rest[self.added - 1] = Layout(lanes)
        seconds += moved_seconds(2 * sum(copy.nbytes for copy in copies))
        for source in (layout,) if in_place else (Layout(unit), PLAIN) if unit == lanes else (PLAIN,):
            yield Lowering(
                name,
                (source, *rest),
                (Layout(lanes),),
                bind,
                seconds,
                temporaries=(*copies, *temporaries),
                in_place=() if self.added is None else (self.added,),
                by_size=by_size,
            )


def _blocked(x: View, memory: View, layout: Layout) -> View:
    """The view of x in blocks in other memory."""
    shape, nbytes = x.type.shape, x.type.dtype.itemsize
    offset = memory.slot.offset + halo_offset(shape, layout) * nbytes
    return View(x.type, layout, dense_strides(shape, layout), replace(memory.slot, offset=offset))


def convolution_lowerings(problem: QuantizedConvolution) -> Iterator[Lowering]:
    """Yield the lowerings of a convolution of bytes."""
    finite = np.isfinite(problem.scales).all()  # of others the reference says what NaN becomes
    if problem.weights.size and finite and 0 not in problem.shape.out:
        yield from _depthwise(problem)
        yield from _direct(problem)
        yield from _winograd(problem)


def _depthwise(problem: QuantizedConvolution) -> Iterator[Lowering]:
    """Yield the lowering of groups of one channel within vectors, whose sums are exact in float32."""
    shape, target = problem.shape, problem.target
    if shape.group_channels != 1 or not suits(shape, target.lanes()) or problem.added is not None:
        return
    offsets = problem.offsets(problem.x_zero)
    largest = np.abs(problem.centred).sum(axis=(1, 2, 3, 4), dtype=np.int64) * 255 + np.abs(offsets)
    if largest.max() > LARGEST_SUM:  # those of a region are no larger
        return
    deep = shape.deep()
    share, moved = share_of_taps(deep), shape.n * shape.filters * (math.prod(shape.size) + shape.pixels)
    apart = max(shape.dilations) > 1
    if apart and share <= WORTH_REGIONS:
        yield from problem.lowerings(
            "quantized_depthwise_regions",
            target.lanes(),
            moved_seconds(moved) + row_seconds(deep, target.lanes()),
            lambda x, y, _: region_calls(deep, partial(_depthwise_calls, problem), x, y, None),
            bordered=False,
        )
    yield from problem.lowerings(
        "quantized_depthwise",
        target.lanes(),
        maximum(
            peak_seconds(shape.operations, target, 0.5), moved_seconds(moved + 2 * apart * border(shape))
        ),
        lambda x, y, _: _depthwise_calls(problem, deep, EVERY, x, y, None),
    )


def _depthwise_calls(
    problem: QuantizedConvolution, shape: ConvShape, taps: Taps, x: View, y: View, _: View | None
) -> Iterator[Call]:
    """Yield the calls of groups of one channel for a part of the map, of deep `shape`, and the taps that it sees."""
    dots, offsets = problem.target.dots, problem.offsets(problem.x_zero, taps)
    weights = problem.of_taps(taps).reshape(*problem.centred.shape[:2], *shape.window)
    # A row's bytes are larger than s8 numbers by 128.
    signed = 128 * (x.type.dtype == np.int8)
    for call in quantized_depthwise_calls(
        shape, weights, offsets, problem.filter_scales, problem.levels, x, y, problem.target
    ):
        if problem.fits_bytes and all(suits_rows(spec, dots) for spec in call.specs):
            bias = problem.offsets(problem.x_zero + signed, taps)
            call = rows_call(call, weights.astype(np.int8), bias, dots)
        yield call


def _direct(problem: QuantizedConvolution) -> Iterator[Lowering]:
    """Yield the lowering of groups that fill whole vectors, or few of which are joined, and weights whose distances
    from the zero point fit 8 bits."""
    shape, target = problem.shape, problem.target
    x, lanes = present(problem.inputs[0]), target.lanes()
    weights = problem.centred
    if not problem.fits_bytes or joined_groups(shape, lanes) > _MOST_JOINED:
        return
    merged, wide = merge_groups(shape.deep(), weights.astype(np.int8), lanes)
    # The kernel's bytes are larger than s8 numbers by 128.
    offsets = problem.offsets(problem.x_zero + (128 if x.dtype == np.int8 else 0)).astype(np.int32)
    bytes_ = problem.of_kernels(merged, wide, offsets)
    # Few channels (the three of a picture) are kept in fours.
    fours = -(-shape.channels // BYTES) * BYTES
    unit = fours if shape.groups == 1 and fours <= lanes // 2 else lanes
    executed = merged.operations * _filled(merged.group_filters, lanes) * _filled(merged.group_channels, unit)
    seconds = peak_seconds(executed, target, efficiency(shape, target) * BYTES_FASTER[target.dots])
    yield from problem.lowerings(
        "quantized", unit, seconds, lambda x, y, added: quantized_calls(bytes_, x, y, target, added)
    )
    if target.tiles.int8:
        yield from _tiles(
            problem, replace(bytes_, bias=problem.offsets(problem.x_zero).astype(np.int32)), unit
        )
    if target.dots == PAIRS and target.vector_bytes == 32 and suits_window_rows(merged):
        yield from _window_rows(problem, bytes_)
    # GMAC/s of bytes and of a copy in 16 bits, by a vector's bytes (Zen 4): 90 and 87 for 64, 75 and 84 for 32, 32 and
    # 32 for 16.
    if target.dots == PAIRS and unit == lanes and target.vector_bytes == 32:
        yield from _wide(
            problem, bytes_, peak_seconds(executed, target, efficiency(shape, target) * BYTES_FASTER[WIDE])
        )


def _window_rows(problem: QuantizedConvolution, bytes_: QuantizedProblem) -> Iterator[Lowering]:
    """Yield the lowering of the same sums on a copy of x in 16 bits, where rows of windows are runs of numbers."""
    x, target = present(problem.inputs[0]), problem.target
    rows = WindowRows(bytes_.shape)
    memory = rows.memory(x, Layout(BYTES, problem.halo))
    numbers = replace(
        bytes_,
        shape=rows.as_rows,
        weights=rows.weights(bytes_.weights),
        bias=problem.offsets(problem.x_zero).astype(np.int32),
        dots=WIDE,
        short=rows.is_short,
    )

    def calls(x: View, y: View, added: View | None, memory: View) -> Iterator[Call]:
        copying, copy = rows.copied(x, memory)
        yield copying
        yield from quantized_calls(numbers, copy, y, target, added)

    lanes, multiplied = target.lanes(), rows.unit - 2 * rows.is_short
    filled = _filled(bytes_.shape.filters, lanes) * multiplied / rows.numbers
    rate = efficiency(rows.as_rows, target, plain=True) * BYTES_FASTER[WIDE]
    seconds = peak_seconds(bytes_.shape.operations * filled, target, rate) + moved_seconds(3 * memory.size)
    yield from problem.lowerings("quantized_rows", BYTES, seconds + LAUNCH, calls, temporaries=(memory,))


def _tiles(problem: QuantizedConvolution, bytes_: QuantizedProblem, unit: int) -> Iterator[Lowering]:
    """Yield the lowerings of the same sums on tile registers, which multiply s8 numbers as they are."""
    target = problem.target
    yield from problem.lowerings(
        "quantized_tiles",
        unit,
        ByteTileCut.of(bytes_.shape, unit, target.l2_bytes).seconds(),
        lambda x, y, added: quantized_tile_calls(bytes_, target.tiles.int8, x, y, target, added),
    )


def _wide(problem: QuantizedConvolution, bytes_: QuantizedProblem, seconds: float) -> Iterator[Lowering]:
    """Yield the lowerings of the same sums on a copy of x in 16 bits."""
    x, target = present(problem.inputs[0]), problem.target
    layout = Layout(target.lanes(), problem.shape.halo)
    # s8 numbers stay what they are in 16 bits.
    numbers = replace(bytes_, dots=WIDE, bias=problem.offsets(problem.x_zero).astype(np.int32))
    memory = widened_type(x.shape, layout)
    seconds += moved_seconds(3 * memory.size)
    if copies_bands(numbers.shape):
        numbers = replace(numbers, copies=True)
        yield from problem.lowerings(
            "quantized_wide",
            target.lanes(),
            seconds,
            lambda x, y, added: quantized_calls(numbers, x, y, target, added),
        )
        return

    def calls(x: View, y: View, added: View | None, memory: View) -> Iterator[Call]:
        copying, copy = widened(x, memory, layout)
        yield copying
        yield from quantized_calls(numbers, copy, y, target, added)

    seconds += LAUNCH
    yield from problem.lowerings("quantized_wide", target.lanes(), seconds, calls, temporaries=(memory,))


def _winograd(problem: QuantizedConvolution) -> Iterator[Lowering]:
    """Yield the lowerings of 3x3 windows one or two apart in tiles of 4x4 and of 2x2 results, on maps at least as
    large, where the weights are too small for sums that would not be exact."""
    shape, target = problem.shape, problem.target
    tiles = tiles_of(shape) or strided_tiles_of(shape)
    if shape.window != (3, 3) or not tiles or not problem.fits_bytes:
        return
    x, weights = present(problem.inputs[0]), problem.centred[:, :, 0].astype(np.int8)
    # The kernel's bytes are larger than s8 numbers by 128.
    offsets = problem.offsets(problem.x_zero + (128 if x.dtype == np.int8 else 0)).astype(np.int32)
    bytes_ = problem.of_kernels(shape, weights, offsets)
    for side in _WHOLE_TILES:
        tiling = WinogradQuantizedTiling(shape, side, side, target)
        if min(map(plain_size, shape.out)) < side or not tiling.is_exact(weights):
            continue
        room = tiling.temporary_elements
        yield from problem.lowerings(
            f"quantized_winograd_f{side}" + "_strided" * (shape.strides[0] > 1),
            target.lanes(),
            tiling.seconds(),
            lambda x, y, added, between=None, tiling=tiling: tiling.quantized_calls(
                bytes_, x, y, added, between
            ),
            temporaries=(TensorType(INT32, (room,)),) if room else (),
            by_size=shape.strides[0] == 1,
        )


def _filled(count: int, lanes: int) -> float:
    """Lanes of the vectors that `count` channels fill, divided by `count`."""
    return -(-count // lanes) * lanes / count
