"""Adaptive pooling of plain maps with few rows and columns, in registers: all ranges are part of the machine code.

    for item in items:                              # one plane
        for a vector's number of output rows:
            for columns in vectors:                 # down: the rows of each output row's range
                turned[columns] = transpose(combine(x[row], x[row + 1] …) of every output row)
            for output column:                      # across: a vector holds one column of all those output rows
                results[column] = combine(turned[column], turned[column + 1] …)
            y = transpose(results)

Against going across output by output, whose scalar loads took longer than reading the input: 37x37 to 7x7 on 512 planes
0.072 ms, not 0.122; 14x14 to 7x7 0.025 ms, not 0.045. (Without the prefetches 0.087 ms.)
"""

from __future__ import annotations

import numpy as np

from cenote.codegen.builder import Kernel
from cenote.codegen.values import Pointer, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size
from cenote.core.target import Target
from cenote.kernels.lanes import transposed
from cenote.kernels.pool.adaptive import MOST_TAPS, range_build, range_fields
from cenote.kernels.pool.common import SLACK, PoolSpec, Strip, combine_all, load, spans
from cenote.kernels.pool.problem import Candidate, PoolProblem, estimate

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class PoolAdaptiveSmall(PoolSpec):
    """Kernel with ranges of rows, `down`, and of columns, `across`. `row`: elements from one row of x to the next;
    `dense`: the rows of y lie side by side. `lanes` output rows are computed together. The factors of the rows come
    padded to a whole number of vectors.
    """

    down: Ranges
    across: Ranges
    row: int
    dense: bool

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        for item in k.range(k.begin, k.end):
            strip = Strip(k, self, item)
            for start in range(0, len(self.down), self.lanes):
                _RowGroup(strip, start).emit()
        return k

    @property
    def scratch_elements(self) -> int:
        """Number of scratch elements, of the compute type: columns and results transposed, and results in y's type
        and order."""
        lanes = self.lanes
        return 2 * SLACK + lanes * (self.columns + 3 * lanes + 3 * len(self.across))

    @property
    def columns(self) -> int:
        return self.across[-1][1]


class _RowGroup:
    """As many output rows as a vector has lanes, or the rest of them."""

    def __init__(self, strip: Strip, start: int) -> None:
        assert isinstance(strip.spec, PoolAdaptiveSmall)
        self.strip, self.k, self.spec, self.start = strip, strip.k, strip.spec, start
        spec, lanes = self.spec, self.spec.lanes
        self.lanes, self.rows = lanes, spec.down[start : start + lanes]
        scratch = self.k.scratch.cast(spec.compute)
        self.turned = scratch
        self.results = scratch + lanes * (spec.columns + lanes)
        self.staged = (self.results + lanes * (len(spec.across) + lanes)).cast(spec.storage)

    def emit(self) -> None:
        k, spec = self.k, self.spec
        for at in spans(k, k.number("size_w"), self.lanes):
            if not self.start:
                self._ask(at)
            rows = [self._down(self.strip.x + at, begin, end) for begin, end in self.rows]
            rows += rows[-1:] * (self.lanes - len(rows))
            for index, column in enumerate(transposed(k, rows)):
                self.turned.store(column, at * self.lanes + index * self.lanes)
        for place, (begin, end) in enumerate(spec.across):
            taps = [self.turned.load(column * self.lanes, self.lanes) for column in range(begin, end)]
            self.results.store(self._scaled(combine_all(k, spec.reduction, taps), place), place * self.lanes)
        self._stage()
        self._write()

    def _ask(self, at: Value) -> None:
        """Prefetch a vector's share of the next plane: the hardware does not recognise columns of many rows as a
        pattern."""
        k, spec = self.k, self.spec
        following = self.strip.x + k.number("x_c") + at * spec.down[-1][1]
        for element in range(0, self.lanes * spec.down[-1][1], k.target.line // spec.storage.nbytes):
            k.prefetch(following + element)

    def _down(self, x: Pointer, begin: int, end: int) -> Value:
        taps = [load(self.spec, x, row * self.spec.row, self.lanes) for row in range(begin, end)]
        return combine_all(self.k, self.spec.reduction, taps)

    def _scaled(self, total: Value, place: int) -> Value:
        spec, strip = self.spec, self.strip
        if spec.scale == "none":
            return total
        factor = strip.row_scale.load(self.start, self.lanes)
        if spec.scale == "both":
            factor = factor * self.k.pointer("column_scale").load(place)
        if not total.type.is_float:
            return strip.divided(total, factor)
        return total / factor if spec.divides else total * factor

    def _stage(self) -> None:
        """Store results as rows, side by side: the next row overwrites what a row's last vector leaves behind its
        end."""
        out = len(self.spec.across)
        blocks = [
            transposed(
                self.k, [self.results.load((first + i) * self.lanes, self.lanes) for i in range(self.lanes)]
            )
            for first in range(0, out, self.lanes)
        ]
        for row in range(len(self.rows)):
            for index, block in enumerate(blocks):
                self.staged.store(block[row].to(self.spec.storage), row * out + index * self.lanes)

    def _write(self) -> None:
        k, out, rows = self.k, len(self.spec.across), len(self.rows)
        y = self.strip.y + k.number("y_h") * self.start
        runs, length = (1, rows * out) if self.spec.dense else (rows, out)
        lanes = min(self.lanes, 1 << (length.bit_length() - 1))
        for run in range(runs):
            for at in spans(k, k.integer(length), lanes):
                (y + k.number("y_h") * run).store((self.staged + at).load(run * out, lanes), at)


# ---- the offer ------------------------------------------------------------------------------------------------------

FEWEST_ROWS = 3  # of the output: below, most lanes would be idle
FEWEST_LANES = 4


def offer(problem: PoolProblem, target: Target) -> Candidate | None:
    """Plan ranges in one plane, plain, of up to MOST_TAPS rows and columns in all."""
    bounds, geometry, lanes = problem.bounds, problem.geometry, problem.widest(target)
    assert bounds is not None
    if any(is_size(edge) for axis in bounds for ends in axis for edge in ends):
        return None  # the ranges are in the machine code; `adaptive` reads them
    down, across = (tuple((int(begin), int(end)) for begin, end in axis) for axis in bounds[1:])
    flat = problem.memory.step == 1 and geometry.size[0] * geometry.out[0] == 1
    if (
        not flat
        or min(lanes, geometry.size[2] // lanes, len(down) // FEWEST_ROWS) < 1
        or lanes < FEWEST_LANES
    ):
        return None
    if max(sum(end - begin for begin, end in axis) for axis in (down, across)) > MOST_TAPS:
        return None
    spec = PoolAdaptiveSmall(
        **{**range_fields(problem, target), "lanes": lanes},
        down=down,
        across=across,
        row=problem.memory.x[3],
        dense=problem.memory.y[3] == len(across) or len(down) == 1,
    )
    pitch = (geometry.size[2] + 2 * SLACK + 8 * lanes) // 16 * 16 + 16
    rows = problem.scale.rows
    padded = None if rows is None else np.pad(rows.ravel(), (0, -len(down) % lanes), constant_values=1)
    build = range_build(problem, spec, pitch, spec.scratch_elements, {"row_scale": padded})
    taps = [sum(end - begin for begin, end in axis) for axis in (down, across)]
    steps = 2 * taps[0] / len(down) + lanes.bit_length()
    return Candidate(
        estimate(
            "adaptive_small", problem, lanes, down=steps, across=2 * taps[1] / len(across) + 6, passes=1 / 2
        ),
        build,
    )
