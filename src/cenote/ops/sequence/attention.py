"""Attention: scaled dot products of queries and keys, softmax, and the values' average by it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, DTypeError, ShapeError
from cenote.core.sizes import is_size
from cenote.core.target import Target
from cenote.core.types import Array, TensorType, is_float
from cenote.ops.base import Arrays, Imported, Lowering, Op, Sample, Types
from cenote.ops.checks import BOOL, broadcast_shapes, int64s, read, require_kind, require_same_dtype
from cenote.ops.sequence.scaled_dot_product import ScaledDotProduct
from cenote.ops.values import narrow, seeded, wide


def _decode_attention(node: Imported) -> Op:
    """Attention of ai.onnx 23, 24 and 25 (windows). All work is in float64, so the softmax's precision is no matter."""
    sides = ("left_window_size", "right_window_size")
    op = read(
        Attention, node, "scale", "softcap", query_heads="q_num_heads", key_heads="kv_num_heads", causal="is_causal",
        score_stage="qk_matmul_output_mode", counted="outputs", ignored=(*sides, "softmax_precision"),
    )  # fmt: skip
    return replace(op, window=(int(node.get(sides[0], -1)), int(node.get(sides[1], -1))))


@dataclass(frozen=True)
class Attention(Op):
    """softmax(scale * Q K' + bias) V, per sample and head.

    Q is (batch, heads, queries, size) or, with `query_heads` and `key_heads`, (batch, queries, heads *
    size); K and V likewise, V with a size of its own; fewer key heads than query heads are shared by runs
    of query heads. The other inputs are optional: a mask (bool: what to attend, or float: added) that
    broadcasts to (batch, heads, queries, keys) and is closed where it has too few keys; earlier keys and
    values, put in front; how many keys of each sample are real. `scale` is 1/sqrt(size) by default;
    `softcap` > 0 bounds the scores to softcap * tanh(score / softcap); `causal` lets query i attend keys up
    to i + offset, `window` those from offset + i - left to offset + i + right (-1: no bound), where offset
    counts the keys that precede the queries.

    A query without any key gives zeros. Outputs, as many as `outputs` says: the result, all keys, all
    values, and the scores of `score_stage` (0: raw, 1: after softcap, 2: with bias, 3: after softmax).
    """

    query_heads: int = 0
    key_heads: int = 0
    scale: float | None = None
    softcap: float = 0.0
    causal: bool = False
    window: tuple[int, int] = (-1, -1)
    score_stage: int = 0
    outputs: int = 1

    name = "attention"
    operands = ("q", "k", "v", "mask?", "past_key?", "past_value?", "key_lengths?")
    from_onnx = {"Attention": _decode_attention}

    def shapes(self, q: TensorType, k: TensorType, v: TensorType) -> tuple[tuple[int, ...], ...]:
        """Q, K and V as (batch, heads, length, size)."""
        if not q.rank == k.rank == v.rank or q.rank not in (3, 4):
            raise ShapeError(f"attention: Q {q}, K {k} and V {v} must all have 3 or 4 axes")
        if q.rank == 4:
            result: tuple[tuple[int, ...], ...] = (q.shape, k.shape, v.shape)
        else:
            heads = (self.query_heads, self.key_heads, self.key_heads)
            if 0 in heads or any(x.shape[2] % n for x, n in zip((q, k, v), heads, strict=True)):
                raise ShapeError(f"attention: Q {q}, K {k}, V {v} do not divide into {heads[:2]} heads")
            result = tuple(
                (x.shape[0], n, x.shape[1], x.shape[2] // n) for x, n in zip((q, k, v), heads, strict=True)
            )
        (batch, heads_q, _, size), keys, values = result
        if keys[0] != batch or keys[3] != size or keys[:3] != values[:3] or not keys[1] or heads_q % keys[1]:
            raise ShapeError(f"attention: Q {q}, K {k} and V {v} do not fit each other")
        return result

    def types(
        self,
        q: TensorType,
        k: TensorType,
        v: TensorType,
        mask: TensorType | None,
        past_key: TensorType | None,
        past_value: TensorType | None,
        lengths: TensorType | None,
    ) -> Types:
        require_same_dtype(self.name, require_kind(self.name, q, "f", "q"), k, past_key)
        require_same_dtype(self.name, require_kind(self.name, v, "f", "v"), past_value)
        (batch, heads, queries, _), keys, values = self.shapes(q, k, v)
        past = self._past(keys, values, past_key, past_value, lengths)
        if lengths is not None and require_kind(self.name, lengths, "i", "key_lengths").shape != (batch,):
            raise ShapeError(f"attention: key_lengths {lengths} must have shape [{batch}]")
        if min(self.window) < -1 or self.score_stage not in range(4):
            raise ArgumentError(
                f"attention: window {self.window} or stage {self.score_stage} is out of range"
            )
        total = past + keys[2]
        if mask is not None:
            self._check_mask(mask, (batch, heads, queries, total))
        y = (batch, heads, queries, values[3]) if q.rank == 4 else (batch, queries, heads * values[3])
        return (
            TensorType(q.dtype, y),
            TensorType(k.dtype, (batch, keys[1], total, keys[3])),
            TensorType(v.dtype, (batch, keys[1], total, values[3])),
            TensorType(q.dtype, (batch, heads, queries, total)),
        )[: self.outputs]

    def _past(
        self,
        keys: tuple[int, ...],
        values: tuple[int, ...],
        past_key: TensorType | None,
        past_value: TensorType | None,
        lengths: TensorType | None,
    ) -> int:
        """Number of earlier keys. Raises ArgumentError or ShapeError for a past that does not fit."""
        if (past_key is None) != (past_value is None) or (past_key is not None and lengths is not None):
            raise ArgumentError("attention: past_key and past_value come together, and without key_lengths")
        if past_key is None or past_value is None:
            return 0
        for past, new in ((past_key, keys), (past_value, values)):
            if past.rank != 4 or (*past.shape[:2], past.shape[3]) != (*new[:2], new[3]):
                raise ShapeError(f"attention: past {past} does not fit new keys or values {list(new)}")
        if past_key.shape[2] != past_value.shape[2]:
            raise ShapeError(f"attention: past_key {past_key} and past_value {past_value} differ in length")
        return past_key.shape[2]

    def _check_mask(self, mask: TensorType, shape: tuple[int, ...]) -> None:
        if mask.dtype != BOOL and not is_float(mask.dtype):
            raise DTypeError(f"attention: the mask is {mask.dtype}; it must be bool or float")
        if not 1 <= mask.rank <= 4 or mask.shape[-1] > shape[3]:
            raise ShapeError(f"attention: mask {mask} does not broadcast to {list(shape)}")
        padded = (*mask.shape[:-1], shape[3])
        if broadcast_shapes(self.name, padded, shape) != shape:
            raise ShapeError(f"attention: mask {mask} does not broadcast to {list(shape)}")

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        q, k, v, mask, past_key, _, lengths = self.arranged(inputs)
        plain = self.outputs == 1 and self.softcap <= 0 and self.window == (-1, -1)
        if not plain or past_key is not None or lengths is not None or not q.dtype == k.dtype == v.dtype:
            return
        queries, keys, values = self.shapes(q, k, v)
        heads, shared = keys[1], queries[1] // keys[1]
        by_head = q.rank == 4
        # (batch, length, heads, shared, size) to (batch, heads, shared, …)
        order = () if by_head else (0, 2, 3, 1, 4)
        types = []
        for (batch, _, length, size), run in ((queries, shared), (keys, 1), (values, 1)):
            shape = (batch, heads, run, length, size) if by_head else (batch, length, heads, run, size)
            types.append(TensorType(q.dtype, shape))
        back = () if by_head else (0, 3, 1, 2, 4)
        scale = 1 / math.sqrt(max(queries[3], 1)) if self.scale is None else self.scale
        op = ScaledDotProduct(
            scale, self.causal, zeros=True, permute_q=order, permute_k=order, permute_v=order, permute_y=back
        )
        given: list[TensorType | None] = [*types]
        if mask is not None:
            given.append(_mask_by_head(mask, heads, shared))
        for option in op.lowerings(given, target):
            absent = (None,) * (len(inputs) - len(option.inputs))
            yield replace(option, inputs=(*option.inputs, *absent))

    def compute(
        self,
        q: Array,
        k: Array,
        v: Array,
        mask: Array | None,
        past_key: Array | None,
        past_value: Array | None,
        lengths: Array | None,
    ) -> Arrays:
        split = self.shapes(*map(TensorType.known, (q, k, v)))
        types = self.declared(q, k, v, mask, past_key, past_value, lengths)
        queries, keys, values = (_by_head(x, shape) for x, shape in zip((q, k, v), split, strict=True))
        if past_key is not None and past_value is not None:
            keys, values = np.concatenate((past_key, keys), 2), np.concatenate((past_value, values), 2)
        shared = split[0][1] // split[1][1]
        scale = 1 / math.sqrt(max(split[0][3], 1)) if self.scale is None else self.scale
        raw = wide(queries) @ np.repeat(wide(keys), shared, 1).swapaxes(2, 3) * scale
        capped = self.softcap * np.tanh(raw / self.softcap) if self.softcap > 0 else raw
        offset = 0 if past_key is None else past_key.shape[2]
        bias = self._bias(split[0][2], keys.shape[2], offset, mask, lengths)
        biased = capped + bias
        weights = _softmax(biased, np.isneginf(bias))
        y = weights @ np.repeat(wide(values), shared, 1)
        if q.ndim == 3:
            y = y.transpose(0, 2, 1, 3).reshape(types[0].shape)
        scores = np.broadcast_to((raw, capped, biased, weights)[self.score_stage], raw.shape)
        results = (narrow(y, q.dtype), keys, values, narrow(scores, q.dtype))
        return results[: self.outputs]

    def _bias(self, queries: int, keys: int, offset: int, mask: Array | None, lengths: Array | None) -> Array:
        """Bias of the scores, minus infinity where a query may not attend: (batch or 1, heads or 1, queries, keys)."""
        offsets = np.reshape(offset if lengths is None else lengths - queries, (-1, 1, 1, 1))
        ahead = np.arange(keys) - np.arange(queries)[:, None] - offsets
        open_ = np.ones(ahead.shape, bool)
        if self.causal:
            open_ &= ahead <= 0
        if self.window[0] >= 0:
            open_ &= ahead >= -self.window[0]
        if self.window[1] >= 0:
            open_ &= ahead <= self.window[1]
        if lengths is not None:
            open_ &= np.arange(keys) < lengths.reshape(-1, 1, 1, 1)
        bias = np.where(open_, 0.0, -np.inf)
        if mask is None:
            return bias
        extra = np.where(mask, 0.0, -np.inf) if mask.dtype == BOOL else wide(mask)
        missing = [(0, 0)] * (mask.ndim - 1) + [(0, keys - mask.shape[-1])]
        return np.asarray(bias + np.pad(extra, missing, constant_values=-np.inf))

    def operations(
        self, outputs: Types, q: TensorType, k: TensorType, v: TensorType, *rest: TensorType | None
    ) -> int:
        (batch, heads, queries, size), keys, values = self.shapes(q, k, v)
        total = keys[2] + (0 if rest[1] is None else rest[1].shape[2])
        return 2 * batch * heads * queries * total * (size + values[3])

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        q, k, v = seeded((2, 4, 3, 8), 1), seeded((2, 2, 5, 8), 2), seeded((2, 2, 5, 6), 3)
        yield Sample(Attention(outputs=4, score_stage=3), (q, k, v), "shared heads")
        yield Sample(
            Attention(causal=True, softcap=2.0), (q, k, v, seeded((4, 3, 4), dtype=np.bool_)), "short mask"
        )
        past = (None, seeded((2, 2, 3, 8), 4), seeded((2, 2, 3, 6), 5))
        yield Sample(Attention(causal=True, outputs=3), (q, k, v, *past), "past keys")
        lengths = (None, None, None, int64s((5, 1)))
        yield Sample(
            Attention(window=(1, 1), scale=0.5), (q, k, v, seeded((3, 5), 6), *lengths[1:]), "lengths"
        )
        flat = (seeded((1, 3, 8), 1), seeded((1, 4, 4), 2), seeded((1, 4, 6), 3))
        yield Sample(Attention(4, 2), flat, "three axes")
        yield Sample(Attention(causal=True), (q, k, v), "causal, shared heads")
        yield Sample(Attention(4, 2), (*flat, seeded((1, 4, 3, 4), 4, np.bool_)), "three axes, mask")
        half = tuple(x.astype(np.float16) for x in (q, k, v))
        yield Sample(Attention(outputs=4, score_stage=2), half, "half")
        yield Sample(Attention(), (seeded((0, 2, 3, 4), 1), seeded((0, 2, 3, 4), 2), seeded((0, 2, 3, 4), 3)))


def _mask_by_head(mask: TensorType, heads: int, shared: int) -> TensorType:
    """A mask over (batch, heads, ...) as one over (batch, heads, shared, ...)."""
    if mask.rank < 3:
        return mask
    *batch, of_heads, rows, columns = mask.shape
    split = (1, 1) if not is_size(of_heads) and of_heads == 1 else (heads, shared)
    return TensorType(mask.dtype, (*batch, *split, rows, columns))


def _by_head(x: Array, shape: tuple[int, ...]) -> Array:
    """(batch, length, heads * size) as (batch, heads, length, size)."""
    if x.ndim == 4:
        return x
    batch, heads, length, size = shape
    return x.reshape(batch, length, heads, size).transpose(0, 2, 1, 3)


def _softmax(scores: Array, closed: Array) -> Array:
    """Softmax over the last axis; zeros in a row that is closed throughout."""
    empty = np.broadcast_to(closed, scores.shape).all(-1, keepdims=True)
    powers = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    return np.asarray(np.where(empty, 0, powers / powers.sum(-1, keepdims=True)))
