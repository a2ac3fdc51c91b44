"""Calls of a convolution of bytes: those of the direct kernel, with weights in fours and sums without parts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import field, replace

import numpy as np

from cenote.codegen.dots import BYTES, arranged, weight_type
from cenote.core.computed import computed
from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size, maximum, minimum, plain
from cenote.core.target import Target
from cenote.core.types import Array
from cenote.kernels.base import Argument, Call, Packed, View, present
from cenote.kernels.conv.direct_calls import MACS_PER_SECOND, DirectProblem, FilterGroups, block_runs
from cenote.kernels.conv.tile_widths import tile_widths, widest
from cenote.kernels.conv.weights_ahead import WORD, prefetches
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.layout.reorder import deep_strides
from cenote.kernels.quantized.conv import ConvQuantizedSpec, Levels
from cenote.kernels.quantized.residual import Residual
from cenote.kernels.tables import tap_table

# Where kernels copy x: a copy takes at most such a share of the level 2 cache, there are about so many bands, and a
# piece of work takes at least so many seconds.
_COPY_SHARE = 4
_BANDS = 8
_LEAST_PIECE = 5e-6


@dataclass(frozen=True)
class QuantizedProblem:
    """A convolution of bytes over three axes with groups that suit the lanes.

    `weights` (filters, C/g, d, h, w) are int8 without their zero point, `bias` (filters) int32 and what x's zero point
    adds taken off, `scales` (filters) float32: from sums to numbers of y; for y of float32 `added` (filters) float32 or
    none. `computed`: those of the three that a program computes, by name, in memory as `filter_runs` says. `dots`: see
    codegen.dots. `copies`: whether kernels copy x band by band (`copies_bands`). `residual`: numbers by which another
    tensor of y's type is added. `short`: whether the last two channels of a block of x fill it.
    """

    shape: ConvShape
    weights: Array
    bias: Array
    scales: Array
    dots: str
    levels: Levels
    added: Array | None = None
    activation: Activation = field(default_factory=Activation)
    computed: Mapping[str, View] = field(default_factory=dict)
    residual: Residual | None = None
    copies: bool = False
    short: bool = False

    @property
    def adds(self) -> bool:
        """Whether floats have a bias of floats."""
        return self.added is not None or "added" in self.computed

    @property
    def has_short_sum(self) -> bool:
        """Whether a residual is added by two multiply-adds."""
        return self.residual is not None and self.residual.factors is not None


@dataclass(frozen=True)
class FilterRun:
    """Filters of every group, from `first` on, `count` of them, whose numbers begin at `place` in memory; the next
    group's are `step` numbers later."""

    first: int
    count: int
    place: int
    step: int


def filter_runs(shape: ConvShape, lanes: int, registers: int) -> list[FilterRun]:
    """Return where numbers of filters lie for kernels, each group's filled up to whole vectors; of all runs together
    `shape.groups` times the vectors that hold a group's filters."""
    blocks, pixels, place, found = -(-shape.group_filters // lanes), shape.pixels * shape.n, 0, []
    for block, groups, each in block_runs(blocks, pixels, registers):
        first, step = block * lanes, groups * each * lanes
        found.append(FilterRun(first, min(shape.group_filters - first, step), place, step))
        place += step * shape.groups
    return found


def quantized_calls(
    problem: QuantizedProblem, x: View, y: View, target: Target, residual: View | None = None
) -> Iterator[Call]:
    """Yield the calls of one convolution, each of which writes blocks of its own. `residual`: where the problem has
    one."""
    if not problem.shape.n:
        return
    blocks = -(-problem.shape.group_filters // y.layout.lanes)
    pixels = problem.shape.pixels * problem.shape.n
    for first, groups, each in block_runs(blocks, pixels, target.registers):
        call = _QuantizedGroups(problem, x, y, residual, target, first, groups, each).call()
        yield replace(call, independent=first > 0)


def copies_bands(shape: ConvShape) -> bool:
    """Whether kernels of 16-bit numbers copy the bytes of a band by themselves: where a window is one pixel, and
    weights are fewer than twice the numbers of x, so that all filters follow on a band.

    More weights than numbers of x are read by both of two threads, which still costs less than that each reads what the
    other has copied: ResNet-50 takes 24.45 ms instead of 24.78 with cores that share no cache, 21.08 instead of 21.25
    with cores that do, and the same on one.
    """
    pixels = plain(shape.pixels * shape.n)
    is_pixel = shape.taps == 1 and shape.groups == 1 and not any(map(any, shape.pads))
    return is_pixel and shape.filters < 2 * pixels


class _QuantizedGroups(FilterGroups):
    def __init__(
        self,
        problem: QuantizedProblem,
        x: View,
        y: View,
        residual: View | None,
        target: Target,
        first: int,
        groups: int,
        each: int,
    ) -> None:
        plain = DirectProblem(problem.shape, problem.weights, None, Activation())
        super().__init__(plain, x, y, residual, target, first, groups, each)
        self.quantized = problem
        self.unit = x.layout.lanes  # channels of a block of x
        self.element = np.dtype(np.int16 if weight_type(problem.dots).nbytes == 2 else np.int8)
        if problem.copies:
            self.flat_y = self._is_flat(y) and (residual is None or self._is_flat(residual))
            self.flat_y &= not self.joins_images
            self.joined = (self.joins_images or self.may_be_deep) and not (self.flat_x and self.flat_y)

    def call(self) -> Call:
        cut = tile_widths(self.pixels, widest(self.each, self.target.registers))
        specs = tuple(
            ConvQuantizedSpec(
                dots=self.quantized.dots,
                signed=self.x.type.dtype == np.int8,
                y=self.y.type.dtype,
                blocks=self.each,
                width=width,
                quads=self.unit // BYTES,
                flat_x=self.flat_x,
                flat_y=self.flat_y,
                joined=self.joined,
                added=self.quantized.adds,
                activation=self.quantized.activation,
                residual=self.quantized.residual is not None,
                short_sum=self.quantized.has_short_sum,
                copies=self.quantized.copies,
                short=self.quantized.short,
            )
            for width in cut.widths
        )
        weights = self._pack()
        slab = weights.shape[1]
        items, grain, shares = self._split(cut.tiles, max(cut.widths), slab)
        copy = self._copy(shares["band"] * max(cut.widths)) if self.quantized.copies else {}
        table, entries = self._taps(copy)
        chunk = self._chunk(entries, slab)
        levels = self.quantized.levels
        pointers: dict[str, Argument] = {
            "x": self.x,
            "weights": weights,
            "y": self._first_block(self.y),
            "table": table,
            "bias": self._by_filter("bias", self.quantized.bias),
            "scales": self._by_filter("scales", self.quantized.scales),
        }
        steps = self._steps() | copy
        steps = {name: step for name, step in steps.items() if self.residual or not name.startswith("r_")}
        counts = {
            "entries": entries,
            "chunk": chunk,
            "wide": cut.wide,
            "tiles": cut.tiles,
            "narrow": cut.narrow,
        }
        counts |= {"filter_groups": self.shape.groups * self.groups, "per_group": self.groups, "slab": slab}
        counts |= {"out_w": self.shape.out[2], "out_h": self.shape.out[1], "weights_image": 0}
        counts |= {"zero": levels.zero, WORD: prefetches(self.target)}
        counts |= {"bias_group": self.groups * self.each * self.lanes, **shares, **steps}
        words = {**pointers, **counts, **self._added(), "low": float(levels.low), "high": float(levels.high)}
        kept = 4 * shares["band"] * max(cut.widths) * self.each * self.lanes if chunk < entries else 0
        if copy:
            words["kept"] = kept
            kept += copy["x_block"] * copy["s_blocks"] * self.element.itemsize
        executed = 2 * self.images * self.pixels * slab * self.shape.groups * self.groups
        return Call.named(specs[0], words, items, grain, kept, executed).among(specs, cut.chosen)

    def _added(self) -> dict[str, Argument]:
        """The words of what is added to floats, or to bytes."""
        words: dict[str, Argument] = {}
        if self.quantized.adds:
            words["added"] = self._by_filter("added", self.quantized.added)
        if self.quantized.residual is not None:
            words |= {
                "residual": self._first_block(present(self.residual)),
                **self.quantized.residual.words,
            }
        return words

    def _split(self, tiles: int, width: int, slab: int) -> tuple[int, int, dict[str, int]]:
        """Return items, grain and words as for floats; where kernels copy x, all filters of a band are one grain."""
        if not self.quantized.copies:
            return super()._split(tiles, width, slab)
        per_tile = slab * width * self.groups / MACS_PER_SECOND  # seconds, for all filters
        copied = width * -(-self.shape.channels // self.unit) * self.unit * self.element.itemsize
        room = max(1, self.target.l2_bytes // _COPY_SHARE // copied)
        band = minimum(room, maximum(1, -(-tiles // _BANDS)))
        bands = -(-tiles // band)
        band = -(-tiles // bands)
        bands = -(-tiles // band)
        items = self.images * bands * self.groups if is_size(self.pixels) or self.pixels else 0
        grain = self.groups * maximum(1, math.floor(_LEAST_PIECE / (per_tile * band)))
        return items, grain, {"band": band, "bands": bands, "groups_inside": 1}

    def _copy(self, pixels: int) -> dict[str, int]:
        """Return the words of a copy of so many pixels in scratch memory, and those of x as of the copy."""
        (n, block, *spatial), (_, height, width) = deep_strides(self.x), self.shape.out
        d, h, w = (step * stride for step, stride in zip(spatial, self.shape.strides, strict=True))
        row = width * self.lanes
        words = {"s_image": n, "s_outer": n if self.joins_images else d, "s_h": h, "s_w": w, "s_block": block}
        words |= {"s_blocks": -(-self.shape.channels // self.unit), "x_block": pixels * self.lanes}
        return words | {"x_w": self.lanes, "x_h": row, "x_outer": height * row, "x_image": 0, "x_group": 0}

    def _taps(self, copy: Mapping[str, int]) -> tuple[Argument, int]:
        """Offsets of the taps from a window's origin, in x or in a copy of it, and their number."""
        if copy:
            blocks, apart = copy["s_blocks"], copy["x_block"]
            return computed(tap_table, (1, 1, 1), (0, 0, 0), 0, blocks, apart), blocks
        shape, (_, c, d, h, w) = self.shape, deep_strides(self.x)
        steps = tuple(step * dilation for step, dilation in zip((d, h, w), shape.dilations, strict=True))
        blocks = -(-shape.group_channels // self.unit)
        table = computed(tap_table, shape.window, steps, self._pad(d, h, w), blocks, c)
        return table, blocks * math.prod(shape.window)

    def _pack(self) -> Packed:
        """Weights in the order the kernel reads: (group, run, channel block, d, h, w, quad, block, lane, four)."""
        shape, problem = self.shape, self.quantized
        taps = math.prod(problem.weights.shape[2:])
        channels = -(-shape.group_channels // self.unit) * self.unit
        rows = shape.groups * self.groups
        return Packed((rows, channels * taps * self.each * self.lanes), self._packed, self.element)

    def _packed(self) -> Array:
        shape, lanes, cg = self.shape, self.lanes, self.shape.group_channels
        window = self.quantized.weights.shape[2:]
        wanted, start = self.groups * self.each * lanes, self.first * lanes
        blocks = -(-cg // self.unit)
        w = self.quantized.weights.reshape(shape.groups, shape.group_filters, cg, *window)
        w = w[:, start : start + wanted]
        padded = np.zeros((shape.groups, wanted, blocks * self.unit, *window), np.int8)
        padded[:, : w.shape[1], :cg] = w
        fours = (blocks, self.unit // BYTES, BYTES)
        parts = padded.reshape(shape.groups, self.groups, self.each, lanes, *fours, *window)
        ordered = parts.transpose(0, 1, 4, 7, 8, 9, 5, 2, 3, 6)
        return arranged(ordered, self.quantized.dots).reshape(shape.groups * self.groups, -1)

    def _by_filter(self, name: str, values: Array | None) -> Argument:
        """One number per filter of the call, zeros for those that fill the last vector."""
        shape, size, start = self.shape, self.groups * self.each * self.lanes, self.first * self.lanes
        if name in self.quantized.computed:
            return self.quantized.computed[name].at(shape.groups * start)
        values = present(values)
        padded = np.zeros((shape.groups, size), values.dtype)
        part = values.reshape(shape.groups, -1)[:, start : start + size]
        padded[:, : part.shape[1]] = part
        return padded

    def _chunk(self, entries: int, slab: int) -> int:
        """Number of taps per pass: all, unless a filter group's weights outgrow half of the level 2 cache.

        Weights are read as 256 bytes in 24 cycles, which level 2 gives while sums are made. Passes of what fits level 1
        took 8 to 10 % longer (3x3 windows, Zen 4), for sums are stored and loaded between them.
        """
        nbytes, room = self.element.itemsize, self.target.l2_bytes // 2
        if slab * nbytes < room:
            return max(1, entries)
        per_entry = self.unit * self.each * self.lanes * nbytes
        return 1 << max(0, (room // 2 // per_entry).bit_length() - 1)
