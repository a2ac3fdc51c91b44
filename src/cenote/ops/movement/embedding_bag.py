"""EmbeddingBag: rows of a table by index, combined bag by bag."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import DTypeError, ShapeError
from cenote.core.target import Target
from cenote.core.types import INT64, PLAIN, Array, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.selection.bags import NO_PADDING, bag_call
from cenote.ops.base import Arrays, Lowering, Op, Sample, Types
from cenote.ops.checks import int64s, one_of, require_index, require_kind, require_same_dtype
from cenote.ops.movement.index_lowerings import SUM_TOLERANCES, noted, places_of, rule_of
from cenote.ops.values import narrow, seeded, wide

MODES = ("sum", "mean", "max")


@dataclass(frozen=True)
class EmbeddingBag(Op):
    """The sum, mean or maximum of the rows that the indices offsets[b] .. offsets[b+1]-1 name, for every bag b.

    Inputs: table (rows, columns), indices (list), offsets (int64, one more than there are bags, rising from 0 to the
    number of indices), and factors of the indices ("sum" only). Indices equal to `padding` are passed over and do not
    count in a mean, as do bad ones with `invalid` "zero". An empty bag gives zeros. NaN wins in "max".
    """

    mode: str = "mean"
    padding: int = NO_PADDING
    invalid: str = "raise"

    name = "embedding_bag"
    operands = ("table", "indices", "offsets", "weights?")

    def types(
        self, table: TensorType, indices: TensorType, offsets: TensorType, weights: TensorType | None
    ) -> Types:
        one_of(self.name, "mode", self.mode, MODES)
        rule_of(self.name, self.invalid, False)
        require_kind(self.name, table, "f", "table")
        if table.rank != 2 or require_index(self.name, indices).rank != 1:
            raise ShapeError(
                f"{self.name}: table {table} must be (rows, columns) and indices {indices} a list"
            )
        if offsets.rank != 1 or not offsets.shape[0] or offsets.dtype != INT64:
            raise ShapeError(
                f"{self.name}: offsets {offsets} must be an int64 list of one more than there are bags"
            )
        if weights is not None:
            require_same_dtype(self.name, table, weights)
            if weights.shape != indices.shape or self.mode != "sum":
                raise DTypeError(f"{self.name}: weights {weights} must be one per index, and mode 'sum'")
        return (TensorType(table.dtype, (offsets.shape[0] - 1, table.shape[1])),)

    def compute(self, table: Array, indices: Array, offsets: Array, weights: Array | None) -> Arrays:
        places, valid = places_of(self.name, indices, table.shape[0], rule_of(self.name, self.invalid, False))
        valid = valid & (places != self.padding)
        rows = wide(table)
        y = np.zeros((offsets.size - 1, table.shape[1]))
        for bag in range(offsets.size - 1):
            span = slice(int(offsets[bag]), int(offsets[bag + 1]))
            used = rows[places[span][valid[span]]]
            if weights is not None:
                used = used * wide(weights[span][valid[span]])[:, None]
            if len(used):
                y[bag] = getattr(np, self.mode)(used, axis=0)
        return (narrow(y, table.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        table, indices, offsets = (present(kind) for kind in inputs[:3])
        if not table.size or not indices.size or offsets.size < 2:
            return
        rule = rule_of(self.name, self.invalid, False)
        found, check = noted(self.name, indices, offsets.shape[0] - 1, table.shape[:1], rule)

        def call(table: View, indices: View, offsets: View, *others: View) -> Call:
            weights = others[0] if len(others) > 2 else None
            y, notes = others[-2:]
            return bag_call(table, indices, offsets, weights, y, notes, self.mode, self.padding, rule)

        layouts = tuple(None if kind is None else PLAIN for kind in inputs)
        seconds = pass_seconds(indices.size * table.shape[1] * table.dtype.itemsize)
        tolerance = SUM_TOLERANCES[table.dtype.name] if self.mode != "max" else 0.0
        yield Lowering.of_call("bags", layouts, (PLAIN,), call, seconds, tolerance, (found,), check=check)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        indices, offsets = int64s((0, 4, 4, 1, 2, 3, 0)), int64s((0, 3, 3, 7))
        for mode in MODES:
            for dtype in (np.float32, np.float16, np.float64):
                yield Sample(cls(mode), (seeded((5, 83), dtype=dtype), indices, offsets))
            yield Sample(cls(mode, 4), (seeded((5, 3)), indices.astype(np.int32), offsets), "padding")
        yield Sample(cls("sum"), (seeded((5, 20)), indices, offsets, seeded((7,), 1)), "weights")
        outside = int64s((0, 9, -2, 1))
        for invalid in ("clip", "wrap", "zero"):
            yield Sample(cls("mean", 0, invalid), (seeded((5, 17)), outside, int64s((0, 4))), invalid)
        yield Sample(cls(), (seeded((5, 2)), int64s(()), int64s((0, 0))), "empty bag")
