"""From the sizes and views of attention to calls: K' and V into panels, then bands of queries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cenote.core.sizes import is_size, maximum, minimum
from cenote.core.target import Target
from cenote.core.types import short_name
from cenote.kernels.base import Argument, Call, View
from cenote.kernels.conv.direct import widest
from cenote.kernels.product.attention import GROUPS, OPERANDS, AttentionSpec
from cenote.kernels.product.attention_few import FewQueriesSpec
from cenote.kernels.product.panels import Panels, is_one, panel_call
from cenote.kernels.strided_axes import Axis, axis_words, position_count

_BAND = 16  # tiles of queries that use a group of keys while it is in the first cache
_MACS_PER_SECOND = 40e9
_FEW = 4  # queries
_DEEP = 128  # of a head that lies in registers
_PIECE = 100e-6  # seconds of work that a thread takes at a time


@dataclass(frozen=True)
class AttentionProblem:
    """softmax(scale Q K' + mask) V for pairs of matrices: Q (queries, depth), K (keys, depth), V (keys, columns).

    `axes` are batch axes with their steps in (Q, K, V, mask, y); `*_row` are steps from row to row, `k_column` and
    `v_column` from column to column (in Q, the mask and y columns are contiguous). `offset`: see AttentionSpec.
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

    def panels(self, target: Target) -> tuple[Panels, Panels]:
        """Of K' (depth x keys) and V."""
        lanes = target.lanes()
        most = 4 if target.registers > 16 else 2
        value_blocks = max(1, min(most, -(-self.columns // lanes)))
        key_blocks = most
        if not is_size(self.keys):
            vectors = -(-self.keys // lanes)
            # Two vectors a group leave less to compute past the last key (197: 14 vectors, not 16) at 3 % per vector.
            key_blocks = min(
                (most, 2), key=lambda blocks: -(-vectors // blocks) * blocks * (1 + 0.06 / blocks)
            )
        return Panels(self.depth, self.keys, key_blocks, lanes), Panels(
            self.keys, self.columns, value_blocks, lanes
        )

    @property
    def few(self) -> bool:
        """So few queries that packing K and V takes longer than the rest, and rows that are read as they lie."""
        return (
            not is_size(self.queries)
            and self.queries <= _FEW
            and self.depth <= _DEEP
            and is_one(self.k_column)
            and is_one(self.v_column)
        )

    def packed_elements(self, target: Target) -> tuple[int, ...]:
        """Elements of K' and V in panels; none where they are not packed."""
        if self.few:
            return ()
        keys, values = self.panels(target)
        return position_count(self._own(1)) * keys.size, position_count(self._own(2)) * values.size

    def _own(self, operand: int) -> list[Axis]:
        """The batch axes along which an operand differs."""
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
        """Pack K' and V into `between`, then attend."""
        if self.few:
            yield self._few_call(q, k, v, mask, y, target)
            return
        keys, values = self.panels(target)
        yield panel_call(keys, k, self.k_column, self.k_row, self._own(1), between[0])
        yield panel_call(values, v, self.v_row, self.v_column, self._own(2), between[1])
        width = widest(max(keys.blocks, values.blocks), target.registers)
        if not is_size(self.queries):
            width = min(width, self.queries)
        spec = AttentionSpec(
            keys.blocks, values.blocks, width, self.depth, len(self.axes), _mask_type(mask), self.causal, self.zeros,
            q.type.dtype, y.type.dtype,
        )  # fmt: skip
        tiles = -(-self.queries // width)
        chunk = GROUPS * keys.width
        score_bytes = 4 * width * maximum(1, -(-self.keys // chunk)) * chunk
        band = minimum(_BAND, maximum(1, target.l2_bytes // 4 // score_bytes))
        bands = -(-tiles // band)
        band = -(-tiles // bands)
        bands = -(-tiles // band)
        words: dict[str, Argument] = {
            "q": q, "k": between[0], "v": between[1], "mask": mask, "y": y, "queries": self.queries, "keys": self.keys,
            "columns": self.columns, "tiles": tiles, "band": band, "bands": bands, "key_groups": keys.groups,
            "value_groups": values.groups, "q_row": self.q_row, "mask_row": self.mask_row, "y_row": self.y_row,
            "offset": self.offset, "scale": float(self.scale), **axis_words(self._packed(keys, values), OPERANDS),
        }  # fmt: skip
        padded = -(-self.depth // keys.lanes) * keys.lanes
        scratch = band * (score_bytes + 4 * width * (padded + values.width + 1))
        seconds = maximum(1, band * width * self.keys * (self.depth + self.columns)) / _MACS_PER_SECOND
        items = position_count(self.axes) * bands
        grain = maximum(1, minimum(math.floor(_PIECE / seconds), -(-items // 8)))
        pairs = position_count(self.axes) * self.queries * keys.groups * keys.width
        executed = 2 * pairs * (self.depth + values.groups * values.width)
        yield Call.named(spec, words, items, grain, scratch, executed)

    def _few_call(self, q: View, k: View, v: View, mask: View | None, y: View, target: Target) -> Call:
        """One query of one pair of matrices at a time."""
        spec = FewQueriesSpec(
            self.depth, len(self.axes), _mask_type(mask), self.causal, self.zeros, q.type.dtype, y.type.dtype
        )
        words: dict[str, Argument] = {
            "q": q, "k": k, "v": v, "mask": mask, "y": y, "queries": self.queries, "keys": self.keys,
            "columns": self.columns, "q_row": self.q_row, "k_row": self.k_row, "v_row": self.v_row,
            "mask_row": self.mask_row, "y_row": self.y_row, "offset": self.offset, "scale": float(self.scale),
            **axis_words(list(self.axes), OPERANDS),
        }  # fmt: skip
        seconds = maximum(1, self.keys * (self.depth + self.columns)) / (_MACS_PER_SECOND / 4)
        items = position_count(self.axes) * self.queries
        grain = maximum(1, minimum(math.floor(_PIECE / 4 / seconds), -(-items // 8)))
        return Call.named(spec, words, items, grain, 4 * (self.keys + target.lanes()))

    def _packed(self, keys: Panels, values: Panels) -> list[Axis]:
        """The axes with the steps of K and V from panels to panels."""
        axes: list[Axis] = []
        k_step, v_step = keys.size, values.size
        for extent, steps in reversed(self.axes):
            moves = [_moves(steps[1]), _moves(steps[2])]
            axes.append((extent, [steps[0], k_step * moves[0], v_step * moves[1], *steps[3:]]))
            k_step = k_step * extent if moves[0] else k_step
            v_step = v_step * extent if moves[1] else v_step
        return axes[::-1]


def _moves(step: int) -> bool:
    return is_size(step) or step != 0


def _mask_type(mask: View | None) -> str:
    if mask is None:
        return ""
    return "bool" if mask.type.dtype.kind == "b" else short_name(mask.type.dtype)
