"""Rows of a tensor by index: Gather, GatherND, embeddings, single elements by number.

    for item in begin .. end:                    emitted; some rows of the output
        for row of the item:                     emitted
            place = the coordinates of the row's index, each checked
            y[row] = x[place]                    a run of `inner` elements

x is (batches, extent_0, ..., inner), where all extents but the batch are named by `depth` coordinates of an index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import I64, Pointer, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size, maximum, plain
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.selection.indices import (
    IndexRule,
    Noted,
    bits_of,
    copy_row,
    fill_row,
    index_type,
    place_of,
    stream_row,
)

ITEM_BYTES = 32 << 10  # of the rows that an item writes
STREAMED = 32 << 20  # bytes of a result from which it is written past the caches,
STREAMED_ROW = 256  # in rows of at least so many
AHEAD = 2  # rows between the one that is copied and the one that is prefetched


@dataclass(frozen=True)
class GatherRows(KernelSpec):
    """Kernel of a gather. `depth` coordinates per index; `single`: a row is one element; `batched`: there is more
    than one batch; `streams`: rows of at least two vectors are written past the caches."""

    dtype: np.dtype[Any]
    index: np.dtype[Any]
    depth: int
    rule: IndexRule
    single: bool
    batched: bool
    streams: bool

    @property
    def words(self) -> tuple[Parameter, ...]:
        numbers = ["rows", "item_rows", "count", "inner", "x_batch", "index_batch"]
        numbers += [f"{what}_{axis}" for axis in range(self.depth) for what in ("extent", "step")]
        return (
            *pointers_to(bits_of(self.dtype), "y", "x"),
            *pointers_to(index_type(self.index), "index"),
            *pointers_to(I64, "found"),
            *numbers_named(numbers),
        )

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        inner = k.integer(1) if self.single else k.number("inner")
        for item in k.range(k.begin, k.end):
            noted = Noted(k, item, self.rule)
            first = item * k.number("item_rows")
            last = first + k.number("item_rows")
            last = k.select(last < k.number("rows"), last, k.number("rows"))
            for row in k.range(first, last):
                batch, number = k.integer(0), row
                if self.batched:
                    batch = row // k.number("count")
                    number = (row - batch * k.number("count")) * self.depth + batch * k.number("index_batch")
                elif self.depth > 1:
                    number = row * self.depth
                offset, valid = place_of(k, noted, number, self.depth)
                source = k.pointer("x") + batch * k.number("x_batch")
                y = k.pointer("y") + row * inner
                if self.single:
                    with k.when(valid):
                        y.store((source + offset).load())
                    with k.unless(valid):
                        y.store(k.constant(y.element, 0))
                    continue
                with k.when(valid):
                    if self.streams:
                        stream_row(k, y, source + offset, inner, self._later(k, number, last))
                    else:
                        copy_row(k, y, source + offset, inner)
                with k.unless(valid):
                    fill_row(k, y, k.constant(y.element, 0), inner)
        if self.streams:
            k.fence()
        return k

    def _later(self, k: Kernel, number: Value, last: Value) -> Pointer:
        """Return the likely address of the row some rows later; its index is not checked, only prefetched."""
        if self.batched or self.depth > 1:
            return k.pointer("x")
        index = k.pointer("index").load(k.minimum(number + AHEAD, last - 1)).to(I64)
        return k.pointer("x").offset_unchecked(index * k.number("step_0"))


@dataclass(frozen=True)
class Rows:
    """Layout of a gather's memory: the data as (batches, *extents, inner), `count` indices per batch, which lie
    `index_batch` numbers apart (0: all batches have the same)."""

    batches: int
    extents: tuple[int, ...]
    inner: int
    count: int
    index_batch: int

    @property
    def total(self) -> int:
        return self.batches * self.count

    def item_rows(self, itemsize: int) -> int:
        return maximum(1, ITEM_BYTES // maximum(1, self.inner * itemsize))

    def items(self, itemsize: int) -> int:
        return -(-self.total // self.item_rows(itemsize))


def gather_call(x: View, index: View, y: View, found: View, rows: Rows, rule: IndexRule) -> Call:
    """Return the launch for plain views. `found` has a row per item."""
    depth = len(rows.extents)
    single = not is_size(rows.inner) and rows.inner == 1
    batched = is_size(rows.batches) or rows.batches != 1
    long = (
        x.type.dtype.itemsize >= 4
        and not is_size(rows.inner)
        and rows.inner * x.type.dtype.itemsize >= STREAMED_ROW
    )
    streams = long and plain(y.type.nbytes) >= STREAMED
    spec = GatherRows(x.type.dtype, index.type.dtype, depth, rule, single, batched, streams)
    steps = steps_of(rows.extents, rows.inner)
    words: dict[str, Argument] = {
        "y": y,
        "x": x,
        "index": index,
        "found": found,
        "rows": rows.total,
        "count": rows.count,
        "inner": rows.inner,
        "item_rows": rows.item_rows(x.type.dtype.itemsize),
        "x_batch": steps[0] * rows.extents[0],
        "index_batch": rows.index_batch,
    }
    for axis, (extent, step) in enumerate(zip(rows.extents, steps, strict=True)):
        words |= {f"extent_{axis}": extent, f"step_{axis}": step}
    return Call.named(spec, words, rows.items(x.type.dtype.itemsize))


def steps_of(extents: Sequence[int], inner: int) -> list[int]:
    """Return the numbers of elements from one place of an axis to the next."""
    steps = [inner]
    for extent in reversed(extents[1:]):
        steps.insert(0, steps[0] * extent)
    return steps
