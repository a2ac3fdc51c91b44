"""Scaled dot product attention, named and defaulted as in PyTorch."""

from __future__ import annotations

import math

from cenote.core.errors import ArgumentError, DTypeError, ShapeError, shown
from cenote.core.types import TensorType
from cenote.functional.arguments import HERE, Operation
from cenote.functional.kinds import Array
from cenote.functional.record import function
from cenote.ops.checks import BOOL, broadcast_shapes
from cenote.ops.sequence.scaled_dot_product import ScaledDotProduct


def _check_mask(mask: TensorType, scores: tuple[int, ...]) -> None:
    """ShapeError for a mask that does not broadcast to the scores."""
    padded = (1,) * (len(scores) - mask.rank) + mask.shape
    if len(padded) != len(scores) or any(m not in (1, n) for m, n in zip(padded, scores, strict=True)):
        raise ShapeError(f"attn_mask {mask} does not broadcast to {list(scores)}")


def _grouped(q: TensorType, k: TensorType, v: TensorType, mask: TensorType | None) -> list[tuple[int, ...]]:
    """Shapes with the heads of queries in runs that share one head of keys and values."""
    if (
        min(q.rank, k.rank, v.rank) < 3
        or not k.shape[-3]
        or q.shape[-3] % k.shape[-3]
        or k.shape[-3] != v.shape[-3]
    ):
        raise ShapeError(f"the heads of query {q} must be a multiple of those of key {k} and value {v}")
    heads, run = k.shape[-3], q.shape[-3] // k.shape[-3]
    shapes = [
        (*q.shape[:-3], heads, run, *q.shape[-2:]),
        (*k.shape[:-3], heads, 1, *k.shape[-2:]),
        (*v.shape[:-3], heads, 1, *v.shape[-2:]),
    ]
    if mask is not None:
        own = mask.shape
        if mask.rank >= 3:
            own = (*own[:-3], *((1, 1) if own[-3] == 1 else (heads, run)), *own[-2:])
        shapes.append(own)
    return shapes


@function()
def scaled_dot_product_attention(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Operation:
    """softmax(query @ key' * scale + mask) @ value, as torch.nn.functional.scaled_dot_product_attention.

    query, key, value  (..., L, E), (..., S, E) and (..., S, Ev) of one type: float64, float32, float16 or bfloat16; the
                       axes before the last two broadcast
    attn_mask          broadcasts to (..., L, S): bool (True: attended), or of the query's type and added to the scores
    dropout_p          0: there is no dropout here
    is_causal          query i attends keys 0 to i; without attn_mask
    scale              default 1 / sqrt(E)
    enable_gqa         key and value have fewer heads (axis -3), each shared by a run of the query's
    out                an array for the result
    threads            threads to use; None: as many as there are cores

    Views with permuted axes are read where they lie. Scores and sums are in float32 (float64 for float64); a query that
    attends no key gives zeros. Extra memory is a band of scores per thread, never all of them.
    Raises ShapeError, DTypeError and ArgumentError where the arguments do not fit, and for a dropout_p other than 0.
    """
    if dropout_p != 0:
        raise ArgumentError(f"dropout_p must be 0, got {shown(dropout_p)}; there is no dropout in it")
    q, k, v, mask = query, key, value, attn_mask
    if min(q.rank, k.rank, v.rank) < 2 or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ShapeError(
            f"query {q}, key {k} and value {v} must be (..., L, E), (..., S, E) and (..., S, Ev)"
        )
    if not q.dtype == k.dtype == v.dtype:
        raise DTypeError(f"query {q}, key {k} and value {v} must have one type")
    if mask is not None and mask.dtype not in (BOOL, q.dtype):
        raise DTypeError(f"attn_mask must be bool or {q.dtype}, got {mask.dtype}")
    if mask is not None:
        heads = (
            q.shape[:-2] if enable_gqa else broadcast_shapes(HERE, q.shape[:-2], k.shape[:-2], v.shape[:-2])
        )
        _check_mask(mask, (*heads, q.shape[-2], k.shape[-2]))
    if is_causal and mask is not None:
        raise ArgumentError("attn_mask must be None with is_causal=True")
    types = (q, k, v) if mask is None else (q, k, v, mask)
    given = _grouped(q, k, v, mask) if enable_gqa else [x.shape for x in types]
    factor = 1 / math.sqrt(max(1, q.shape[-1])) if scale is None else scale
    op = ScaledDotProduct(factor, is_causal, zeros=True)
    (y,) = op.infer(*(TensorType(x.dtype, shape) for x, shape in zip(types, given, strict=True)))
    return Operation(op, tuple(given), (y.shape if given[0] == q.shape else (*q.shape[:-1], v.shape[-1]),))
