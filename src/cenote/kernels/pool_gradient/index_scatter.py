"""Values written, or added, to the places that indices name: max unpooling, and gradients of pools with known indices.

    for item in begin .. end:                       a plane, or the planes of a group of channels side by side
        zero the planes
        for place in the planes of x, row-major:    (loops)
            for channel of the group:
                position = the index, as a position within the plane
                y[position] = x[place]              (or += in the type sums are taken in)
                an index outside of the plane is noted in `found`, not followed

Every plane has one owner that goes through x in row-major order: of equal indices the last value stays, sums run in a
fixed order, and the result is the same bits for any number of threads. `found` gets two words per item: 0, or 1 + the
number of the first wrong index (place * width + channel of the group), and that index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, I64, U64, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.plane_items import (
    Item,
    Planes,
    channels_of,
    group_width,
    groups_of,
    item_of,
    named,
    planes_of,
    start_of,
    stride_names,
    stride_words,
    vectors,
)

WORK = 1 << 16  # elements touched by the items that a thread takes at once


@dataclass(frozen=True)
class PoolIndexScatter(KernelSpec):
    """Kernel of `width` channels per item; `adds` sums in at least float32 (16-bit floats by way of scratch). `rule`
    says what indices count (MaxPool's rules), `dense` that positions of y's planes are numbered in the order of
    memory.
    """

    dtype: np.dtype[Any]
    width: int
    adds: bool
    rule: str
    dense: bool

    @property
    def element(self) -> Scalar:
        """Element type; values that are only moved are moved as bits."""
        return Scalar.of(self.dtype if self.adds else np.dtype(f"u{self.dtype.itemsize}"))

    @property
    def by_scratch(self) -> bool:
        return self.adds and self.element.bits < 32

    @property
    def words(self) -> tuple[Parameter, ...]:
        numbers = ["channels", "groups", "planes", "rows", "columns", "y_planes", "y_rows", "y_columns"]
        numbers += ["depth", "height", "breadth", *stride_names("y", "x", "index")]
        return (
            *pointers_to(self.element, "y", "x"),
            *pointers_to(I64, "index", "found"),
            *numbers_named(numbers),
        )

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        for number in k.range(k.begin, k.end):
            item = item_of(k, number, self.width)
            x, index, y = (start_of(k, name, item) for name in ("x", "index", "y"))
            target_memory = k.scratch.cast(F32) if self.by_scratch else y
            if self.by_scratch:
                self._fill(
                    k, k.scratch.cast(F32), k.number("depth") * k.number("height") * k.number("breadth")
                )
            else:
                self._zero(k, y, item)
            walk = ScatterWalk(k, self.rule, self.width, item, k.pointer("found") + number * 2)
            for place, at_x, at_index in places(k, "x", "index"):
                for lane in k.range(0, item.count) if self.width > 1 else [k.integer(0)]:
                    value, wanted = (x + at_x).load(lane), (index + at_index).load(lane)
                    position, valid = walk.position(wanted, lane)
                    with k.when(valid):
                        at = self._offset(k, position, lane)
                        added = (
                            target_memory.load(at) + value.to(target_memory.element) if self.adds else value
                        )
                        target_memory.store(added, at)
                    walk.note(valid, wanted, place, lane)
            if self.by_scratch:
                self._narrow(k, y, item)
        return k

    def _offset(self, k: Kernel, position: Value, lane: Value) -> Value:
        """Offset of a position of a plane in the memory that is written."""
        if self.by_scratch:
            return position * self.width + lane
        if self.dense:
            return position * k.number("y_column") + lane if self.width > 1 else position
        column, rest = position % k.number("breadth"), position // k.number("breadth")
        row, plane = rest % k.number("height"), rest // k.number("height")
        outer = plane * k.number("y_plane") + row * k.number("y_row")
        return outer + column * k.number("y_column") + lane

    def _fill(self, k: Kernel, pointer: Pointer, places: Value) -> None:
        lanes = k.target.lanes(np.float32)
        zero = k.constant(F32, 0.0, lanes)
        for at in k.range(0, places * self.width, lanes):
            pointer.store(zero, at)

    def _rows(self, k: Kernel) -> Iterator[tuple[Value, Value, Value]]:
        for plane in k.range(0, k.number("y_planes")):
            for row in k.range(0, k.number("y_rows")):
                yield plane, row, plane * k.number("y_plane") + row * k.number("y_row")

    def _zero(self, k: Kernel, y: Pointer, item: Item) -> None:
        widest = k.target.vector_bytes // self.element.nbytes
        for _, _, at in self._rows(k):
            if self.width == 1:
                for begin, end, lanes in vectors(k, k.number("y_columns"), widest):
                    for column in k.range(begin, end, lanes):
                        (y + at).store(k.constant(self.element, 0, lanes), column)
                continue
            for column in k.range(0, k.number("y_columns")):
                pixel = y + at + column * k.number("y_column")
                for begin, end, lanes in vectors(k, item.count, min(widest, self.width)):
                    for lane in k.range(begin, end, lanes):
                        pixel.store(k.constant(self.element, 0, lanes), lane)

    def _narrow(self, k: Kernel, y: Pointer, item: Item) -> None:
        """Round the sums in scratch to the type of y; gradients have no places past the counted ones."""
        sums = k.scratch.cast(F32)
        for plane, row, at in self._rows(k):
            first = (plane * k.number("height") + row) * k.number("breadth")
            for column in k.range(0, k.number("y_columns")):
                for lane in k.range(0, item.count) if self.width > 1 else [k.integer(0)]:
                    value = sums.load((first + column) * self.width + lane)
                    (y + at + column * k.number("y_column")).store(value.to(self.element), lane)


def places(k: Kernel, first: str, second: str) -> Iterator[tuple[Value, Value, Value]]:
    """Yield places of the planes that indices were given for, row-major: number, and offsets in two tensors of that
    shape."""
    for plane in k.range(0, k.number("planes")):
        for row in k.range(0, k.number("rows")):
            start = (plane * k.number("rows") + row) * k.number("columns")
            one, two = (
                plane * k.number(f"{name}_plane") + row * k.number(f"{name}_row") for name in (first, second)
            )
            for column in k.range(0, k.number("columns")):
                yield (
                    start + column,
                    one + column * k.number(f"{first}_column"),
                    two + column * k.number(f"{second}_column"),
                )


class ScatterWalk:
    """Common state of an item's places: the size of its planes, the base of indices, the first wrong index."""

    def __init__(self, k: Kernel, rule: str, width: int, item: Item, found: Pointer) -> None:
        self.k, self.rule, self.width, self.item, self.found = k, rule, width, item, found
        self.size = k.number("depth") * k.number("height") * k.number("breadth")
        self.base = (item.image * k.number("channels") + item.channel) * self.size
        found.store(k.integer(0))

    def note(self, valid: Value, index: Value, place: Value, lane: Value) -> None:
        """Note the first wrong index."""
        k = self.k
        with k.unless(valid), k.when(self.found.load(0).equals(0)):
            self.found.store(place * self.width + lane + 1, 0)
            self.found.store(index, 1)

    def position(self, index: Value, lane: Value) -> tuple[Value, Value]:
        """Return the row-major position within the plane, and whether it is valid."""
        k, rule = self.k, self.rule
        if rule == "nhwc":
            channels = k.number("channels")
            own = index - (self.item.channel + lane)
            position = own // channels
            return position, self._inside(position) & (position * channels).equals(own)
        position = index if rule == "plane" else index - (self.base + lane * self.size)
        valid = self._inside(position)
        if rule != "column":
            return position, valid
        depth, height, breadth = (k.number(name) for name in ("depth", "height", "breadth"))
        rest = position // depth
        return ((position % depth) * height + rest % height) * breadth + rest // height, valid

    def _inside(self, position: Value) -> Value:
        return position.bits(U64) < self.size.bits(U64)


def scatter_call(
    x: View,
    index: View,
    y: View,
    found: View,
    counted: Sequence[int],
    rule: str,
    *,
    adds: bool,
    channels_last: bool = False,
) -> Call:
    """Return the launch for views of one layout. `counted` are the extents of the map that indices count in, which
    lies at the start of y; `found` holds (items, 2) words."""
    width = group_width(y, channels_last)
    to, source, places = (planes_of(view, channels_last) for view in (y, x, index))
    extents = ((1,) * (3 - len(counted)) + tuple(counted))[-3:]
    dense = Planes(extents, to.strides).is_dense  # type: ignore[arg-type]  # three extents
    spec = PoolIndexScatter(x.type.dtype, width, adds, rule, dense)
    groups = groups_of(y, channels_last)
    words: dict[str, Argument] = {
        "y": y,
        "x": x,
        "index": index,
        "found": found,
        "channels": channels_of(y, channels_last),
        "groups": groups,
        **named(("planes", "rows", "columns"), source.extents),
        **named(("y_planes", "y_rows", "y_columns"), to.extents),
        **named(("depth", "height", "breadth"), extents),
        **stride_words("y", to),
        **stride_words("x", source),
        **stride_words("index", places),
    }
    work = max(1, (to.size + 4 * source.size) * width)
    scratch = (to.size * width + 64) * 4 if spec.by_scratch else 0
    return Call.named(spec, words, y.shape[0] * groups, max(1, WORK // work), scratch)
