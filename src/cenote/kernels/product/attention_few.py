"""Attention of few queries: K and V are read once each, in place, since panels would only be copies of them.

item = pair of matrices, query                                      emitted
  for vector of keys: scores = scale q K' + mask                    emitted: a row of K per lane, then transposed
  largest score, powers and their sum                               emitted
  for group of V's columns: sums of powers * rows of V              emitted
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from cenote.codegen import math
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, I32, Pointer, Scalar, Value
from cenote.codegen.variables import Variable
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.types import FLOAT32
from cenote.kernels.base import KernelSpec, numbers_named, pointers_to
from cenote.kernels.lanes import transposed
from cenote.kernels.product.attention import OPERANDS, inverse_total, mask_scalar
from cenote.kernels.strided_axes import axis_names, axis_pointers

NUMBERS = ("queries", "keys", "columns", "q_row", "k_row", "v_row", "mask_row", "y_row", "offset")
_COLUMNS = 4  # vectors of V's columns at a time
_ROWS = 2  # of V with sums of their own: enough sums in flight
_BLOCK = 256  # steps of a chain of additions


@dataclass(frozen=True)
class FewQueriesSpec(KernelSpec):
    """Kernel of few queries. The fields are those of AttentionSpec; rows of Q, K, V and y are contiguous."""

    depth: int
    outer: int
    mask: str
    causal: bool
    zeros: bool
    nan_to_zero: bool
    x_type: np.dtype[Any] = field(default=FLOAT32)
    y_type: np.dtype[Any] = field(default=FLOAT32)

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (
            *pointers_to(Scalar.of(self.x_type), "q", "k", "v"),
            *pointers_to(mask_scalar(self.mask), "mask"),
            *pointers_to(Scalar.of(self.y_type), "y"),
            *numbers_named(NUMBERS),
            Parameter("scale", F32),
            *numbers_named(axis_names(self.outer, OPERANDS)),
        )

    def emit(self, target: Target) -> Kernel:
        kernel = self.kernel(target)
        emitter = _Emitter(self, kernel, target.lanes())
        for item in kernel.range(kernel.begin, kernel.end):
            emitter.attend(item)
        return kernel


class _Emitter:
    def __init__(self, spec: FewQueriesSpec, k: Kernel, lanes: int) -> None:
        self.spec, self.k, self.lanes = spec, k, lanes
        self.scores = k.scratch.cast(F32)

    def attend(self, item: Value) -> None:
        k, queries = self.k, self.k.number("queries")
        row = item % queries
        q, keys, v, mask, y = axis_pointers(k, self.spec.outer, OPERANDS, item // queries)
        self.attended = k.number("keys")
        if self.spec.causal:
            end = k.min_drop_nan(self.attended, row + k.number("offset") + 1)
            self.attended = k.max_drop_nan(end, k.integer(0))
        self.score(q + row * k.number("q_row"), keys, mask + row * k.number("mask_row"))
        self.average(v, self.normalize(), y + row * k.number("y_row"))

    def parts(self) -> list[tuple[int, Value | None]]:
        """Return the starts of the vectors of a row of Q or K, with a mask for the last where it is not whole."""
        depth, lanes = self.spec.depth, self.lanes
        return [
            (at, None if depth - at >= lanes else self.k.tail_mask(self.k.integer(depth - at), lanes))
            for at in range(0, depth, lanes)
        ]

    def score(self, q: Pointer, keys: Pointer, mask: Pointer) -> None:
        k, lanes = self.k, self.lanes
        query = [q.load(at, lanes, part).to(F32) * k.number("scale") for at, part in self.parts()]
        last = self.attended - 1
        for first in k.range(0, self.attended, lanes):
            sums = []
            for lane in range(lanes):
                row = keys + k.min_drop_nan(first + lane, last) * k.number("k_row")
                total = k.constant(F32, 0.0, lanes)
                for vector, (at, part) in zip(query, self.parts(), strict=True):
                    total = k.fma(vector, row.load(at, lanes, part).to(F32), total)
                sums.append(total)
            sums = list(transposed(k, sums))
            while len(sums) > 1:
                sums = [a + b for a, b in zip(sums[::2], sums[1::2], strict=True)]
            there = k.tail_mask(self.attended - first, lanes)
            closed, value = k.constant(F32, float("-inf"), lanes), sums[0]
            if self.spec.mask:
                loaded = mask.load(first, lanes, there)
                if self.spec.mask == "bool":
                    value = k.select(loaded.to(I32).differs(0), value, closed)
                else:
                    value = value + loaded.to(F32)
            self.scores.store(k.select(there, value, closed), first)

    def normalize(self) -> Value:
        """Turn scores into powers of e; returns 1 / their sum."""
        k, lanes = self.k, self.lanes
        most = k.variable(k.constant(F32, float("-inf"), lanes))
        for at in k.range(0, self.attended, lanes):
            most.value = k.maximum(most.value, self.scores.load(at, lanes))
        largest = k.reduce(most.value, "maximum")
        # For a query without keys the powers of minus infinity are zeros.
        shift = k.splat(k.select(largest.equals(float("-inf")), k.constant(F32, 0.0), largest), lanes)
        total = k.variable(k.constant(F32, 0.0, lanes))
        for first in k.range(0, self.attended, _BLOCK * lanes):
            chain = k.variable(k.constant(F32, 0.0, lanes))
            for at in k.range(first, k.min_drop_nan(first + _BLOCK * lanes, self.attended), lanes):
                power = math.exp(k, self.scores.load(at, lanes) - shift)
                clears = self.spec.nan_to_zero  # V is multiplied by zeros then; the sum tells of the NaN
                kept = k.max_drop_nan(power, k.constant(F32, 0.0, lanes)) if clears else power
                self.scores.store(kept, at)
                chain.value = chain.value + power
            total.value = total.value + chain.value
        return inverse_total(k, k.reduce(total.value, "add"), self.spec.zeros, self.spec.nan_to_zero)

    def column_groups(self) -> Iterator[tuple[Value, list[Value | None]]]:
        """Emit loops over V's columns: groups of whole vectors, then single ones, each with its masks."""
        k, lanes, columns = self.k, self.lanes, self.k.number("columns")
        group = _COLUMNS * lanes
        whole = columns // group * group
        for column in k.range(0, whole, group):
            yield column, [None] * _COLUMNS
        for column in k.range(whole, columns, lanes):
            yield column, [k.tail_mask(columns - column, lanes)]

    def average(self, v: Pointer, factor: Value, y: Pointer) -> None:
        k, lanes = self.k, self.lanes
        spread = k.splat(factor, lanes)
        for column, masks in self.column_groups():
            zero = k.constant(F32, 0.0, lanes)
            whole = [k.variable(zero) for _ in masks]
            for first in k.range(0, self.attended, _BLOCK):
                last = k.min_drop_nan(first + _BLOCK, self.attended)
                even = last - (last - first) % _ROWS
                sums = [[k.variable(zero) for _ in masks] for _ in range(_ROWS)]
                for row in k.range(first, even, _ROWS):
                    for each, totals in enumerate(sums):
                        self.add(v, row + each, column, masks, totals)
                for row in k.range(even, last):
                    self.add(v, row, column, masks, sums[0])
                for block, total in enumerate(whole):
                    total.value = total.value + (sums[0][block].value + sums[1][block].value)
            for block, mask in enumerate(masks):
                value = whole[block].value * spread
                y.store(value.to(y.element), column + block * lanes, mask)

    def add(
        self, v: Pointer, row: Value, column: Value, masks: Sequence[Value | None], sums: Sequence[Variable]
    ) -> None:
        """Add the product of a power and a part of its row."""
        k, lanes = self.k, self.lanes
        source = v + (row * k.number("v_row") + column)
        power = self.scores.broadcast(row, lanes)
        for block, (total, mask) in enumerate(zip(sums, masks, strict=True)):
            total.value = k.fma(power, source.load(block * lanes, lanes, mask).to(F32), total.value)
