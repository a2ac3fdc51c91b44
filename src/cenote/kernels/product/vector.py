"""Product of a few rows and a matrix in place: bound by reading the matrix, which happens once and in order.

    item = pair, run of columns                                        emitted
      for block of rows of B:                                          emitted
        for 4 rows of it:                                              emitted
          for vector of columns:                                       emitted
            sums[row of x][vector] += x[row of x][row] * B[row][vector], for the four     unrolled
        sums += those of earlier blocks; or to scratch                 `partial_sums.py`
      y = activation(alpha * sums + bias)

The sums stay in the nearest caches; four rows are four streams, fetched ahead by the processor: the better the longer
they are (4,096 by 4,096: 4.85 ms with runs of 1,024 columns, 4.55 of 2,048, 4.3 of 4,096). Of a matrix larger than the
caches the same columns of rows to come are prefetched into the second cache (2.06 ms, 2.46 without, on another
machine); from the last cache they would come later so (1,024 by 1,024: 1.4 times as long). Rows four at a time and
prefetched eight ahead take 0.93 of the time of eight at a time (Zen 3), which on a Zen 4 took the same.
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

COLUMNS = 4096  # most columns of an item: the size of the scratch memory for a row of x
RUN = 512  # fewest columns: 1024 columns in two runs take 6 % more on one thread, 42 % less on two
MOST_ROWS = 8  # of x
PREFETCHED_FROM = 24 << 20  # bytes of a matrix
_ROWS = 4  # of B at a time
_AHEAD = 8  # rows of B
_LINE = 16  # elements


@dataclass(frozen=True)
class VectorSpec(KernelSpec):
    """Kernel of a few `rows` times a matrix. `outer`: batch axes; the types are those of x, B, and y and the bias in
    memory; `prefetches` the rows of B to come."""

    outer: int
    bias: bool
    activation: Activation
    a_type: np.dtype[Any] = field(default=FLOAT32)
    b_type: np.dtype[Any] = field(default=FLOAT32)
    y_type: np.dtype[Any] = field(default=FLOAT32)
    prefetches: bool = False
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
        run = k.number("run")
        runs = (k.number("columns") + run - 1) // run
        for item in k.range(k.begin, k.end):
            a, b, y = axis_pointers(k, self.outer, ("a", "b", "y"), item // runs)
            first = item % runs * run
            count = k.min_drop_nan(k.number("columns") - first, run)
            _Run(self, k, a, b + first, count).emit(y + first, k.pointer("bias") + first)
        return k


class _Run:
    """Emits the sums of `count` columns."""

    def __init__(self, spec: VectorSpec, k: Kernel, a: Pointer, b: Pointer, count: Value) -> None:
        self.spec, self.k, self.a, self.b, self.count = spec, k, a, b, count
        self.lanes = k.target.lanes()
        self.head = self.before_vectors()
        # From `head` on, sums lie in whole vectors, as B does.
        start = k.scratch.cast(F32) + ((self.lanes - self.head) & (self.lanes - 1))
        self.sums = [start + row * COLUMNS for row in range(spec.rows)]

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
            whole = part.end - (part.end - begin) % _ROWS
            for row in k.range(begin, whole, _ROWS):
                self.accumulate(row, _ROWS)
            for row in k.range(whole, part.end):
                self.accumulate(row, 1)
            self.fold(part)
        for number, sums in enumerate(self.sums):
            self.finish(sums, y + number * k.number("y_row"), bias)

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
        lines, whole = (head + (count - head) // size * size for size in (_LINE, lanes))
        for at in k.range(head, lines, _LINE):
            for row in rows if self.spec.prefetches else ():
                k.prefetch(row + _AHEAD * k.number("b_row"), at, level=2)
            for vector in range(0, _LINE, lanes):
                step(at + vector, None)
        for at in k.range(lines, whole, lanes):
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
                    part.fold([total], sums + at, k.integer(COLUMNS * self.spec.rows))
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
