"""Elements by index along one axis: GatherElements and ScatterElements; and slices by index: ScatterND.

gather_elements, an item is some rows of the output:      scatter, an item owns the places that its updates may hit:
    for row:                             emitted              for number along the axis:           emitted
        for column of the row:           emitted                  for column of the block:         emitted
            y = x[index, own place]                                   y[index, own place] = (+=, ...) update

A place of a scatter belongs to one item, which goes through the updates in row-major order: of equal indices the last
value stays, sums run in a fixed order, and the result is the same bits for any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, I64, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import maximum, minimum
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.selection.gather import steps_of
from cenote.kernels.selection.indices import IndexRule, Noted, bits_of, index_type, place_of
from cenote.kernels.strided_axes import (
    axis_names,
    axis_offsets,
    axis_pointers,
    axis_words,
    joined_axes,
    position_count,
)

ITEM = 4096  # approximate number of elements of an item


@dataclass(frozen=True)
class GatherElementsSpec(KernelSpec):
    """Kernel of a gather with `outer` axes outside of the rows."""

    dtype: np.dtype[Any]
    index: np.dtype[Any]
    rule: IndexRule
    outer: int

    @property
    def words(self) -> tuple[Parameter, ...]:
        numbers = ["rows", "item_rows", "columns", "extent", "axis_step", "column_step"]
        return (
            *pointers_to(bits_of(self.dtype), "y", "x"),
            *pointers_to(index_type(self.index), "index"),
            *pointers_to(I64, "found"),
            *numbers_named([*numbers, *axis_names(self.outer, ("x",))]),
        )

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        columns, extent = k.number("columns"), k.number("extent")
        for item in k.range(k.begin, k.end):
            noted = Noted(k, item, self.rule)
            first = item * k.number("item_rows")
            last = k.minimum(first + k.number("item_rows"), k.number("rows"))
            for row in k.range(first, last):
                (x,) = axis_pointers(k, self.outer, ("x",), row)
                for column in k.range(0, columns):
                    number = row * columns + column
                    index = k.pointer("index").load(number).to(I64)
                    place, valid = self.rule.place(k, index, extent)
                    noted.note(valid, number, index, extent)
                    y = k.pointer("y") + number
                    with k.when(valid):
                        y.store(x.load(place * k.number("axis_step") + column * k.number("column_step")))
                    with k.unless(valid):
                        y.store(k.constant(y.element, 0))
        return k


def item_rows(shape: Sequence[int]) -> int:
    """Number of rows of an item of gather_elements, for indices of that shape."""
    return maximum(1, ITEM // maximum(1, shape[-1]))


def gather_elements_call(x: View, index: View, y: View, found: View, axis: int, rule: IndexRule) -> Call:
    """Return the launch for plain views of one rank, at least 1."""
    shape, last = index.shape, len(index.shape) - 1
    strides = [0 if number == axis else stride for number, stride in enumerate(x.strides)]
    axes = joined_axes(shape[:-1], [strides[:-1]])
    spec = GatherElementsSpec(x.type.dtype, index.type.dtype, rule, len(axes))
    rows, step = position_count(axes), item_rows(shape)
    words: dict[str, Argument] = {
        "y": y,
        "x": x,
        "index": index,
        "found": found,
        "rows": rows,
        "item_rows": step,
        "columns": shape[-1],
        "extent": x.shape[axis],
        "axis_step": x.strides[axis],
        "column_step": int(axis != last),
    }
    return Call.named(spec, words | axis_words(axes, ("x",)), -(-rows // step))


def combined(k: Kernel, reduction: str, old: Value, new: Value) -> Value:
    """Combine a place's old and new value. 16-bit floats are combined in float32 and rounded each time."""
    if reduction == "none":
        return new
    type = old.type
    if type.is_float and type.bits < 32:
        return combined(k, reduction, old.to(F32), new.to(F32)).to(type)
    if reduction in ("max", "min"):
        return k.maximum(old, new) if reduction == "max" else k.minimum(old, new)
    return old + new if reduction == "add" else old * new


@dataclass(frozen=True)
class _Scatter(KernelSpec):
    dtype: np.dtype[Any]
    index: np.dtype[Any]
    rule: IndexRule
    reduction: str

    @property
    def element(self) -> Scalar:
        as_bits = self.reduction == "none" or self.dtype == np.bool_
        return bits_of(self.dtype) if as_bits else Scalar.of(self.dtype)

    def pointers(self) -> tuple[Parameter, ...]:
        return (
            *pointers_to(self.element, "y", "updates"),
            *pointers_to(index_type(self.index), "index"),
            *pointers_to(I64, "found"),
        )

    def put(self, k: Kernel, y: Pointer, value: Value, offset: Value, lanes: int = 1) -> None:
        old = value if self.reduction == "none" else y.load(offset, lanes)
        y.store(combined(k, self.reduction, old, value), offset)


@dataclass(frozen=True)
class ScatterElementsSpec(_Scatter):
    """Kernel of a scatter with `outer` axes outside of the one that is indexed and of the columns."""

    outer: int

    @property
    def words(self) -> tuple[Parameter, ...]:
        numbers = ["count", "step", "columns", "item_columns", "extent", "axis_step"]
        return (*self.pointers(), *numbers_named([*numbers, *axis_names(self.outer, ("y", "index"))]))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        size = k.number("item_columns")
        pieces = (k.number("columns") + size - 1) // size
        for item in k.range(k.begin, k.end):
            noted = Noted(k, item, self.rule)
            at_y, at_index = axis_offsets(k, self.outer, ("y", "index"), item // pieces)
            y = k.pointer("y") + at_y
            first = item % pieces * size
            last = k.minimum(first + size, k.number("columns"))
            for number in k.range(0, k.number("count")):
                for column in k.range(first, last):
                    at = at_index + number * k.number("step") + column
                    index = k.pointer("index").load(at).to(I64)
                    place, valid = self.rule.place(k, index, k.number("extent"))
                    noted.note(valid, at, index, k.number("extent"))
                    with k.when(valid):
                        value = k.pointer("updates").load(at)
                        self.put(k, y, value, place * k.number("axis_step") + column)
        return k


@dataclass(frozen=True)
class Owned:
    """Cut of the updates of a scatter along an axis, so that no two items write one place: `axes` are the others
    (extent, stride in y, stride in the indices), `columns` the last one where that is not the axis itself."""

    axes: list[tuple[int, list[int]]]
    columns: int

    @staticmethod
    def of(y: View, index: View, axis: int) -> Owned:
        return Owned.by(y.strides, index.shape, index.strides, axis)

    @staticmethod
    def by(y_strides: Sequence[int], shape: Sequence[int], index_strides: Sequence[int], axis: int) -> Owned:
        last = len(shape) - 1
        kept = [a for a in range(len(shape)) if a not in (axis, last)]
        strides = [[y_strides[a] for a in kept], [index_strides[a] for a in kept]]
        axes = joined_axes([shape[a] for a in kept], strides)
        return Owned(axes, 1 if axis == last else shape[last])

    @property
    def item_columns(self) -> int:
        return minimum(maximum(1, self.columns), 64)

    @property
    def items(self) -> int:
        return position_count(self.axes) * -(-self.columns // self.item_columns)


def scatter_elements_call(
    index: View, updates: View, y: View, found: View, axis: int, reduction: str, rule: IndexRule
) -> Call:
    """Return the launch that writes to y, which holds the data already."""
    owned = Owned.of(y, index, axis)
    spec = ScatterElementsSpec(y.type.dtype, index.type.dtype, rule, reduction, len(owned.axes))
    words: dict[str, Argument] = {
        "y": y,
        "updates": updates,
        "index": index,
        "found": found,
        "count": index.shape[axis],
        "step": index.strides[axis],
        "columns": owned.columns,
        "item_columns": owned.item_columns,
        "extent": y.shape[axis],
        "axis_step": y.strides[axis],
    }
    work = maximum(1, index.shape[axis] * owned.item_columns)
    grain = maximum(1, ITEM // work)
    return Call.named(spec, words | axis_words(owned.axes, ("y", "index")), owned.items, grain)


@dataclass(frozen=True)
class ScatterRows(_Scatter):
    """Kernel for slices of `inner` elements at places of `depth` coordinates; an item is a block of the columns of
    all slices."""

    depth: int

    @property
    def words(self) -> tuple[Parameter, ...]:
        numbers = ["count", "inner", "item_columns"]
        numbers += [f"{what}_{axis}" for axis in range(self.depth) for what in ("extent", "step")]
        return (*self.pointers(), *numbers_named(numbers))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        inner, size = k.number("inner"), k.number("item_columns")
        lanes = target.vector_bytes // self.element.nbytes if self.element.bits >= 32 else 1
        for item in k.range(k.begin, k.end):
            noted = Noted(k, item, self.rule)
            first = item * size
            last = k.minimum(first + size, inner)
            for row in k.range(0, k.number("count")):
                offset, valid = place_of(k, noted, row * self.depth, self.depth)
                with k.when(valid):
                    y, updates = k.pointer("y") + offset, k.pointer("updates") + row * inner
                    whole = first + (last - first) // lanes * lanes
                    for column in k.range(first, whole, lanes):
                        self.put(k, y, updates.load(column, lanes), column, lanes)
                    for column in k.range(whole, last):
                        self.put(k, y, updates.load(column), column)
        return k


def scatter_items(inner: int) -> tuple[int, int]:
    """Return the number of items of a scatter of slices, and the columns of each."""
    columns = minimum(maximum(1, inner), ITEM)
    return -(-inner // columns), columns


def scatter_rows_call(
    index: View, updates: View, y: View, found: View, count: int, inner: int, reduction: str, rule: IndexRule
) -> Call:
    """Return the launch that writes `count` slices to y, which holds the data already."""
    depth = index.shape[-1]
    spec = ScatterRows(y.type.dtype, index.type.dtype, rule, reduction, int(depth))
    items, columns = scatter_items(inner)
    words: dict[str, Argument] = {
        "y": y,
        "updates": updates,
        "index": index,
        "found": found,
        "count": count,
        "inner": inner,
        "item_columns": columns,
    }
    extents = y.shape[:depth]
    for axis, (extent, step) in enumerate(zip(extents, steps_of(extents, inner), strict=True)):
        words |= {f"extent_{axis}": extent, f"step_{axis}": step}
    return Call.named(spec, words, items)
