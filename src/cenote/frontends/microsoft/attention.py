"""ONNX Runtime's attention operators, expressed by standard ones: of floats and of quantised inputs and weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from cenote.frontends.microsoft.writer import Write, Writer

_FILTERED = -10000.0  # what masked scores are lowered by, unless the node says it


def _attention(w: Writer) -> Sequence[str]:
    """Decode Attention. Inputs: x, weights and bias of queries, keys and values side by side, a mask; no past."""
    if any(w.input(i) for i in range(4, 7)) or w.get("qkv_hidden_sizes"):
        raise w.refuse("past keys or sizes of their own")
    return [_self_attended(w, w.plus(w.op("MatMul", w.input(0), w.input(1)), w.input(2)), w.input(3))]


def _quantized_attention(w: Writer) -> Sequence[str]:
    """Decode QAttention. Inputs: x and weights of bytes, bias, the scales of x and weights, a mask, the zero points;
    no past. Queries, keys and values are floats, and so is all that follows."""
    if w.input(8) or w.get("past_present_share_buffer", 0):
        raise w.refuse("past keys")
    zeros = (w.input(6), w.input(7))
    sums = w.op("Cast", w.op("MatMulInteger", w.input(0), w.input(1), *zeros), to=onnx.TensorProto.FLOAT)
    scaled = w.op("Mul", sums, w.op("Mul", w.input(3), w.input(4)))
    return [_self_attended(w, w.plus(scaled, w.input(2)), w.input(5))]


def _self_attended(w: Writer, projected: str, keys: str) -> str:
    """Attend with queries, keys and values side by side. `keys`: 1 for each key that counts and 0 for others, (batch,
    keys), or none."""
    if w.get("do_rotary", 0):
        raise w.refuse("do_rotary")
    q, k, v = w.several("Split", 3, projected, axis=-1, num_outputs=3)
    mask = ""
    if keys:
        # A mask of other axes is refused here.
        pairs = w.op("Transpose", keys, perm=[0, 1])
        counts = w.op(
            "Cast", w.op("Greater", pairs, w.op("CastLike", w.constant(0), pairs)), to=onnx.TensorProto.FLOAT
        )
        filtered = w.constant(float(w.get("mask_filter_value", _FILTERED)))
        lowered = w.op("Mul", w.op("Sub", w.constant(1.0), counts), filtered)
        mask = w.op("Unsqueeze", lowered, w.constant([1, 2], np.int64))
    return _attended(w, q, k, v, mask, bool(w.get("unidirectional", 0)))


def _multi_head_attention(w: Writer) -> Sequence[str]:
    """Decode MultiHeadAttention. Inputs: queries, keys, values, a bias of all three, a mask of keys (refused), a
    summand of the scores."""
    if not (w.input(1) and w.input(2)) or w.input(4) or any(w.input(i) for i in range(6, 10)):
        raise w.refuse("packed input, a mask of keys, or past keys")
    parts = [w.input(i) for i in range(3)]
    if w.input(3):
        biases = w.several("Split", 3, w.input(3), axis=0, num_outputs=3)
        parts = [w.plus(part, bias) for part, bias in zip(parts, biases, strict=True)]
    return [_attended(w, parts[0], parts[1], parts[2], w.input(5), bool(w.get("unidirectional", 0)))]


def _attended(w: Writer, q: str, k: str, v: str, mask: str, causal: bool) -> str:
    heads, scale = int(w.get("num_heads")), w.get("scale")
    # Used only with a mask.
    w.get("mask_filter_value")
    attributes: dict[str, Any] = {"q_num_heads": heads, "kv_num_heads": heads, "is_causal": int(causal)}
    return w.op("Attention", q, k, v, mask, **attributes, scale=float(scale) if scale else None)


ATTENTION: Mapping[str, Write] = {
    "Attention": _attention,
    "MultiHeadAttention": _multi_head_attention,
    "QAttention": _quantized_attention,
}
