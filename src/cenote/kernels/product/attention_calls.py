"""Calls of attention, from its sizes and views: K and V in place or copied, then groups of queries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size, maximum, minimum
from cenote.core.target import Target
from cenote.core.types import FLOAT32, short_name
from cenote.kernels.base import Argument, Call, View
from cenote.kernels.conv.tile_widths import TileWidths, tile_widths
from cenote.kernels.product.attention import OPERANDS, AttentionSpec, most_queries, scratch_elements
from cenote.kernels.product.attention_few import FewQueriesSpec
from cenote.kernels.product.panels import Panels, cut_exactly, panel_call
from cenote.kernels.strided_axes import Axis, axis_words, is_one, position_count

CHUNK = 128  # keys at a time
_MACS_PER_SECOND = 40e9
_FEW, _MANY = 2, 256  # queries
_DEEP = 128  # of a head that lies in registers
_PIECE = 100e-6  # seconds of work that a thread takes at a time


@dataclass(frozen=True)
class AttentionProblem:
    """softmax(scale Q K' + mask) V for pairs of matrices: Q (queries, depth), K (keys, depth), V (keys, columns).

    `axes` are batch axes with their steps in (Q, K, V, mask, y); `*_row` are steps from row to row, `k_column` and
    `v_column` from column to column (in Q, the mask and y columns are contiguous). `offset`: see AttentionSpec.
    `stored` is the type of Q, K and V.
    """

    queries: int
    keys: int
    depth: int
    columns: int
    q_row: int
    k_row: int
    k_column: int
    v_row: int
    v_column: int
    y_row: int
    mask_row: int
    axes: tuple[Axis, ...]
    scale: float
    causal: bool
    offset: int
    zeros: bool
    nan_to_zero: bool
    stored: np.dtype[Any] = field(default=FLOAT32)

    @property
    def few(self) -> bool:
        """Whether there are so few queries that packing K and V takes longer than the rest, and rows are contiguous."""
        return (
            not is_size(self.queries)
            and self.queries <= _FEW
            and self.depth <= _DEEP
            and is_one(self.k_column)
            and is_one(self.v_column)
        )

    def packed_elements(self, target: Target) -> tuple[int, ...]:
        """Numbers of elements of the copies of K and V; none where they are read in place."""
        sizes = [position_count(self._own(operand)) * rows.size for operand, rows in self._copies(target)]
        return tuple(sizes)

    def _copies(self, target: Target) -> list[tuple[int, Panels]]:
        """Return the operands, K (1) and V (2), that are copied to rows of float32, and the layout of each copy."""
        if self.few:
            return []
        half, lanes = self.stored != np.float32, target.lanes()
        copies = []
        if half or not is_one(self.k_column):
            copies.append((1, Panels(self.keys, self.depth, -(-self.depth // lanes), lanes)))
        if half or not is_one(self.v_column) or self._rereads_strided:
            copies.append((2, Panels(self.keys, self.columns, -(-self.columns // lanes), lanes)))
        return copies

    @property
    def _rereads_strided(self) -> bool:
        """Whether rows of V that lie apart are read for many queries: in steps they share few sets of the nearest
        cache (12 heads of 64, 512 queries: in place 10 % longer)."""
        apart = is_size(self.v_row) or self.v_row != self.columns
        return apart and (is_size(self.queries) or self.queries >= _MANY)

    def _own(self, operand: int) -> list[Axis]:
        """Batch axes along which an operand differs."""
        return [(extent, [steps[operand]]) for extent, steps in self.axes if _moves(steps[operand])]

    def calls(
        self,
        q: View,
        k: View,
        v: View,
        mask: View | None,
        y: View,
        between: Sequence[View],
        target: Target,
    ) -> Iterator[Call]:
        """Copy K and V into `between` where need be, then attend."""
        if self.few:
            yield self._few_call(q, k, v, mask, y, target)
            return
        sources, rows, axes = [k, v], [self.k_row, self.v_row], self.axes
        steps = [(self.k_row, self.k_column), (self.v_row, self.v_column)]
        for (operand, panels), to in zip(self._copies(target), between, strict=True):
            x, (row, column) = sources[operand - 1], steps[operand - 1]
            yield panel_call(panels, x, row, column, self._own(operand), to)
            sources[operand - 1], rows[operand - 1] = to, panels.width
            axes = _copied_axes(axes, operand, panels.size)
        yield self._attend((q, *sources), rows, axes, mask, y, target)

    def _attend(
        self,
        operands: Sequence[View],
        rows: Sequence[int],
        axes: Sequence[Axis],
        mask: View | None,
        y: View,
        target: Target,
    ) -> Call:
        """Return the call for K and V whose rows are contiguous and begin so many elements apart."""
        q, k, v = operands
        lanes = target.lanes()
        most = 4 if target.registers > 16 else 2
        groups = _query_groups(-(-self.queries // lanes), most)
        vectors = -(-self.columns // lanes)
        value_blocks, value_groups, value_wide = cut_exactly(vectors, most)
        clip = self.columns % lanes != 0
        width = most_queries(value_blocks, clip, target.registers)
        if not is_size(self.queries):
            width = min(width, self.queries)
        specs = tuple(
            AttentionSpec(
                blocks,
                is_size(groups.wide) or groups.wide < groups.tiles,
                value_blocks,
                value_wide < value_groups,
                width,
                len(axes),
                _mask_type(mask),
                _moves(self.mask_row),
                self.causal,
                self.zeros,
                self.nan_to_zero,
                clip,
                q.type.dtype,
                y.type.dtype,
            )
            for blocks in groups.widths
        )
        chunks = maximum(1, -(-self.keys // CHUNK))
        chunk = -(-self.keys // chunks)
        words: dict[str, Argument] = {"q": q, "k": k, "v": v, "mask": mask, "y": y}
        words |= {"queries": self.queries, "keys": self.keys, "depth": self.depth, "columns": self.columns}
        words |= {"wide": groups.wide, "groups": groups.tiles, "chunk": chunk, "chunks": chunks}
        words |= {"value_wide": value_wide, "value_groups": value_groups}
        words |= {"q_row": self.q_row, "k_row": rows[0], "v_row": rows[1]}
        words |= {"mask_row": self.mask_row, "y_row": self.y_row, "offset": self.offset}
        words |= {"scale": float(self.scale), **axis_words(axes, OPERANDS)}
        row = max(groups.widths) * lanes
        scratch = 4 * scratch_elements(row, -(-self.depth // lanes) * lanes, chunk, vectors * lanes)
        seconds = maximum(1, row * self.keys * (self.depth + self.columns)) / _MACS_PER_SECOND
        items = position_count(axes) * groups.tiles
        grain = maximum(1, minimum(math.floor(_PIECE / seconds), -(-items // 8)))
        pairs = position_count(axes) * self.queries * self.keys
        call = Call.named(specs[0], words, items, grain, scratch, 2 * pairs * (self.depth + vectors * lanes))
        return call.among(specs, groups.chosen)

    def _few_call(self, q: View, k: View, v: View, mask: View | None, y: View, target: Target) -> Call:
        """Return the call that attends one query of one pair of matrices at a time."""
        spec = FewQueriesSpec(
            self.depth,
            len(self.axes),
            _mask_type(mask),
            self.causal,
            self.zeros,
            self.nan_to_zero,
            q.type.dtype,
            y.type.dtype,
        )
        words: dict[str, Argument] = {
            "q": q,
            "k": k,
            "v": v,
            "mask": mask,
            "y": y,
            "queries": self.queries,
            "keys": self.keys,
            "columns": self.columns,
            "q_row": self.q_row,
            "k_row": self.k_row,
            "v_row": self.v_row,
            "mask_row": self.mask_row,
            "y_row": self.y_row,
            "offset": self.offset,
            "scale": float(self.scale),
            **axis_words(list(self.axes), OPERANDS),
        }
        seconds = maximum(1, self.keys * (self.depth + self.columns)) / (_MACS_PER_SECOND / 4)
        items = position_count(self.axes) * self.queries
        grain = maximum(1, minimum(math.floor(_PIECE / 4 / seconds), -(-items // 8)))
        return Call.named(spec, words, items, grain, 4 * (self.keys + target.lanes()))


def _query_groups(vectors: int, most: int) -> TileWidths:
    if is_size(vectors):
        return tile_widths(vectors, most)
    blocks, groups, wide = cut_exactly(vectors, most)
    return TileWidths((blocks,), 0, wide, groups, blocks - 1)


def _copied_axes(axes: Sequence[Axis], operand: int, step: int) -> tuple[Axis, ...]:
    """The axes with an operand's steps from copy to copy, each of `step` elements."""
    copied: list[Axis] = []
    for extent, steps in reversed(axes):
        moves = _moves(steps[operand])
        copied.append((extent, [*steps[:operand], step if moves else 0, *steps[operand + 1 :]]))
        step = step * extent if moves else step
    return tuple(reversed(copied))


def _moves(step: int) -> bool:
    return is_size(step) or step != 0


def _mask_type(mask: View | None) -> str:
    if mask is None:
        return ""
    return "bool" if mask.type.dtype.kind == "b" else short_name(mask.type.dtype)
