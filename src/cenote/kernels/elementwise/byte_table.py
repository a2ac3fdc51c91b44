"""A function of single bytes as a table of its 256 values.

    for item in begin .. end:             emitted; an item is a piece of one slab of rows
        for row in the piece:             emitted
            vectors of the row:           emitted; then 16 bytes at a time, then byte by byte
                load, look up, store

A row is bytes that lie side by side in x and in y, whatever the layout: lanes of a block, pixels, channels. The result
may take the memory of x.
"""

from __future__ import annotations

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.byte_tables import ByteLookup
from cenote.codegen.values import I64, U8, Pointer, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import maximum, minimum
from cenote.core.target import LOADS, Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.strided_axes import axis_names, axis_pointers, axis_words, joined_axes, position_count

PIECE = 1 << 16  # bytes of one item: some microseconds of work
_FEW = 16  # bytes of a step behind the last whole vector: a pixel of a block
_SIDES = ["x", "y"]


@dataclass(frozen=True)
class ByteTableSpec(KernelSpec):
    """Kernel of a table. `way` is that of `codegen.byte_tables`, `outer` counts the axes outside of the rows."""

    way: str
    outer: int

    @property
    def words(self) -> tuple[Parameter, ...]:
        sizes = ["columns", "column_step", "rows", "row_step", "row_x", "row_y"]
        return (
            *pointers_to(U8, "x", "y", may_alias=True),
            *pointers_to(U8, "table"),
            *numbers_named([*sizes, *axis_names(self.outer, _SIDES)]),
        )

    def emit(self, target: Target) -> Kernel:
        k, lanes = self.kernel(target), 1 if self.way == LOADS else target.vector_bytes
        table = ByteLookup(k, self.way, k.pointer("table"), lanes)
        column_pieces, row_pieces = _pieces(k, "column"), _pieces(k, "row")
        for item in k.range(k.begin, k.end):
            begin, end = _span(k, item % column_pieces, "column")
            rest = item // column_pieces
            first, last = _span(k, rest % row_pieces, "row")
            starts = axis_pointers(k, self.outer, _SIDES, rest // row_pieces)
            for row in k.range(first, last):
                x, y = (
                    start + row * k.number(f"row_{side}") for side, start in zip(_SIDES, starts, strict=True)
                )
                _row(k, table, x + begin, y + begin, end - begin)
        return k


def _pieces(k: Kernel, axis: str) -> Value:
    """Number of pieces of an axis."""
    step = k.number(f"{axis}_step")
    return (k.number(f"{axis}s") + step - 1) // step


def _span(k: Kernel, piece: Value, axis: str) -> tuple[Value, Value]:
    """Begin and end of a piece of an axis."""
    begin = piece * k.number(f"{axis}_step")
    return begin, k.minimum(begin + k.number(f"{axis}_step"), k.number(f"{axis}s"))


def _row(k: Kernel, table: ByteLookup, x: Pointer, y: Pointer, count: Value) -> None:
    """Look up `count` bytes that lie side by side."""
    at: Value = k.integer(0)
    for width in (table.lanes, _FEW) if table.lanes > _FEW else ():
        end = count // width * width
        for place in k.range(at, end, width):
            loaded = x.load(place, width)
            wide = k.shuffle(loaded, loaded, [*range(width), *[-1] * (table.lanes - width)])
            found = table.chosen(wide)
            y.store(k.shuffle(found, found, range(width)), place)
        at = end
    for place in k.range(at, count):
        y.store(k.pointer("table").load(x.load(place).to(I64)), place)


def byte_table_call(x: View, table: Argument, y: View, target: Target) -> Call:
    """Return the launch that looks all bytes of x up. x and y have one shape and one layout, up to halos; the table has
    256 bytes."""
    unit = y.layout.lanes if y.layout.is_blocked else 1
    extents = (y.shape[0], y.blocks, *y.shape[2:]) if unit > 1 else y.shape
    axes = joined_axes(extents, [x.strides, y.strides])
    dense = bool(axes) and axes[-1][1] == [unit, unit]
    columns = (axes.pop()[0] if dense else 1) * unit
    rows, (row_x, row_y) = axes.pop() if axes else (1, [0, 0])
    column_step = minimum(maximum(columns, 1), PIECE)
    row_step = maximum(1, minimum(rows, PIECE // column_step))
    pieces = -(-columns // column_step) * -(-rows // row_step) * position_count(axes)
    words: dict[str, Argument] = {"x": x, "y": y, "table": table, "columns": columns, "rows": rows}
    words |= {"column_step": column_step, "row_step": row_step, "row_x": row_x, "row_y": row_y}
    spec = ByteTableSpec(target.lookups, len(axes))
    return Call.named(spec, words | axis_words(axes, _SIDES), pieces if y.type.size else 0)
