"""Direct convolution of few channels from plain memory into plain memory: the pixels of a row lie in the lanes.

    item = image, group of filters, band of rows, piece of these       emitted
      for row of the band:                                             emitted
        for tile of vectors of the row's pixels:                       emitted; the last may be narrower
          acc[filter][vector] = bias
          for tap in window (channel, kd, kh, kw):                     emitted, offsets come from a table
            for filter: broadcast its weight; for vector: acc += weight * x[vector from the tap on]   unrolled
          y[filter][vector] = activation(acc + residual)

Weights are read as they lie, so it is the way of weights that come when the program runs: nothing is packed, and
results lie where the caller wants them. Blocks of channels would be written, read and written again: 3 to 64 channels,
3x3, of 8 pictures of 224x224 give 103 MB, and take 14.3 ms instead of 25.1 (Zen 4, one thread, AVX-512).
"""

from __future__ import annotations

from collections.abc import Sequence

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, I32, I64, Pointer, Value
from cenote.core.computed import computed
from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import dataclass
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.kernels.base import Argument, Call, KernelSpec, View, float_pointers, numbers_named
from cenote.kernels.elementwise.activations import Activation, Destination, store_activated
from cenote.kernels.layout.reorder import deep_strides
from cenote.kernels.product.panels import cut_exactly
from cenote.kernels.tables import tap_table

VECTORS = 3  # of a tile
_ROWS = 16  # of a band: as much of each filter's map is written in one run
_ITEMS = 8  # at least, for threads to share: long rows are cut into pieces where there are few of them
_LONG = 8  # tiles of a piece, at least
_PIECE = 5_000_000  # operations that a thread takes at a time: some 50 us
POINTERS = ("x", "weights", "bias", "residual", "y")
NUMBERS = split_words(
    # Groups of filters, of which the first ones are wide.
    "taps groups wide_groups out_w out_h rows bands piece pieces"
    # Steps in elements: of x from output row to output row.
    " x_image x_d x_h y_image y_channel y_d y_h r_image r_channel r_d r_h"
)


def filters_of_tiles(filters: int, target: Target) -> tuple[int, int, int]:
    """Cut filters into tiles of so many and of one less, as few as the registers allow for `VECTORS` vectors of pixels:
    (filters of a tile, tiles, wide ones)."""
    return cut_exactly(filters, 8 if target.registers > 16 else 4)


@dataclass(frozen=True)
class ConvRowsSpec(KernelSpec):
    """Kernel of rows of pixels, of so many `filters` in a tile and, where these are `mixed`, of one less; `bias`,
    `residual`: they are added before the activation."""

    filters: int
    mixed: bool
    bias: bool
    residual: bool
    activation: Activation

    @property
    def words(self) -> tuple[Parameter, ...]:
        table = Parameter("table", I32, pointer=True)
        return (*float_pointers(POINTERS, ("residual", "y")), table, *numbers_named(NUMBERS))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        RowsEmitter(self, k, target).run()
        return k


@dataclass(frozen=True)
class TileFilters:
    """Some filters of a tile: addresses of their first weights, numbers of the first and of all."""

    weights: Sequence[Pointer]
    first: Value

    @property
    def count(self) -> int:
        return len(self.weights)


class RowsEmitter:
    """Emitter of one kernel."""

    def __init__(self, spec: ConvRowsSpec, k: Kernel, target: Target) -> None:
        self.spec, self.k, self.lanes = spec, k, target.lanes()

    def run(self) -> None:
        k, n, each = self.k, self.k.number, self.spec.filters
        groups, wide = n("groups"), n("wide_groups")
        for item in k.range(k.begin, k.end):
            column, rest = item % n("pieces") * n("piece"), item // n("pieces")
            band, rest = rest % n("bands"), rest // n("bands")
            group, image = rest % groups, rest // groups
            begin = band * _ROWS
            end = k.minimum(begin + _ROWS, n("rows"))
            self.column, self.width = column, k.minimum(n("piece"), n("out_w") - column)
            if not self.spec.mixed:
                self.band(image, begin, end, self.filters(group * each, each))
                continue
            with k.when(group < wide):
                self.band(image, begin, end, self.filters(group * each, each))
            with k.unless(group < wide):
                self.band(image, begin, end, self.filters(group * (each - 1) + wide, each - 1))

    def filters(self, first: Value, count: int) -> TileFilters:
        """Return some filters from the first on."""
        weights, taps = self.k.pointer("weights"), self.k.number("taps")
        return TileFilters([weights + (first + index) * taps for index in range(count)], first)

    def band(self, image: Value, begin: Value, end: Value, filters: TileFilters) -> None:
        """Compute a piece of the rows from one to another."""
        k, n = self.k, self.k.number
        for row in k.range(begin, end):
            depth, height = row // n("out_h"), row % n("out_h")
            x = k.pointer("x") + (image * n("x_image") + depth * n("x_d") + height * n("x_h"))
            start = {
                name: image * n(f"{name}_image")
                + filters.first * n(f"{name}_channel")
                + depth * n(f"{name}_d")
                + height * n(f"{name}_h")
                for name in ("y", "r")
            }
            x = x + self.column
            y, residual = (k.pointer(name) + (start[name[0]] + self.column) for name in ("y", "residual"))
            step = VECTORS * self.lanes
            whole = self.width // step * step
            for column in k.range(0, whole, step):
                self.tile(x + column, y + column, residual + column, filters, [None] * VECTORS)
            left = self.width - whole
            for vectors in range(1, VECTORS + 1):
                within = (left > (vectors - 1) * self.lanes) & (left <= vectors * self.lanes)
                with k.when(within):
                    mask = k.tail_mask(left - (vectors - 1) * self.lanes, self.lanes)
                    masks = [*[None] * (vectors - 1), mask]
                    self.tile(x + whole, y + whole, residual + whole, filters, masks)

    def tile(
        self, x: Pointer, y: Pointer, residual: Pointer, filters: TileFilters, masks: Sequence[Value | None]
    ) -> None:
        """Compute one vector of pixels for each mask, of some filters."""
        k, n, lanes = self.k, self.k.number, self.lanes
        sums = []
        for index in range(filters.count):
            initial = k.constant(F32, 0.0, lanes)
            if self.spec.bias:
                initial = k.pointer("bias").broadcast(filters.first + index, lanes)
            sums.append([k.variable(initial) for _ in masks])
        for tap in k.range(0, n("taps")):
            at = x + k.pointer("table").load(tap).to(I64)
            pixels = [at.load(place * lanes, lanes, mask) for place, mask in enumerate(masks)]
            for weights, row in zip(filters.weights, sums, strict=True):
                weight = weights.broadcast(tap, lanes)
                for pixel, total in zip(pixels, row, strict=True):
                    total.value = k.fma(weight, pixel, total.value)
        places, values = [], []
        for index, row in enumerate(sums):
            to, added = y + n("y_channel") * index, residual + n("r_channel") * index
            for place, (total, mask) in enumerate(zip(row, masks, strict=True)):
                value = total.value
                if self.spec.residual:
                    value = value + added.load(place * lanes, lanes, mask)
                places.append(Destination(to + place * lanes, mask))
                values.append(value)
        store_activated(k, self.spec.activation, places, values)


def rows_call(
    shape: ConvShape,
    x: View,
    weights: Argument,
    bias: Argument,
    residual: View | None,
    y: View,
    activation: Activation,
    target: Target,
) -> Call:
    """Return the call of one convolution over three axes, of one group, whose window moves by one along rows. x is
    plain and has its padding; y and the residual are plain; rows of all three are dense."""
    (_, x_channel, *x_steps), window = deep_strides(x), shape.window
    steps = tuple(step * dilation for step, dilation in zip(x_steps, shape.dilations, strict=True))
    depth, height, width = shape.out
    (each, groups, wide), step = filters_of_tiles(shape.filters, target), VECTORS * target.lanes()
    runs = shape.n * groups * -(-depth * height // _ROWS)
    piece = maximum(_LONG, -(-width // (step * maximum(1, _ITEMS // maximum(1, runs))))) * step
    numbers: dict[str, int] = {
        "taps": shape.channels * shape.taps,
        "groups": groups,
        "wide_groups": wide,
        "out_w": width,
        "out_h": height,
        "rows": depth * height,
        "bands": -(-depth * height // _ROWS),
        "piece": piece,
        "pieces": -(-width // piece),
        "x_image": deep_strides(x)[0],
        "x_d": x_steps[0] * shape.strides[0],
        "x_h": x_steps[1] * shape.strides[1],
    }
    for name, view in (("y", y), ("r", residual or y)):
        image, channel, *spatial = deep_strides(view)
        numbers |= {
            f"{name}_image": image,
            f"{name}_channel": channel,
            f"{name}_d": spatial[0],
            f"{name}_h": spatial[1],
        }
    words: dict[str, Argument] = {
        "x": x,
        "weights": weights,
        "bias": bias,
        "residual": residual,
        "y": y,
        "table": computed(tap_table, window, steps, 0, shape.channels, x_channel),
        **numbers,
    }
    work = 2 * each * _ROWS * piece * shape.channels * shape.taps
    spec = ConvRowsSpec(each, wide < groups, bias is not None, residual is not None, activation)
    return Call.named(spec, words, runs * numbers["pieces"], maximum(1, _PIECE // maximum(1, work)))
