"""Product of a few rows and a matrix in place: bound by reading the matrix, which happens once and in order.

    for pair, run of columns: as many neighbouring items as there are  emitted
      for block of rows of B:                                          emitted
        for 8 rows of it (4 where x has more than one):                emitted
          for vector of columns:                                       emitted
            sums[row of x][vector] += x[row of x][row] * B[row][vector], for the rows    unrolled
        sums += those of earlier blocks; or to scratch                 `partial_sums.py`
      y = activation(alpha * sums + bias)

The sums stay in the nearest caches; rows are streams that the processor fetches ahead, the better the longer they are.
So all items that a thread takes at a time are one run: of 1,024 columns two threads have a half each, and one thread
has all. Zen 3, one thread, whole rows instead of halves: 1,024 by 1,024 64 us instead of 77, 8,192 by 1,024 0.92 ms
instead of 1.41, 4,096 by 4,096 2.4 instead of 2.7. Prefetching rows to come gained with shorter runs, and costs 15 %.
Vectors are whole ones of memory, after the columns before them: NumPy's large arrays begin 16 bytes into a cache line,
and a load of 64 bytes that crosses lines takes two turns (1,024 by 1,024: 66 us, 57.5 so).
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.types import FLOAT32
from cenote.kernels import partial_sums
from cenote.kernels.base import KernelSpec, numbers_named, pointers_to
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.partial_sums import PartialSum
from cenote.kernels.strided_axes import axis_names, axis_pointers

COLUMNS = 4096  # most columns of a run
# Elements of scratch memory for a row of x: rows a power of two apart fall into one set of the first cache (8 rows by
# 4,096 x 4,096 took 12 ms so, instead of 5.5; 4 rows 3.1, 2.7).
SUMS = COLUMNS + 16
RUN = 512  # fewest columns of an item
MOST_ROWS = 8  # of x


@dataclass(frozen=True)
class VectorSpec(KernelSpec):
    """Kernel of a few `rows` times a matrix. `outer`: batch axes; the types are those of x, B, and y and the bias in
    memory."""

    outer: int
    bias: bool
    activation: Activation
    a_type: np.dtype[Any] = field(default=FLOAT32)
    b_type: np.dtype[Any] = field(default=FLOAT32)
    y_type: np.dtype[Any] = field(default=FLOAT32)
    rows: int = 1

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (
            *pointers_to(Scalar.of(self.a_type), "a"),
            *pointers_to(Scalar.of(self.b_type), "b"),
            *pointers_to(Scalar.of(self.y_type), "bias", "y"),
            *numbers_named(
                ("columns", "run", "depth", "a_row", "a_column", "b_row", "y_row", *partial_sums.WORDS)
            ),
            Parameter("alpha", F32),
            *numbers_named(axis_names(self.outer, ("a", "b", "y"))),
        )

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        run, columns = k.number("run"), k.number("columns")
        # Without columns there are no items, and the kernel may be called with none: one, not to divide by zero.
        items, together = k.max_drop_nan((columns + run - 1) // run, k.integer(1)), k.integer(COLUMNS) // run
        for pair in k.range(k.begin // items, (k.end + items - 1) // items):
            a, b, y = axis_pointers(k, self.outer, ("a", "b", "y"), pair)
            begin = k.max_drop_nan(k.begin - pair * items, k.integer(0))
            end = k.min_drop_nan(k.end - pair * items, items)
            for item in k.range(begin, end, together):
                first = item * run
                last = k.min_drop_nan(k.min_drop_nan(item + together, end) * run, columns)
                part = _Run(self, k, a, b + first, last - first)
                part.emit(y + first, k.pointer("bias") + first)
        return k


class _Run:
    """Emits the sums of `count` columns."""

    def __init__(self, spec: VectorSpec, k: Kernel, a: Pointer, b: Pointer, count: Value) -> None:
        self.spec, self.k, self.a, self.b, self.count = spec, k, a, b, count
        self.lanes = k.target.lanes()
        self.head = self.before_vectors()
        # From `head` on, sums lie in whole vectors, as B does.
        start = k.scratch.cast(F32) + ((self.lanes - self.head) & (self.lanes - 1))
        self.sums = [start + row * SUMS for row in range(spec.rows)]

    def before_vectors(self) -> Value:
        """Return the columns before the first whole vector of memory in every row of B; 0 where rows differ."""
        k, nbytes = self.k, self.b.element.nbytes
        head = (self.lanes - k.misaligned(self.b, self.lanes * nbytes) // nbytes) & (self.lanes - 1)
        alike = (k.number("b_row") & (self.lanes - 1)).equals(0)
        return k.min_drop_nan(k.select(alike, head, k.integer(0)), self.count)

    def emit(self, y: Pointer, bias: Pointer) -> None:
        k, depth = self.k, self.k.number("depth")
        for sums in self.sums:
            for at in k.range(0, self.count, self.lanes):
                sums.store(k.constant(F32, 0.0, self.lanes), at)
        block = k.integer(1) << k.number("block")
        for begin in k.range(0, depth, block):
            part = PartialSum(k, begin, k.min_drop_nan(begin + block, depth), depth)
            number = 8 if self.spec.rows == 1 else 4  # the factors of several rows of x need registers
            whole = part.end - (part.end - begin) % number
            for row in k.range(begin, whole, number):
                self.accumulate(row, number)
            for row in k.range(whole, part.end):
                self.accumulate(row, 1)
            self.fold(part)
        for row_of_x, sums in enumerate(self.sums):
            self.finish(sums, y + row_of_x * k.number("y_row"), bias)

    def accumulate(self, first: Value, number: int) -> None:
        """Add the products of some rows of B: of the columns before `head` first, then in whole vectors of memory."""
        k, lanes, head, count = self.k, self.lanes, self.head, self.count
        rows = [self.b + (first + index) * k.number("b_row") for index in range(number)]
        columns = [self.a + (first + index) * k.number("a_column") for index in range(number)]
        spread = [
            [k.splat(column.load(row * k.number("a_row")).to(F32), lanes) for column in columns]
            for row in range(self.spec.rows)
        ]

        def step(at: Value, mask: Value | None) -> None:
            vectors = [row.load(at, lanes, mask).to(F32) for row in rows]
            for sums, factors in zip(self.sums, spread, strict=True):
                total = sums.load(at, lanes, mask)
                for vector, x in zip(vectors, factors, strict=True):
                    total = k.fma(x, vector, total)
                sums.store(total, at, mask)

        with k.when(head > 0):
            step(k.integer(0), k.tail_mask(head, lanes))
        whole = head + (count - head) // lanes * lanes
        for at in k.range(head, whole, lanes):
            step(at, None)
        with k.when(whole < count):
            step(whole, k.tail_mask(count - whole, lanes))

    def fold(self, part: PartialSum) -> None:
        """Add the sums of a block to those of earlier ones; store zeros where another block follows."""
        k, lanes = self.k, self.lanes
        with k.unless(part.begin.equals(0) & part.is_last):
            for sums in self.sums:
                for at in k.range(0, self.count, lanes):
                    total = k.variable(sums.load(at, lanes))
                    part.fold([total], sums + at, k.integer(SUMS * self.spec.rows))
                    zero = k.constant(F32, 0.0, lanes)
                    sums.store(k.select(part.is_last, total.value, zero), at)

    def finish(self, sums: Pointer, y: Pointer, bias: Pointer) -> None:
        k, lanes = self.k, self.lanes
        for at in k.range(0, self.count, lanes):
            mask = k.tail_mask(self.count - at, lanes)
            value = sums.load(at, lanes) * k.number("alpha")
            if self.spec.bias:
                value = value + bias.load(at, lanes, mask).to(F32)
            y.store(self.spec.activation.emit(k, value).to(y.element), at, mask)
