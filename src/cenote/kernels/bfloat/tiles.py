"""Convolutions of bfloat16 on tile registers: rows of 32 channels are made in scratch, and multiplied from there.

    item = image, convolution group, band of output pixels, part of the filters     emitted
      places of the band's pixels in y and the residual; none for positions between rows
      for slices of channels that are copied at once:                               emitted, mostly all
        for 32 channels, plane, row, column of the band: copy or round to scratch   unless the item before did
        for 32 filters of the part:
          for 32 positions of the band:
            for entry (32 channels, tap): 2 x 2 tiles of sums += positions x filters
            behind the last slice: y[pixel] = activation(sums + bias + residual)

A plane holds the rows and columns of x that are a stride apart, so that neighbouring outputs read neighbouring
positions at any stride: tile registers are loaded from wherever a tap begins. Taps that lie further apart than a band's
rows or columns have planes of their own, without what lies between them. Positions follow one another beyond the ends
of rows; sums of positions between two rows are not written. Where scratch should not hold all slices at once (half of
the level 2 cache), sums are kept while the next ones are copied: the same float32 numbers, added in the same order.

A step's weights are read once for each 32 positions. Where they come from beyond the level 2 cache, those of the next
step are prefetched into it, some lines with every entry.

The copy costs a load, a store and, of float32, a rounding per 16 channels and pixel. In return the kernel reads blocks
of any number of lanes, rows of a matrix, and nothing outside the map. Tile registers load 32 channels of bfloat16 at
once; blocks of so many were not tried.
"""

from __future__ import annotations

import itertools

from cenote.codegen.bfloat import Bfloat
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.tiles import (
    ROW,
    ROWS,
    TILE_BYTES,
    Tiles,
    clear_square,
    load_square,
    multiply_square,
    store_square,
)
from cenote.codegen.values import BF16, F32, I16, I32, I64, U8, Pointer, Value
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.kernels.base import KernelSpec, float_pointers, numbers_named, pointers_to
from cenote.kernels.bfloat.memory import BfloatMemorySpec
from cenote.kernels.elementwise.activations import Activation, Destination, store_activated

CHANNELS = FILTERS = 32  # of an entry, and of a step
SIDE = 2 * ROWS  # positions of a step
HELD = SIDE * FILTERS * 4  # bytes of a step's sums
ENTRY_BYTES = 2 * TILE_BYTES  # of weights
PLACE_BYTES = 16  # of a position: where its pixel lies in y and in the residual
PLANE_FIELDS = 4  # first row and column in x, rows and columns beyond those of the outputs
NUMBERS = split_words(
    # Bands along height and width, output rows and columns of one, parts of the filters, groups of the convolution.
    "bands_h bands_w band_h band_w parts groups out_h out_w "
    # Slices of 32 channels of a group, and of those that are copied at once; the group's channels, planes, positions
    # from row to row, of a plane, of a band.
    "slices chunk channels planes pitch plane positions "
    # Taps, steps of a group and of a part, bytes of sums that are kept per position (0: none), blocks of y in a group,
    # columns of y where it is a matrix.
    "taps steps part_steps kept y_blocks columns stride_h stride_w "
    # Steps in elements.
    "x_image x_group x_block x_h x_w y_image y_group y_block y_h y_w r_image r_group r_block r_h r_w"
)


@dataclass(frozen=True)
class TilesSpec(KernelSpec):
    """Kernel of such convolutions. `tiles`: the way of `codegen.tiles`; `narrow`: x is float32, and is rounded;
    `ragged`: the last entry of a tap has fewer channels; `part`: the last step has fewer filters; `clip`: y is a plain
    matrix, whose columns past `columns` are not touched; `rows`: x is one, whose rows are copied one by one; `ahead`:
    cache lines of the next step's weights that are prefetched with an entry."""

    tiles: str
    narrow: bool
    ragged: bool
    part: bool
    clip: bool
    rows: bool
    residual: bool
    activation: Activation
    ahead: int

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (
            *pointers_to(F32 if self.narrow else BF16, "x"),
            *pointers_to(BF16, "weights"),
            *float_pointers(("bias", "residual", "y"), ("residual", "y")),
            *pointers_to(I32, "planes_table", "table"),
            *numbers_named(NUMBERS),
        )


@dataclass(frozen=True)
class TilesBfloatSpec(BfloatMemorySpec, TilesSpec):
    """The kernel, with a result and a residual of either type."""

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        with k.tiles("bf16", self.tiles) as registers:
            _Emitter(self, k, registers).run()
        return k


@dataclass
class _Band:
    """Part of the output that an item computes: its first row and column, and its rows and columns."""

    top: Value
    left: Value
    height: Value
    width: Value


@dataclass
class _Filters:
    """A block of a step's filters: its first filter in the step, its number in the group, its offsets in y and in the
    residual, and its bias; a mask of its columns where y is a matrix."""

    first: int
    block: Value
    y_offset: Value
    r_offset: Value | None
    bias: Value
    mask: Value | None


class _Emitter:
    def __init__(self, spec: TilesBfloatSpec, k: Kernel, registers: Tiles) -> None:
        self.spec, self.k, self.registers = spec, k, registers
        self.lanes = k.target.lanes()
        self.bfloat = Bfloat(k, spec.way, self.lanes)
        self.held, positions, kept = k.scratch, k.number("positions"), k.number("kept")
        held = k.select(kept.equals(0), k.integer(HELD), kept * positions * k.number("part_steps"))
        places = k.scratch + held
        self.y_places = places.cast(I64)
        self.r_places = self.y_places + positions
        self.planes = places + positions * PLACE_BYTES

    def run(self) -> None:
        k, n = self.k, self.k.number
        for item in k.range(k.begin, k.end):
            part, rest = item % n("parts"), item // n("parts")
            across, rest = rest % n("bands_w"), rest // n("bands_w")
            down, rest = rest % n("bands_h"), rest // n("bands_h")
            group, image = rest % n("groups"), rest // n("groups")
            top, left = down * n("band_h"), across * n("band_w")
            height = k.min_drop_nan(n("band_h"), n("out_h") - top)
            width = k.min_drop_nan(n("band_w"), n("out_w") - left)
            band = _Band(top, left, height, width)
            # Parts of a band follow one another.
            is_new = item.equals(k.begin) | part.equals(0)
            with k.when(is_new):
                self.place("y", self.y_places, image, group, band)
                if self.spec.residual:
                    self.place("r", self.r_places, image, group, band)
            first = part * n("part_steps")
            last = k.min_drop_nan(first + n("part_steps"), n("steps"))
            positions = ((height - 1) * n("pitch") + width + (SIDE - 1)) // SIDE * SIDE
            for begin in k.range(0, n("slices"), n("chunk")):
                end = k.min_drop_nan(begin + n("chunk"), n("slices"))
                with k.when(is_new | ~n("kept").equals(0)):
                    self.copy(image, group, band, begin, end)
                for step in k.range(first, last):
                    kept = self.held + (step - first) * n("positions") * n("kept")
                    for position in k.range(0, positions, SIDE):
                        held = kept + position * n("kept")
                        self.multiply(position, group * n("steps") + step, held, begin, end)
                        with k.when(end.equals(n("slices"))):
                            self.finish(position, group, step, held)

    # ---- positions ----------------------------------------------------------------------------------------------

    def copy(self, image: Value, group: Value, band: _Band, begin: Value, end: Value) -> None:
        """Fill the planes with what the band's windows reach of some slices."""
        k, n = self.k, self.k.number
        x_h, x_w = n("x_h") * n("stride_h"), n("x_w") * n("stride_w")
        corner = image * n("x_image") + group * n("x_group") + band.top * x_h + band.left * x_w
        if self.spec.rows:
            for w in k.range(0, band.width):
                for slice_ in k.range(begin, end):
                    to = self.planes + ((slice_ - begin) * n("plane") + w) * ROW
                    self._copy(corner + w * x_w, self._blocks(slice_), to)
            return
        for slice_ in k.range(begin, end):
            blocks = self._blocks(slice_)
            for plane in k.range(0, n("planes")):
                fields = k.pointer("planes_table") + plane * PLANE_FIELDS
                row, column, rows, columns = (fields.load(at).to(I64) for at in range(PLANE_FIELDS))
                start = corner + row * n("x_h") + column * n("x_w")
                to = self.planes + ((slice_ - begin) * n("planes") + plane) * n("plane") * ROW
                for h in k.range(0, band.height + rows):
                    line = to + h * n("pitch") * ROW
                    for w in k.range(0, band.width + columns):
                        self._copy(start + h * x_h + w * x_w, blocks, line + w * ROW)

    def _copy(self, pixel: Value, blocks: list[tuple[Value, Value | None]], to: Pointer) -> None:
        """Copy 32 channels of a pixel."""
        for part, (offset, mask) in enumerate(blocks):
            channels = self._channels(self.k.pointer("x") + (pixel + offset), mask)
            to.cast(I16).store(channels, part * self.lanes)

    def _blocks(self, slice_: Value) -> list[tuple[Value, Value | None]]:
        return [self._block(slice_, part) for part in range(CHANNELS // self.lanes)]

    def _block(self, slice_: Value, part: int) -> tuple[Value, Value | None]:
        """Return the offset of a block of x (of the first one, for those that there are not), and a mask of its
        channels."""
        k, n = self.k, self.k.number
        block = slice_ * (CHANNELS // self.lanes) + part
        if not self.spec.ragged:
            return block * n("x_block"), None
        left = n("channels") - block * self.lanes
        return k.select(left > 0, block * n("x_block"), k.integer(0)), k.tail_mask(left, self.lanes)

    def _channels(self, place: Pointer, mask: Value | None) -> Value:
        """Load a block of channels as bfloat16, with zeros for those that there are not."""
        if self.spec.narrow:
            return self.bfloat.narrowed(place.load(0, self.lanes, mask)).bits(I16)
        loaded = place.cast(I16).load(0, self.lanes)
        return loaded if mask is None else self.k.select(mask, loaded, self.k.constant(I16, 0, self.lanes))

    def place(self, name: str, places: Pointer, image: Value, group: Value, band: _Band) -> None:
        """Write where the pixels of all positions lie, -1 for positions without one."""
        k, n = self.k, self.k.number
        corner = image * n(f"{name}_image") + group * n(f"{name}_group")
        for position in k.range(0, n("positions")):
            places.store(k.integer(-1), position)
        for h in k.range(0, band.height):
            row = corner + (band.top + h) * n(f"{name}_h") + band.left * n(f"{name}_w")
            for w in k.range(0, band.width):
                places.store(row + w * n(f"{name}_w"), h * n("pitch") + w)

    # ---- sums ---------------------------------------------------------------------------------------------------

    def multiply(self, position: Value, step: Value, held: Pointer, begin: Value, end: Value) -> None:
        """Store the sums of 32 positions for 32 filters, up to the slice `end`."""
        k, t, n = self.k, self.registers, self.k.number
        step_bytes = n("slices") * n("taps") * ENTRY_BYTES
        weights = k.pointer("weights").cast(U8) + step * step_bytes
        rows = self.planes + (position - begin * n("planes") * n("plane")) * ROW
        is_first = begin.equals(0)
        with k.when(is_first):
            clear_square(t)
        with k.unless(is_first):
            load_square(t, held)
        ahead = self.spec.ahead
        asked = step_bytes + position // SIDE * (
            ahead * ROW
        )  # from an entry to its first line that is prefetched
        for entry in k.range(begin * n("taps"), end * n("taps")):
            a = rows + k.pointer("table").load(entry).to(I64)
            b = weights + entry * ENTRY_BYTES
            lines = iter(range(ahead))
            for _ in multiply_square(t, a, b):
                for line in itertools.islice(lines, -(-ahead // 4)):
                    k.prefetch(b, asked + line * ROW, level=2)
        store_square(t, held)

    def finish(self, position: Value, group: Value, step: Value, held: Pointer) -> None:
        """Write the activations of sums, bias and residual, position by position. Filters of a last step that there
        are not are left out block by block."""
        blocks = [self._filters(group, step, part) for part in range(FILTERS // self.lanes)]
        if not self.spec.part:
            self._write(position, held, blocks)
            return
        for filters in blocks:
            with self.k.when(filters.block < self.k.number("y_blocks")):
                self._write(position, held, [filters])

    def _filters(self, group: Value, step: Value, part: int) -> _Filters:
        k, n, spec, lanes = self.k, self.k.number, self.spec, self.lanes
        block = step * (FILTERS // lanes) + part
        bias = k.pointer("bias") + (group * n("steps") + step) * FILTERS
        return _Filters(
            part * lanes,
            block,
            y_offset=block * n("y_block"),
            r_offset=block * n("r_block") if spec.residual else None,
            bias=bias.load(part * lanes, lanes),
            mask=k.tail_mask(n("columns") - block * lanes, lanes) if spec.clip else None,
        )

    def _write(self, position: Value, held: Pointer, blocks: list[_Filters]) -> None:
        """Write the activations of some blocks of filters."""
        k, lanes = self.k, self.lanes
        for at in k.range(0, SIDE):
            y_place = self.y_places.load(position + at)
            with k.when(y_place >= 0):
                sums = held.cast(F32) + at * FILTERS
                for filters in blocks:
                    value = sums.load(filters.first, lanes) + filters.bias
                    if filters.r_offset is not None:
                        place = k.pointer("residual") + (self.r_places.load(position + at) + filters.r_offset)
                        value = value + place.load(0, lanes, filters.mask)
                    place = k.pointer("y") + (y_place + filters.y_offset)
                    store_activated(k, self.spec.activation, [Destination(place, filters.mask)], [value])
