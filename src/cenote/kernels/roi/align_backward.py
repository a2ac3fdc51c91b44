"""Gradient of RoiAlign's means: each bin's gradient spreads over the pixels that it sampled.

    for item in begin .. end:                         some of the channels, of all images
        y = 0
        for box, tables of both axes:                 as in roi_align
            for channel of the item, row of bins:
                row[columns of a bin] += weight * g   one by one: bins share pixels
                for row of pixels:  y += weight * row

A plane has one owner, and boxes come in their order, so that sums are the same bits for any number of threads. The
tables are worked out again by every item, which costs little beside its channels.
"""

from __future__ import annotations

from collections.abc import Sequence

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import I64, Value
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.kernels.base import Argument, Call, View
from cenote.kernels.plane_items import named, vectors
from cenote.kernels.roi.sampling import BinTable, BoxSpec, RegionBox, table_capacity
from cenote.kernels.row_lanes import fitting

WORDS = split_words(
    "images boxes units part parts rows columns ratio capacity y_image y_unit g_roi g_unit g_row",
    "bins_y bins_x",
)


@dataclass(frozen=True)
class RoiAlignBackward(BoxSpec):
    """Kernel with `lanes` along a row of the map."""

    lanes: int

    @property
    def words(self) -> tuple[Parameter, ...]:
        return self.words_with(("y", "g", "rois"), WORDS)

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        n = k.number
        for item in k.range(k.begin, k.end):
            first = item * n("part")
            last = k.minimum(first + n("part"), n("units"))
            self._clear(k, first, last)
            for number in k.range(0, n("boxes")):
                box = RegionBox(k, self, number * n("parts") + item)
                with k.when(box.wrong.equals(0)):
                    tables = [box.table(axis) for axis in range(2)]
                    for unit in k.range(first, last):
                        self._spread(k, box, tables, unit)
        return k

    def _clear(self, k: Kernel, first: Value, last: Value) -> None:
        n = k.number
        for image in k.range(0, n("images")):
            planes = k.pointer("y") + image * n("y_image")
            for unit in k.range(first, last):
                plane = planes + unit * n("y_unit")
                for begin, end, lanes in vectors(k, n("rows") * n("columns"), self.lanes):
                    for at in k.range(begin, end, lanes):
                        plane.store(k.constant(self.real, 0.0, lanes), at)

    def _spread(self, k: Kernel, box: RegionBox, tables: Sequence[BinTable], unit: Value) -> None:
        """Spread the gradient of one plane of one box."""
        n = k.number
        rows, columns = tables
        y = k.pointer("y") + (box.image * n("y_image") + unit * n("y_unit"))
        g = k.pointer("g") + (box.number * n("g_roi") + unit * n("g_unit"))
        row = (k.scratch.cast(I64) + n("capacity") * 11).cast(self.real)
        begin = columns.first & -self.lanes
        whole = n("columns") & -self.lanes
        pieces = [
            (begin, k.minimum(columns.last, whole), self.lanes),
            (k.maximum(begin, whole), columns.last, 1),
        ]
        for bin_y in k.range(0, n("bins_y")):
            for start, end, lanes in pieces:
                for at in k.range(start, end, lanes):
                    row.store(k.constant(self.real, 0.0, lanes), at)
            for bin_x in k.range(0, n("bins_x")):
                value = g.load(bin_y * n("g_row") + bin_x)
                for entry in k.range(*columns.entries(bin_x)):
                    pixel = columns.pixels.load(entry)
                    row.store(k.fma(value, columns.weights.load(entry), row.load(pixel)), pixel)
            for entry in k.range(*rows.entries(bin_y)):
                weight, line = rows.weights.load(entry), y + rows.pixels.load(entry) * n("columns")
                for start, end, lanes in pieces:
                    for at in k.range(start, end, lanes):
                        line.store(k.fma(row.load(at, lanes), weight, line.load(at, lanes)), at)


def align_backward_call(
    g: View,
    rois: View,
    batches: View,
    y: View,
    found: View,
    target: Target,
    *,
    scale: float,
    ratio: int,
    aligned: bool,
    part: int,
) -> Call:
    """Return the launch for plain views of float32 or float64; items hold `part` planes of every image."""
    images, units, rows, columns = y.shape
    bins = (g.shape[2], g.shape[3])
    spec = RoiAlignBackward(
        y.type.dtype, batches.type.dtype, aligned, False, False, fitting(target.lanes(y.type.dtype), columns)
    )
    parts = -(-units // part)
    capacity = table_capacity(bins, ratio, rows, columns)
    words: dict[str, Argument] = {
        "y": y,
        "g": g,
        "rois": rois,
        "batches": batches,
        "found": found,
        "images": images,
        "boxes": g.shape[0],
        "units": units,
        "part": part,
        "parts": parts,
        "rows": rows,
        "columns": columns,
        "ratio": ratio,
        "capacity": capacity,
        **named(("y_image", "y_unit"), y.strides[:2]),
        **named(("g_roi", "g_unit", "g_row"), g.strides[:3]),
        "bins_y": bins[0],
        "bins_x": bins[1],
        "scale": scale,
    }
    return Call.named(spec, words, parts, 1, capacity * 88 + columns * 8 + 256)
