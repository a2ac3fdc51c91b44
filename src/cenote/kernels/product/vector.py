"""Product of one row and a matrix in place: bound by reading the matrix, which happens once and in order.

    item = pair, run of columns                                        emitted
      for block of rows of B:                                          emitted
        for 8 rows of it:                                              emitted
          for vector of columns:                                       emitted
            sums[vector] += x[row] * B[row][vector], for the eight     unrolled
        sums += those of earlier blocks; or to scratch                 `partial_sums.py`
      y = activation(alpha * sums + bias)

The sums stay in the first cache; eight rows are eight streams, which the processor fetches ahead: the better the longer
they are (4,096 by 4,096: 4.85 ms with runs of 1,024 columns, 4.55 of 2,048, 4.3 of 4,096). Of a matrix larger than the
caches the same columns of the next eight rows are prefetched into the second cache (2.06 ms, 2.46 without, on another
machine); from the last cache they would come later so (1,024 by 1,024: 1.4 times as long).
Vectors are whole ones of memory, after the columns before them: NumPy's large arrays begin 16 bytes into a cache line,
and a load of 64 bytes that crosses lines takes two turns (1,024 by 1,024: 66 us, 57.5 so).
"""

from __future__ import annotations

from collections.abc import Sequence
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

COLUMNS = 4096  # most columns of an item: the size of the scratch memory
RUN = 512  # fewest columns: 1024 columns in two runs take 6 % more on one thread, 42 % less on two
ROWS = 8  # rows at a time
PREFETCHED_FROM = 24 << 20  # bytes of a matrix


@dataclass(frozen=True)
class VectorSpec(KernelSpec):
    """Kernel of a vector times a matrix. `outer`: batch axes; the types are those of x, B, and y and the bias in
    memory; `prefetches` the rows to come."""

    outer: int
    bias: bool
    activation: Activation
    a_type: np.dtype[Any] = field(default=FLOAT32)
    b_type: np.dtype[Any] = field(default=FLOAT32)
    y_type: np.dtype[Any] = field(default=FLOAT32)
    prefetches: bool = False

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (
            *pointers_to(Scalar.of(self.a_type), "a"),
            *pointers_to(Scalar.of(self.b_type), "b"),
            *pointers_to(Scalar.of(self.y_type), "bias", "y"),
            *numbers_named(("columns", "run", "depth", "a_column", "b_row", *partial_sums.WORDS)),
            Parameter("alpha", F32),
            *numbers_named(axis_names(self.outer, ("a", "b", "y"))),
        )

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        lanes = target.lanes()
        run = k.number("run")
        runs = (k.number("columns") + run - 1) // run
        depth, b_row, a_column = k.number("depth"), k.number("b_row"), k.number("a_column")
        for item in k.range(k.begin, k.end):
            a, b, y = axis_pointers(k, self.outer, ("a", "b", "y"), item // runs)
            first = item % runs * run
            count = k.min_drop_nan(k.number("columns") - first, run)
            b = b + first
            head = self._before_vectors(k, b, count, lanes)
            # From `head` on, sums lie in whole vectors, as B does.
            sums = k.scratch.cast(F32) + ((lanes - head) & (lanes - 1))
            for at in k.range(0, count, lanes):
                sums.store(k.constant(F32, 0.0, lanes), at)
            block = k.integer(1) << k.number("block")
            for begin in k.range(0, depth, block):
                part = PartialSum(k, begin, k.min_drop_nan(begin + block, depth), depth)
                whole = part.end - (part.end - begin) % ROWS
                for row in k.range(begin, whole, ROWS):
                    rows = [b + (row + index) * b_row for index in range(ROWS)]
                    spread = [
                        k.splat((a + (row + index) * a_column).load().to(F32), lanes) for index in range(ROWS)
                    ]
                    self._accumulate(k, sums, rows, spread, (head, count), lanes)
                for row in k.range(whole, part.end):
                    one = k.splat((a + row * a_column).load().to(F32), lanes)
                    self._accumulate(k, sums, [b + row * b_row], [one], (head, count), lanes)
                self._fold(k, sums, part, count, lanes)
            self._finish(k, sums, y + first, k.pointer("bias") + first, count, lanes)
        return k

    def _before_vectors(self, k: Kernel, b: Pointer, count: Value, lanes: int) -> Value:
        """Return the columns before the first whole vector of memory in every row of B; 0 where rows differ."""
        nbytes = b.element.nbytes
        head = (lanes - k.misaligned(b, lanes * nbytes) // nbytes) & (lanes - 1)
        alike = (k.number("b_row") & (lanes - 1)).equals(0)
        return k.min_drop_nan(k.select(alike, head, k.integer(0)), count)

    def _accumulate(
        self,
        k: Kernel,
        sums: Pointer,
        rows: Sequence[Pointer],
        spread: Sequence[Value],
        columns: tuple[Value, Value],
        lanes: int,
    ) -> None:
        """Add the products of some rows: of the columns before `head` first, then in whole vectors of memory."""
        head, count = columns

        def step(at: Value, mask: Value | None) -> None:
            total = sums.load(at, lanes, mask)
            for row, x in zip(rows, spread, strict=True):
                if self.prefetches and mask is None:
                    k.prefetch(row + ROWS * k.number("b_row"), at, level=2)
                total = k.fma(x, row.load(at, lanes, mask).to(F32), total)
            sums.store(total, at, mask)

        with k.when(head > 0):
            step(k.integer(0), k.tail_mask(head, lanes))
        whole = head + (count - head) // lanes * lanes
        for at in k.range(head, whole, lanes):
            step(at, None)
        with k.when(whole < count):
            step(whole, k.tail_mask(count - whole, lanes))

    def _fold(self, k: Kernel, sums: Pointer, part: PartialSum, count: Value, lanes: int) -> None:
        """Add the sums of a block to those of earlier ones; store zeros where another block follows."""
        with k.unless(part.begin.equals(0) & part.is_last):
            for at in k.range(0, count, lanes):
                total = k.variable(sums.load(at, lanes))
                part.fold([total], sums + at, k.integer(COLUMNS))
                zero = k.constant(F32, 0.0, lanes)
                sums.store(k.select(part.is_last, total.value, zero), at)

    def _finish(self, k: Kernel, sums: Pointer, y: Pointer, bias: Pointer, count: Value, lanes: int) -> None:
        for at in k.range(0, count, lanes):
            mask = k.tail_mask(count - at, lanes)
            value = sums.load(at, lanes) * k.number("alpha")
            if self.bias:
                value = value + bias.load(at, lanes, mask).to(F32)
            y.store(self.activation.emit(k, value).to(y.element), at, mask)
