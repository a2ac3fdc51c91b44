"""Convolution of bytes on tile registers (AMX): windows are copied to scratch, and multiplied from there, exactly.

    item = group, band of output positions, part of the filters          emitted
      for position of the band: copy its window's bytes, 64 to an entry
      for 32 filters of the part:
        for 32 positions of the band:
          for entry: 2 x 2 tiles of sums += positions x filters
          y[position] = bytes of sums + bias, as `conv.py` says

A window's bytes are those of all its taps and blocks of channels, one after the other, so that few channels fill tiles
as well as many. Positions run through all images. Those that fill the last 32 are copies of the last one, whose
results are not written. Nothing beyond x and its halo is read, at any stride or dilation. A tap's bytes are copied for
each window that has them; neighbouring windows that share what is copied would need positions between rows, and 3x3
windows of 64 channels take an estimated half of their time to copy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.tiles import ROW, ROWS, Tiles, clear_square, in_words, multiply_square, store_square
from cenote.codegen.values import F32, I8, I32, I64, U8, Pointer, Scalar, Value
from cenote.core.computed import computed
from cenote.core.conv_geometry import ConvShape
from cenote.core.sizes import is_size, maximum, minimum
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.core.types import Array
from cenote.kernels.base import Argument, Call, KernelSpec, Packed, View, numbers_named, pointers_to, present
from cenote.kernels.cost_model import LAUNCH, TILE_ENTRY, TILE_FINISH, TILE_MOVE
from cenote.kernels.layout.reorder import deep_strides
from cenote.kernels.quantized.conv import requantized
from cenote.kernels.quantized.conv_calls import QuantizedProblem
from cenote.kernels.quantized.residual import RESIDUAL_WORDS, with_residual
from cenote.kernels.tables import window_table

INT8 = np.dtype(np.int8)
_BAND = 8  # steps, at most, that use weights while they are in the level 2 cache
_ITEMS = 8  # pieces that a layer is cut into, where that costs little
_PIECE = 5e-6  # seconds of the smallest pieces
_SHARED_COPY = 8  # steps of filters, at least, that share a copy

SIDE = FILTERS = 2 * ROWS  # positions and filters of a step
ENTRY = SIDE * ROW  # bytes of a step's positions, and of its filters
_HELD = SIDE * FILTERS * 4  # bytes of a step's sums
_PLACES = "x", "y", "r"
_STEPS = "image group outer h w"
NUMBERS = (
    # Positions, 32 at a time: all, and of a band; steps of the filters of a group, and of a part; entries of a window.
    *split_words("positions steps band bands filter_steps part_steps parts groups entries"),
    *split_words("out_d out_h out_w y_block y_blocks zero"),
    *(f"{place}_{step}" for place in _PLACES[:2] for step in _STEPS.split()),
)
RESIDUAL_NUMBERS = tuple(f"r_{step}" for step in (*_STEPS.split(), "block"))


def scratch_bytes(band: int, entries: int) -> int:
    """Bytes of scratch memory for a band of so many steps: sums, places of positions, positions."""
    return _HELD + band * SIDE * 16 + band * entries * ENTRY


@dataclass(frozen=True)
class ConvQuantizedTilesSpec(KernelSpec):
    """Kernel of such convolutions. `tiles`: the way of `codegen.tiles`; `signed`: x is s8, not u8; `unit`: bytes of a
    block of channels, a power of two up to 64; `y`: the result's type, of bytes; `residual`: bytes of that type are
    added as `residual` says."""

    tiles: str
    signed: bool
    unit: int
    y: np.dtype[Any]
    residual: bool

    @property
    def words(self) -> tuple[Parameter, ...]:
        element = Scalar.of(self.y)
        return (
            *pointers_to(U8, "x"),
            *pointers_to(I8, "weights"),
            *pointers_to(I32, "bias"),
            *pointers_to(F32, "scales"),
            *(pointers_to(element, "residual", may_alias=True) if self.residual else ()),
            *pointers_to(element, "y", may_alias=self.residual),
            *pointers_to(I32, "table"),
            *numbers_named(NUMBERS),
            Parameter("low", F32),
            Parameter("high", F32),
            *((*numbers_named(RESIDUAL_NUMBERS), *RESIDUAL_WORDS) if self.residual else ()),
        )

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        with k.tiles("s8s8" if self.signed else "u8s8", self.tiles) as registers:
            _Emitter(self, k, registers).run()
        return k


class _Emitter:
    def __init__(self, spec: ConvQuantizedTilesSpec, k: Kernel, registers: Tiles) -> None:
        self.spec, self.k, self.registers = spec, k, registers
        self.lanes = k.target.lanes()
        self.held, places = k.scratch.cast(I32), k.number("band") * SIDE
        self.y_places = (k.scratch + _HELD).cast(I64)
        self.r_places = self.y_places + places
        self.windows = k.scratch + (places * 16 + _HELD)

    def run(self) -> None:
        k, n = self.k, self.k.number
        for item in k.range(k.begin, k.end):
            part, rest = item % n("parts"), item // n("parts")
            band, group = rest % n("bands"), rest // n("bands")
            begin = band * n("band")
            count = k.min_drop_nan(n("band"), n("steps") - begin)
            for place in k.range(0, count * SIDE):
                self.copy(group, begin * SIDE + place, place)
            first = part * n("part_steps")
            last = k.min_drop_nan(first + n("part_steps"), n("filter_steps"))
            for filters in k.range(first, last):
                row = group * n("filter_steps") + filters
                for step in k.range(0, count):
                    self.multiply(step, k.pointer("weights").cast(U8) + row * n("entries") * ENTRY)
                    for at in k.range(0, SIDE):
                        place = step * SIDE + at
                        with k.when(begin * SIDE + place < n("positions")):
                            self.finish(place, self.held + at * FILTERS, filters, row * FILTERS)

    def copy(self, group: Value, position: Value, place: Value) -> None:
        """Copy the window of a position, and write where its results lie."""
        k, n = self.k, self.k.number
        position = k.min_drop_nan(position, n("positions") - 1)
        rest, w = position // n("out_w"), position % n("out_w")
        rest, h = rest // n("out_h"), rest % n("out_h")
        image, outer = rest // n("out_d"), rest % n("out_d")

        def lies(name: str) -> Value:
            indices = zip((image, group, outer, h, w), _STEPS.split(), strict=True)
            first, *others = (index * n(f"{name}_{step}") for index, step in indices)
            for each in others:
                first = first + each
            return first

        self.y_places.store(lies("y"), place)
        if self.spec.residual:
            self.r_places.store(lies("r"), place)
        x, per_row = k.pointer("x") + lies("x"), ROW // self.spec.unit
        to = self.windows + (place // SIDE * n("entries") * ENTRY + place % SIDE * ROW)
        for entry in k.range(0, n("entries")):
            for part in range(per_row):
                offset = k.pointer("table").load(entry * per_row + part).to(I64)
                self.move(x + offset, to + (entry * ENTRY + part * self.spec.unit))

    def move(self, source: Pointer, to: Pointer) -> None:
        """Copy a block's bytes."""
        words = self.spec.unit // 4
        to.cast(I32).store(source.cast(I32).load(0, words) if words > 1 else source.cast(I32).load(0))

    def multiply(self, step: Value, weights: Pointer) -> None:
        """Store the sums of 32 positions for 32 filters: four tiles are loaded for four products."""
        k, t = self.k, self.registers
        rows = self.windows + step * k.number("entries") * ENTRY
        clear_square(t)
        for entry in k.range(0, k.number("entries")):
            for _ in multiply_square(t, rows + entry * ENTRY, weights + entry * ENTRY):
                pass
        store_square(t, self.held)

    def finish(self, place: Value, sums: Pointer, filters: Value, first: Value) -> None:
        """Write the bytes of a position for 32 filters, of which the last step may have fewer."""
        k, lanes = self.k, self.lanes
        y, blocks = k.pointer("y") + self.y_places.load(place), FILTERS // lanes
        for part in range(blocks):
            block = filters * blocks + part
            with k.when(block < k.number("y_blocks")):
                bias, scales = (
                    (k.pointer(name) + first).load(part * lanes, lanes) for name in ("bias", "scales")
                )
                scaled = (sums.load(part * lanes, lanes) + bias).to(F32) * scales
                if self.spec.residual:
                    residual = k.pointer("residual") + (
                        self.r_places.load(place) + block * k.number("r_block")
                    )
                    scaled = with_residual(k, scaled, residual.load(0, lanes))
                (y + block * k.number("y_block")).store(requantized(k, scaled, y.element))


@dataclass(frozen=True)
class WindowCut:
    """Division of a convolution over three axes into bands and parts. `unit`: channels of a block of x."""

    shape: ConvShape
    unit: int
    l2_bytes: int

    @property
    def blocks(self) -> int:
        """Blocks of a group's channels."""
        return -(-self.shape.group_channels // self.unit)

    @property
    def entries(self) -> int:
        return -(-self.blocks * self.unit * self.shape.taps // ROW)

    @property
    def positions(self) -> int:
        return self.shape.n * self.shape.pixels

    @property
    def steps(self) -> int:
        return -(-self.positions // SIDE)

    @property
    def filter_steps(self) -> int:
        return -(-self.shape.group_filters // FILTERS)

    @property
    def weight_bytes(self) -> int:
        """Bytes of a group's weights."""
        return self.filter_steps * self.entries * ENTRY

    @property
    def band(self) -> int:
        """Steps of a band: one, unless weights come from beyond the level 2 cache."""
        if self.weight_bytes <= self.l2_bytes // 2:
            return 1
        most = max(1, min(_BAND, self.l2_bytes // 4 // (self.entries * ENTRY)))
        return most if is_size(self.steps) else max(1, min(most, self.steps))

    @property
    def bands(self) -> int:
        return -(-self.steps // self.band)

    @property
    def part_steps(self) -> int:
        """Steps of the filters of a part. Each part makes a copy of its own."""
        pieces = self.bands * self.shape.groups
        wanted = 1 if is_size(pieces) else _ITEMS // max(1, pieces)
        return -(-self.filter_steps // max(1, min(wanted, self.filter_steps // _SHARED_COPY)))

    @property
    def parts(self) -> int:
        return -(-self.filter_steps // self.part_steps)

    def step_seconds(self) -> float:
        """Estimate for 32 positions and the filters of a part."""
        product = self.entries * TILE_ENTRY[self.weight_bytes > self.l2_bytes // 2 and self.band == 1]
        return self.entries * SIDE * ROW // self.unit * TILE_MOVE + self.part_steps * (product + TILE_FINISH)

    def seconds(self) -> float:
        return LAUNCH + self.step_seconds() * self.steps * self.shape.groups * self.parts

    @property
    def operations(self) -> int:
        """Operations executed, those of tiles that are not full too."""
        return 2 * self.steps * self.shape.groups * self.filter_steps * self.entries * SIDE * FILTERS * ROW


def quantized_tile_calls(
    problem: QuantizedProblem, way: str, x: View, y: View, target: Target, residual: View | None = None
) -> Iterator[Call]:
    """Yield the call of one convolution whose bias is that for x's own numbers, of either sign. `way`: that of
    `codegen.tiles`; `residual`: where the problem has one."""
    shape = problem.shape
    if not shape.n:
        return
    cut = WindowCut(shape, x.layout.lanes, target.l2_bytes)
    spec = ConvQuantizedTilesSpec(
        tiles=way,
        signed=x.type.dtype == np.int8,
        unit=cut.unit,
        y=y.type.dtype,
        residual=residual is not None,
    )
    levels, (_, block, *steps) = problem.levels, deep_strides(x)
    (depth, height, width), filters = shape.out, cut.filter_steps * FILTERS
    pads = sum(begin * step for (begin, _), step in zip(shape.pads, steps, strict=True))
    taps = tuple(step * dilation for step, dilation in zip(steps, shape.dilations, strict=True))
    words: dict[str, Argument] = {
        "x": x,
        "weights": Packed((shape.groups, cut.weight_bytes), lambda: _packed(problem.weights, cut), INT8),
        "bias": _by_filter(problem.bias, shape.groups, filters),
        "scales": _by_filter(problem.scales, shape.groups, filters),
        "y": y,
        "table": computed(window_table, shape.window, taps, pads, cut.blocks, block, ROW // cut.unit),
        "positions": cut.positions,
        "steps": cut.steps,
        "band": cut.band,
        "bands": cut.bands,
        "filter_steps": cut.filter_steps,
        "part_steps": cut.part_steps,
        "parts": cut.parts,
        "groups": shape.groups,
        "entries": cut.entries,
        "out_d": depth,
        "out_h": height,
        "out_w": width,
        "y_block": deep_strides(y)[1],
        "y_blocks": -(-shape.group_filters // y.layout.lanes),
        **_steps("x", x, cut.blocks, shape.strides),
        **_steps("y", y, -(-shape.group_filters // y.layout.lanes)),
        "zero": levels.zero,
        "low": float(levels.low),
        "high": float(levels.high),
    }
    if problem.residual is not None:
        added = present(residual)
        words |= {"residual": added, **problem.residual.words, "r_block": deep_strides(added)[1]}
        words |= _steps("r", added, -(-shape.group_filters // y.layout.lanes))
    items = shape.groups * cut.bands * cut.parts
    grain = maximum(1, minimum(math.floor(_PIECE / (cut.step_seconds() * cut.band)), items // _ITEMS))
    scratch = scratch_bytes(cut.band, cut.entries)
    yield Call.named(spec, words, items, grain, scratch, cut.operations)


def _steps(name: str, view: View, blocks: int, strides: tuple[int, ...] = (1, 1, 1)) -> dict[str, int]:
    """Steps in memory from one image, group, and position along each axis to the next."""
    image, block, *spatial = deep_strides(view)
    numbers = image, blocks * block, *(step * each for step, each in zip(spatial, strides, strict=True))
    return {f"{name}_{axis}": number for axis, number in zip(_STEPS.split(), numbers, strict=True)}


def _packed(weights: Array, cut: WindowCut) -> Array:
    """Weights (filters, channels of a group, d, h, w) as tiles: (groups, bytes of the steps of 32 filters, each of
    entries, each of two tiles of 16 filters)."""
    groups, (filters, channels, *window) = cut.shape.groups, weights.shape
    padded = np.zeros((filters, cut.blocks * cut.unit, *window), np.int8)
    padded[:, :channels] = weights
    windows = padded.reshape(groups, filters // groups, cut.blocks, cut.unit, -1).swapaxes(-1, -2)
    whole = np.zeros((groups, cut.filter_steps * FILTERS, cut.entries * ROW), np.int8)
    whole[:, : filters // groups, : cut.blocks * cut.unit * cut.shape.taps] = windows.reshape(
        groups, filters // groups, -1
    )
    tiles = whole.reshape(groups, cut.filter_steps, 2, ROWS, cut.entries, ROW)
    return in_words(tiles.transpose(0, 1, 4, 2, 5, 3)).reshape(groups, -1)


def _by_filter(values: Array, groups: int, filters: int) -> Array:
    """One number per filter, zeros for those that fill the last step."""
    padded = np.zeros((groups, filters), values.dtype)
    part = values.reshape(groups, -1)
    padded[:, : part.shape[1]] = part
    return padded
