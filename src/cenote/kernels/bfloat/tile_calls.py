"""Calls of a convolution on tile registers: bands, planes, the table of taps, packed weights, and an estimate."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from cenote.codegen.bfloat import rounded
from cenote.codegen.tiles import ROW, ROWS, in_words
from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import cached_property, dataclass
from cenote.core.sizes import is_size, maximum, plain
from cenote.core.target import Target
from cenote.core.types import BFLOAT16, Array
from cenote.kernels.base import Argument, Call, Packed, View
from cenote.kernels.bfloat.tiles import (
    CHANNELS,
    ENTRY_BYTES,
    FILTERS,
    HELD,
    PLACE_BYTES,
    PLANE_FIELDS,
    SIDE,
    TilesBfloatSpec,
)
from cenote.kernels.conv.direct_calls import PIECE, DirectProblem
from cenote.kernels.cost_model import LAUNCH, moved_seconds, tile_seconds, weight_seconds
from cenote.kernels.layout.reorder import deep_strides

_FAR_WEIGHTS = 8  # the level 2 cache keeps this part of it in weights while maps pass
_ITEMS = 8  # pieces that a layer is cut into at least, where they are worth it
_SMALL = 5e-6  # seconds of the smallest pieces


def suits_tiles(shape: ConvShape) -> bool:
    """Whether the kernel serves a convolution: over one or two axes."""
    return shape.rank < 3 or (shape.window[0], shape.out[0], shape.strides[0], shape.pads[0]) == (
        1,
        1,
        1,
        (0, 0),
    )


@dataclass(frozen=True)
class TileCut:
    """Division of a convolution over three axes, of which the first is 1, into bands, planes and entries.

    Bands are of fixed sizes, also where the map's are open. `apart`: whether taps in different rows, and in different
    columns, have planes of their own."""

    shape: ConvShape
    l2_bytes: int
    apart: tuple[bool, bool] = (False, False)

    @staticmethod
    def of(shape: ConvShape, l2_bytes: int) -> TileCut:
        """The division that is estimated to take the least time, among those whose scratch is bounded. Taps that are
        one apart share planes."""
        either = [(False, True)[: 1 + (step > 1)] for step in shape.dilations[1:]]
        found = [TileCut(shape, l2_bytes, (down, across)) for down, across in itertools.product(*either)]
        return min(found, key=lambda cut: (cut.slice_bytes > cut.room, plain(cut.seconds(0, 0))))

    @cached_property
    def planes(self) -> list[tuple[int, int]]:
        """First row and column of the planes, those that taps lie in."""
        return sorted({(self._split(h, 0)[0], self._split(w, 1)[0]) for h, w in self.taps})

    def _split(self, tap: int, axis: int) -> tuple[int, int]:
        """The first row (or column) of a tap's plane, and the tap's row in it."""
        stride = self.shape.strides[1 + axis]
        return (tap, 0) if self.apart[axis] else (tap % stride, tap // stride)

    @cached_property
    def places(self) -> list[tuple[tuple[int, int], int, int]]:
        """The plane, and the row and column in it, of each tap."""
        split = [(self._split(h, 0), self._split(w, 1)) for h, w in self.taps]
        return [((rows[0], columns[0]), rows[1], columns[1]) for rows, columns in split]

    @cached_property
    def taps(self) -> list[tuple[int, int]]:
        """Row and column of the taps in x, from the window's first."""
        _, down, across = self.shape.dilations
        _, height, width = self.shape.window
        return [(h * down, w * across) for h in range(height) for w in range(width)]

    def beyond(self, plane: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of a plane that taps reach beyond those of the outputs."""
        inside = [(h, w) for each, h, w in self.places if each == plane]
        return max(h for h, _ in inside), max(w for _, w in inside)

    @cached_property
    def margin(self) -> tuple[int, int]:
        """The most rows and columns that a plane has beyond those of the outputs."""
        beyond = [self.beyond(plane) for plane in self.planes]
        return max(h for h, _ in beyond), max(w for _, w in beyond)

    @property
    def slices(self) -> int:
        """Slices of 32 channels of a group."""
        return -(-self.shape.group_channels // CHANNELS)

    @property
    def entries(self) -> int:
        return self.slices * len(self.taps)

    @property
    def steps(self) -> int:
        """Steps of 32 filters of a group."""
        return -(-self.shape.group_filters // FILTERS)

    @property
    def weight_bytes(self) -> int:
        return self.shape.groups * self.steps * self.entries * ENTRY_BYTES

    @property
    def has_far_weights(self) -> bool:
        """Whether weights come from beyond the level 2 cache each time: they are prefetched, and bands are large."""
        return self.weight_bytes > self.l2_bytes // _FAR_WEIGHTS

    @property
    def ahead(self) -> int:
        """Cache lines of the next step's weights that are prefetched with an entry and 32 positions, so that all are
        asked for once or, beyond 32 times as many positions, more often."""
        return -(-ENTRY_BYTES // ROW // (self.positions // SIDE)) if self.has_far_weights else 0

    @cached_property
    def band(self) -> tuple[int, int]:
        """Output rows and columns of a band: so many that its planes stay in a quarter of the level 2 cache, and that
        it takes no longer than a piece of work should, unless far weights would be read more often: filters are shared
        out then."""
        _, out_h, out_w = self.shape.out
        positions = self.l2_bytes // 4 // (self.slices * len(self.planes) * ROW)
        operations = 2 * self.entries * CHANNELS * self.steps * FILTERS  # of a position
        if not self.has_far_weights:
            each = _seconds(operations)
            piece = min(PIECE, max(_SMALL, each * plain(out_h * out_w) / _ITEMS))
            positions = min(positions, int(piece / each))
        positions = max(SIDE, positions)
        pitch = self._pitch(out_w)
        if is_size(out_w) or positions < pitch:
            width = positions // SIDE * SIDE
            if not is_size(out_w):
                width = min(out_w, -(-out_w // -(-out_w // width) // SIDE) * SIDE)
            return 1, width
        rows = positions // pitch
        if is_size(out_h):
            return rows, out_w
        rows = min(rows, out_h)
        # The fewest positions, whole steps in each band; of equals the most rows.
        return min(range(rows, rows // 2, -1), key=lambda each: self._positions(each, out_w, pitch)), out_w

    def _positions(self, rows: int, width: int, pitch: int) -> int:
        """Positions that bands of so many rows execute, to their last pixels, the last band of perhaps fewer rows."""
        whole, rest = self.shape.out[1] // rows, self.shape.out[1] % rows
        most, last = ((each - 1) * pitch + width for each in (rows, rest))
        return whole * _whole_steps(most) + _whole_steps(maximum(0, last))

    @cached_property
    def pitch(self) -> int:
        """Positions from row to row."""
        return self._pitch(self.band[1])

    def _pitch(self, width: int) -> int:
        """Positions from row to row of a band of so many columns. Zeros before a row serve behind the row above it,
        where all of a row is copied."""
        more, size, (begin, _) = self.margin[1], self.shape.size[2], self.shape.pads[2]
        out_w = self.shape.out[2]
        if is_size(size) or is_size(out_w) or width < out_w or self.shape.strides[2] > 1:
            return width + more
        behind = width + more - begin - size
        # A window within the padding has outputs for columns that nothing else reads.
        return width + more - max(0, min(begin, behind, more))

    @property
    def positions(self) -> int:
        """Positions of a band, whole steps."""
        rows, width = self.band
        return _whole_steps((rows - 1) * self.pitch + width)

    @property
    def plane(self) -> int:
        """Positions of a plane, with those that its last tiles reach."""
        return self.positions + self.margin[0] * self.pitch + self.margin[1]

    @property
    def slice_bytes(self) -> int:
        """Bytes of the planes of 32 channels."""
        return len(self.planes) * self.plane * ROW

    @property
    def plane_bytes(self) -> int:
        """Bytes of a band's planes."""
        return self.slices * self.slice_bytes

    @property
    def room(self) -> int:
        """Bytes that scratch has for planes."""
        return self.l2_bytes // 2

    @property
    def chunk(self) -> int:
        """Slices that are copied at once."""
        return max(1, min(self.slices, self.room // self.slice_bytes))

    @property
    def kept(self) -> int:
        """Bytes of sums per position that are kept while slices are copied."""
        return 4 * FILTERS if self.chunk < self.slices else 0

    def plane_table(self) -> Array:
        rows = [(*plane, *self.beyond(plane)) for plane in self.planes]
        return np.array(rows, np.int32).reshape(len(rows), PLANE_FIELDS)

    def table(self) -> Array:
        """Bytes from the first plane to where the entries begin."""
        numbers = {plane: number for number, plane in enumerate(self.planes)}
        taps = [numbers[plane] * self.plane + h * self.pitch + w for plane, h, w in self.places]
        every = np.add.outer(np.arange(self.slices) * (len(self.planes) * self.plane), taps)
        return (every.ravel() * ROW).astype(np.int32)

    @property
    def scratch(self) -> int:
        """Bytes of scratch memory."""
        held = self.kept * self.positions * self.part_steps or HELD
        return held + PLACE_BYTES * self.positions + self.chunk * self.slice_bytes

    def bands(self) -> tuple[int, int]:
        """Bands along height and width."""
        return -(-self.shape.out[1] // self.band[0]), -(-self.shape.out[2] // self.band[1])

    @property
    def operations(self) -> int:
        """Operations executed, those of positions without a pixel too."""
        across = self.bands()[1] * self._positions(*self.band, self.pitch)
        every = self.shape.n * self.shape.groups * across * self.steps * FILTERS
        return every * self.entries * 2 * CHANNELS

    @cached_property
    def pieces(self) -> tuple[int, int]:
        """Pieces of work, and how many of them share a band's filters: more than one where bands are few."""
        down, across = self.bands()
        bands, parts = self.shape.n * self.shape.groups * down * across, 1
        if not is_size(bands) and bands < _ITEMS:
            seconds = _seconds(plain(self.operations)) / max(1, bands)
            parts = max(1, min(self.steps, _ITEMS // max(1, bands), int(seconds / _SMALL)))
        if self.kept:
            # Sums that are kept take no more than half as much as planes.
            most = max(1, self.room // 2 // (self.kept * self.positions))
            parts = max(parts, -(-self.steps // most))
        parts = -(-self.steps // -(-self.steps // parts))
        return bands * parts, parts

    @property
    def part_steps(self) -> int:
        """Steps of a part."""
        return -(-self.steps // self.pieces[1])

    def seconds(self, x_bytes: int, y_bytes: int) -> float:
        """Estimate: products or, where it takes longer, weights from memory, and beside them x, its copies and y.
        Windows of large dilations make each band copy many rows."""
        compute = maximum(_seconds(self.operations), weight_seconds(self.weight_bytes))
        return LAUNCH + compute + moved_seconds(x_bytes + self.pieces[0] * self.plane_bytes + y_bytes)


def _seconds(operations: int) -> float:
    """Seconds of operations on tiles, each of whose products needs one load."""
    products = operations / (2 * ROWS * ROWS * CHANNELS)
    return tile_seconds(products, products)


def _whole_steps(positions: int) -> int:
    return -(-positions // SIDE) * SIDE


def tile_calls(
    problem: DirectProblem,
    ways: tuple[str, str],
    x: View,
    y: View,
    residual: View | None,
    target: Target,
    columns: int = 0,
) -> Iterator[Call]:
    """Yield the call of one convolution; `ways`: those of `codegen.bfloat` and of `codegen.tiles`. x lies in blocks of
    bfloat16, or of float32, which is rounded; y and the residual in blocks of either type. `columns`: of y where it is
    a plain matrix, with nothing behind a row's last filter."""
    shape = problem.shape
    if not shape.n:
        return
    cut = TileCut.of(shape, target.l2_bytes)
    kept = {"y": y, "residual": residual}
    lanes = y.layout.lanes
    spec = TilesBfloatSpec(
        tiles=ways[1],
        narrow=x.type.dtype != BFLOAT16,
        ragged=shape.group_channels % CHANNELS > 0,
        part=-(-shape.group_filters // lanes) * lanes < cut.steps * FILTERS,
        clip=columns % lanes > 0,
        rows=columns > 0,
        residual=residual is not None,
        activation=problem.activation,
        ahead=cut.ahead,
        kept=tuple(name for name, view in kept.items() if view and view.type.dtype == BFLOAT16),
        way=ways[0],
    )
    size = (shape.groups * cut.steps, cut.entries * ENTRY_BYTES // 2)
    words: dict[str, Argument] = {
        "x": x.at(-_padding(shape, x)),
        "weights": Packed(size, lambda: packed(problem.weights, cut), BFLOAT16),
        "bias": _bias(problem, cut),
        "residual": residual,
        "y": y,
        "planes_table": cut.plane_table(),
        "table": cut.table(),
    }
    words |= _numbers(cut) | {"y_blocks": -(-shape.group_filters // lanes), "columns": columns}
    for name, view in (("x", x), ("y", y), ("r", residual or y)):
        words |= _steps(name, view, shape.group_channels if name == "x" else shape.group_filters)
    yield Call.named(spec, words, cut.pieces[0], 1, cut.scratch, cut.operations)


def _numbers(cut: TileCut) -> dict[str, int]:
    shape, (down, across), (height, width) = cut.shape, cut.bands(), cut.band
    return {
        "bands_h": down,
        "bands_w": across,
        "band_h": height,
        "band_w": width,
        "parts": cut.pieces[1],
        "part_steps": cut.part_steps,
        "groups": shape.groups,
        "out_h": shape.out[1],
        "out_w": shape.out[2],
        "slices": cut.slices,
        "chunk": cut.chunk,
        "taps": len(cut.taps),
        "kept": cut.kept,
        "channels": shape.group_channels,
        "planes": len(cut.planes),
        "pitch": cut.pitch,
        "plane": cut.plane,
        "positions": cut.positions,
        "steps": cut.steps,
        "stride_h": shape.strides[1],
        "stride_w": shape.strides[2],
    }


def rows_as_channels(problem: DirectProblem, unit: int) -> DirectProblem:
    """Return the convolution of few channels, in blocks of `unit`, as one whose channels are a row of the window, which
    lies in one piece: 7 pixels of 4 channels fill an entry, in place of seven. Its pixels are `unit` elements apart."""
    shape, (filters, channels, _, height, width) = problem.shape, problem.weights.shape
    whole = np.zeros((filters, width, unit, height), np.float32)
    whole[:, :, :channels] = problem.weights[:, :, 0].transpose(0, 3, 1, 2)
    rows = replace(shape, channels=width * unit, window=(1, height, 1))
    return replace(problem, shape=rows, weights=whole.reshape(filters, -1, 1, height, 1))


def _padding(shape: ConvShape, x: View) -> int:
    """Elements from the first that a window reads to the map's first."""
    *_, h, w = deep_strides(x)
    return shape.pads[1][0] * h + shape.pads[2][0] * w


def _steps(name: str, view: View, channels: int) -> dict[str, int]:
    n, block, _, h, w = deep_strides(view)
    group = -(-channels // view.layout.lanes) * block
    return {
        f"{name}_image": n,
        f"{name}_group": group,
        f"{name}_block": block,
        f"{name}_h": h,
        f"{name}_w": w,
    }


def packed(weights: Array, cut: TileCut) -> Array:
    """Weights (filters, channels of a group, 1, height, width) as tiles: (groups and steps, elements of the entries,
    each two tiles of 16 filters)."""
    groups, (_, channels, _, *window) = cut.shape.groups, weights.shape
    filters = weights.shape[0] // groups
    whole = np.zeros((groups, cut.steps * FILTERS, cut.slices * CHANNELS, *window), np.float32)
    whole[:, :filters, :channels] = weights.reshape(groups, filters, channels, *window)
    tiles = whole.reshape(groups, cut.steps, 2, ROWS, cut.slices, CHANNELS, *window)
    ordered = rounded(tiles.transpose(0, 1, 4, 6, 7, 2, 5, 3))
    return in_words(ordered).reshape(groups * cut.steps, -1)


def _bias(problem: DirectProblem, cut: TileCut) -> Array:
    bias = np.zeros((cut.shape.groups, cut.steps * FILTERS), np.float32)
    if problem.bias is not None:
        bias[:, : cut.shape.group_filters] = problem.bias.reshape(cut.shape.groups, -1)
    return bias
