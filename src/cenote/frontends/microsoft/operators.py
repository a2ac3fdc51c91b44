"""Operators of ONNX Runtime's own domain (com.microsoft), expressed by standard operators.

Models that were fused or quantised by ONNX Runtime's tools contain them. The standard operators are fused and
compiled like any other graph. `written_out` returns one as a function of nodes, whose inputs and outputs are the
node's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from cenote.core.errors import ModelError
from cenote.core.types import Array
from cenote.frontends.builder import PRIVATE
from cenote.frontends.microsoft.attention import ATTENTION
from cenote.frontends.microsoft.quantized import QUANTIZED
from cenote.frontends.microsoft.writer import WINDOW, Write, Writer

MICROSOFT = "com.microsoft"
# Version of the standard operators below.
OPSET = 24


def written_out(node: Any, attributes: Mapping[str, Any]) -> Any | None:
    """Return the node as a FunctionProto of standard operators; None for an operator that is not in the table.

    Raises UnsupportedError for attributes and inputs that have no equivalent here.
    """
    write = _TABLE.get(node.op_type)
    if write is None:
        return None
    writer = Writer(node, attributes)
    outputs = list(write(writer))
    unknown = sorted(set(attributes) - writer.used)
    if unknown:
        raise writer.refuse(f"attribute {', '.join(unknown)}")
    if any(writer.wanted[len(outputs) :]) or any(
        wanted and not made for wanted, made in zip(writer.wanted, outputs, strict=False)
    ):
        raise writer.refuse("an output beyond the first")
    formals = [name or f"absent{i}" for i, name in enumerate(writer.inputs)]
    results = [made or f"none{i}" for i, made in enumerate(outputs)][: len(writer.wanted)]
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(PRIVATE, 1)]
    if len(set(results)) < len(results) or set(results) & set(formals):
        raise ModelError(f"{node.op_type}: an output is handed on twice")
    return onnx.helper.make_function(MICROSOFT, node.op_type, formals, results, writer.nodes, opsets)


# ---- activations ------------------------------------------------------------------------------------------------


def _activated(w: Writer, x: str, kind: str, parameters: Sequence[float]) -> str:
    """Apply an activation by its ONNX name, with its parameters in the order in which ONNX Runtime lists them."""
    names = {"LeakyRelu": ["alpha"], "HardSigmoid": ["alpha", "beta"], "Elu": ["alpha"]}
    if not kind or kind == "Identity":
        return x
    if kind == "Clip":
        low, high = parameters
        return w.op("Clip", x, w.constant(low), w.constant(high))
    if kind in ("Relu", "Sigmoid", "Tanh", "HardSwish") or kind in names:
        given: dict[str, Any] = dict(zip(names.get(kind, ()), map(float, parameters), strict=False))
        return w.op(kind, x, **given)
    raise w.refuse(f"activation '{kind}'")


# ---- products ---------------------------------------------------------------------------------------------------


def _fused_conv(w: Writer) -> Sequence[str]:
    """Decode FusedConv. Inputs: x, weights, bias, a value that is added before the activation."""
    operands = (w.input(i) for i in range(3))
    y = w.plus(w.op("Conv", *operands, **w.passed(*WINDOW, "group")), w.input(3))
    return [_activated(w, y, w.get("activation", ""), w.get("activation_params", ()))]


def _fused_gemm(w: Writer) -> Sequence[str]:
    y = w.op("Gemm", *w.inputs, **w.passed("alpha", "beta", "transA", "transB"))
    names = [f"activation_{name}" for name in ("alpha", "beta", "gamma")]
    parameters = [value for name in names if (value := w.get(name)) is not None]
    return [_activated(w, y, w.get("activation", ""), parameters)]


def _fused_matmul(w: Writer) -> Sequence[str]:
    sides = []
    for index, side in enumerate("AB"):
        if w.get(f"transBatch{side}", 0):
            raise w.refuse(f"transBatch{side}")
        x = w.input(index)
        sides.append(w.op("TransposeLast", x, domain=PRIVATE) if w.get(f"trans{side}", 0) else x)
    product, alpha = w.op("MatMul", *sides), float(w.get("alpha", 1.0))
    return [product if alpha == 1 else w.op("Mul", product, w.op("CastLike", w.constant(alpha), product))]


def _nhwc_max_pool(w: Writer) -> Sequence[str]:
    attributes = w.passed(*WINDOW, "ceil_mode", "storage_order")
    rank = len(attributes["kernel_shape"]) + 2
    return [w.channels_last(w.op("MaxPool", w.channels_first(w.input(0), rank), **attributes), rank)]


def _same(kind: str, *attributes: str) -> Write:
    """Return a decoder for an operator that the standard domain has by now."""
    return lambda w: [w.op(kind, *w.inputs, **w.passed(*attributes))]


# ---- transformers -----------------------------------------------------------------------------------------------


def _skip_layer_norm(w: Writer) -> Sequence[str]:
    """Decode SkipLayerNormalization. Inputs: x, a second summand, scale, shift, a bias that is added too. The fourth
    output is the sum."""
    total = w.plus(w.input(0), w.input(1), w.input(4))
    epsilon = float(w.get("epsilon", 1e-5))
    return [w.op("LayerNormalization", total, w.input(2), w.input(3), epsilon=epsilon), "", "", total]


def _skip_rms_norm(w: Writer) -> Sequence[str]:
    total = w.plus(w.input(0), w.input(1), w.input(3))
    y = w.op("RMSNormalization", total, w.input(2), epsilon=float(w.get("epsilon", 1e-5)))
    return [y, "", "", total]


def _rms_norm(w: Writer) -> Sequence[str]:
    attributes = w.passed("axis", "epsilon", "stash_type")
    return [w.op("RMSNormalization", w.input(0), w.input(1), **attributes)]


def _embed_layer_norm(w: Writer) -> Sequence[str]:
    """Decode EmbedLayerNormalization. Inputs: words, segments, tables of words, positions and segments, scale, shift,
    mask, positions. Outputs: the result, the number of words that the mask keeps, the sum before normalising."""
    ids, words = w.input(0), w.op("Gather", w.input(2), w.input(0))
    one, zero = w.constant([1], np.int64), w.constant([0], np.int64)
    if w.input(8):
        places = w.op("Gather", w.input(3), w.input(8))
    else:
        places = w.op("Slice", w.input(3), zero, w.op("Gather", w.op("Shape", ids), one), zero)
    total = w.plus(words, places, w.op("Gather", w.input(4), w.input(1)) if w.input(4) else "")
    y = w.op("LayerNormalization", total, w.input(5), w.input(6), epsilon=float(w.get("epsilon", 1e-12)))
    if w.get("mask_index_type", 1) not in (0, 1):
        raise w.refuse("mask_index_type")
    # Without a mask the count is 0, as in ONNX Runtime.
    mask = w.input(7) or w.op("Sub", ids, ids)
    kept = w.op("ReduceSum", mask, one, keepdims=0)
    return [y, kept, total]


_TABLE: dict[str, Write] = {
    "BiasGelu": lambda w: [w.op("Gelu", w.plus(*w.inputs))],
    "DequantizeLinear": _same("DequantizeLinear", "axis"),
    "EmbedLayerNormalization": _embed_layer_norm,
    "FastGelu": lambda w: [w.op("Gelu", w.plus(*w.inputs), approximate="tanh")],
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "FusedMatMul": _fused_matmul,
    "Gelu": _same("Gelu"),
    "NhwcMaxPool": _nhwc_max_pool,
    "QuantizeLinear": _same("QuantizeLinear", "axis"),
    "QuickGelu": lambda w: [w.op("Swish", w.input(0), alpha=float(w.get("alpha", 1.702)))],
    "SimplifiedLayerNormalization": _rms_norm,
    "SkipLayerNormalization": _skip_layer_norm,
    "SkipSimplifiedLayerNormalization": _skip_rms_norm,
    "TransposeMatMul": _fused_matmul,
    **ATTENTION,
    **QUANTIZED,
}
NAMES = tuple(f"{MICROSOFT}.{name}" for name in _TABLE)


def is_microsoft(domain: str, kind: str) -> bool:
    """Return whether it is an operator of the table. ONNX Runtime writes one of them into the standard domain."""
    return domain == MICROSOFT or (not domain and kind == "SimplifiedLayerNormalization")


def content(value: Any) -> Array | int | float | str:
    """Return an attribute's value as a Python value."""
    value_of: Array | int | float | str = helper.get_attribute_value(value)
    return value_of.decode() if isinstance(value_of, bytes) else value_of
