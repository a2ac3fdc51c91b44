"""Operators of ONNX Runtime's own domain (com.microsoft), expressed by standard operators.

Models that were fused or quantised by ONNX Runtime's tools contain them. The standard operators are fused and
compiled like any other graph. `written_out` returns one as a function of nodes, whose inputs and outputs are the
node's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from cenote.core.errors import ModelError, UnsupportedError
from cenote.core.types import Array
from cenote.frontends.builder import PRIVATE, trimmed

MICROSOFT = "com.microsoft"
# Version of the standard operators below.
OPSET = 24
Write = Callable[["Writer"], Sequence[str]]


class Writer:
    """Collector of the nodes that replace one node. Values are names; "" is an absent one."""

    def __init__(self, node: Any, attributes: Mapping[str, Any]) -> None:
        self.kind, self.attributes = node.op_type, attributes
        self.inputs = [f"in{i}" if name else "" for i, name in enumerate(node.input)]
        self.wanted = [bool(name) for name in node.output]
        self.nodes: list[Any] = []
        self.used: set[str] = set()

    def input(self, index: int) -> str:
        """Return an input; "" where it is absent."""
        return self.inputs[index] if index < len(self.inputs) else ""

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute."""
        self.used.add(name)
        return self.attributes.get(name, default)

    def refuse(self, what: str) -> UnsupportedError:
        return UnsupportedError(f"{self.kind}: {what} is not supported")

    def op(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node; return its output's name. Absent inputs at the end are left out."""
        return self.several(kind, 1, *inputs, domain=domain, **attributes)[0]

    def several(
        self, kind: str, outputs: int, *inputs: str, domain: str = "", **attributes: Any
    ) -> list[str]:
        """Add a node of several outputs; return their names."""
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        present = {name: value for name, value in attributes.items() if value is not None}
        self.nodes.append(helper.make_node(kind, trimmed(inputs), names, domain=domain, **present))
        return names

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        return self.op("Constant", value=numpy_helper.from_array(np.asarray(value, dtype)))

    def passed(self, *names: str) -> dict[str, Any]:
        """Return attributes that are passed on unchanged, where they are present."""
        return {name: self.get(name) for name in names if self.get(name) is not None}

    def plus(self, *values: str) -> str:
        """Return the sum of the values that are present."""
        present = [value for value in values if value]
        total = present[0]
        for value in present[1:]:
            total = self.op("Add", total, value)
        return total

    def dequantized(self, index: int) -> str:
        """Return input `index` with the scale and zero point behind it, as floats."""
        return self.op("DequantizeLinear", *(self.input(index + i) for i in range(3)))

    def quantized(self, x: str, index: int, like: str) -> str:
        """Return x quantised by the scale at `index` and the zero point behind it; without one 0, in the type of
        `like`."""
        zero = self.input(index + 1) or self.op("CastLike", self.constant(0, np.int32), like)
        return self.op("QuantizeLinear", x, self.input(index), zero)

    def channels_first(self, x: str, rank: int) -> str:
        return self.op("Transpose", x, perm=[0, rank - 1, *range(1, rank - 1)])

    def channels_last(self, x: str, rank: int) -> str:
        return self.op("Transpose", x, perm=[0, *range(2, rank), 1])


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

_WINDOW = ("auto_pad", "dilations", "kernel_shape", "pads", "strides")


def _fused_conv(w: Writer) -> Sequence[str]:
    """Decode FusedConv. Inputs: x, weights, bias, a value that is added before the activation."""
    operands = (w.input(i) for i in range(3))
    y = w.plus(w.op("Conv", *operands, **w.passed(*_WINDOW, "group")), w.input(3))
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


def _integer_product(w: Writer, a: str, b: str, a_zero: str, b_zero: str) -> str:
    return w.op("Cast", w.op("MatMulInteger", a, b, a_zero, b_zero), to=onnx.TensorProto.FLOAT)


def _dynamic_matmul(w: Writer) -> Sequence[str]:
    """Decode DynamicQuantizeMatMul. Inputs: a, b, scale of b, its zero point, bias."""
    a, scale, zero = w.several("DynamicQuantizeLinear", 3, w.input(0))
    product = _integer_product(w, a, w.input(1), zero, w.input(3))
    return [w.plus(w.op("Mul", product, w.op("Mul", scale, w.input(2))), w.input(4))]


def _matmul_to_float(w: Writer) -> Sequence[str]:
    """Decode MatMulIntegerToFloat. Inputs: a, b, their scales, their zero points, bias."""
    product = _integer_product(w, w.input(0), w.input(1), w.input(4), w.input(5))
    return [w.plus(w.op("Mul", product, w.op("Mul", w.input(2), w.input(3))), w.input(6))]


def _qgemm(w: Writer) -> Sequence[str]:
    """Decode QGemm. Inputs: a, b (each with scale and zero point), an int32 bias, scale and zero point of y (without
    them: floats)."""
    a, b = w.input(0), w.input(3)
    a = w.op("Transpose", a, perm=[1, 0]) if w.get("transA", 0) else a
    b = w.op("Transpose", b, perm=[1, 0]) if w.get("transB", 0) else b
    zeros = [w.input(2), w.input(5)]
    total = w.plus(w.op("MatMulInteger", a, b, *zeros), w.input(6))
    scale = w.op("Mul", w.op("Mul", w.input(1), w.input(4)), w.constant(float(w.get("alpha", 1.0))))
    y = w.op("Mul", w.op("Cast", total, to=onnx.TensorProto.FLOAT), scale)
    return [w.quantized(y, 7, w.input(0)) if w.input(7) else y]


def _qlinear_conv(w: Writer) -> Sequence[str]:
    """Decode QLinearConv, like the standard operator; `channels_last`: the channels of pictures are the last axis."""
    last = w.get("channels_last", 0)
    attributes = w.passed(*_WINDOW, "group")
    if not last:
        return [w.op("QLinearConv", *w.inputs, **attributes)]
    rank = len(w.get("kernel_shape", (0, 0))) + 2
    y = w.op("QLinearConv", w.channels_first(w.input(0), rank), *w.inputs[1:], **attributes)
    return [w.channels_last(y, rank)]


# ---- quantised arithmetic ---------------------------------------------------------------------------------------


def _qlinear_binary(kind: str) -> Write:
    return lambda w: [w.quantized(w.op(kind, w.dequantized(0), w.dequantized(3)), 6, w.input(0))]


def _qlinear_unary(kind: str, *attributes: str) -> Write:
    return lambda w: [w.quantized(w.op(kind, w.dequantized(0), **w.passed(*attributes)), 3, w.input(0))]


def _qlinear_softmax(w: Writer) -> Sequence[str]:
    axis = int(w.get("axis", -1))
    if w.get("opset", 13) < 13 and axis != -1:
        raise w.refuse("an axis other than the last, before opset 13,")
    return [w.quantized(w.op("Softmax", w.dequantized(0), axis=axis), 3, w.input(0))]


def _qlinear_concat(w: Writer) -> Sequence[str]:
    """Decode QLinearConcat. Inputs: scale and zero point of y, then each input with its own."""
    parts = [w.dequantized(index) for index in range(2, len(w.inputs), 3)]
    return [w.quantized(w.op("Concat", *parts, axis=int(w.get("axis"))), 0, w.input(2))]


def _qlinear_pool(kind: str, *attributes: str) -> Write:
    def write(w: Writer) -> Sequence[str]:
        attributes_of = w.passed(*attributes)
        rank = len(attributes_of.get("kernel_shape", (0, 0))) + 2
        last, x = w.get("channels_last", 0), w.dequantized(0)
        y = w.op(kind, w.channels_first(x, rank) if last else x, **attributes_of)
        return [w.quantized(w.channels_last(y, rank) if last else y, 3, w.input(0))]

    return write


def _nhwc_max_pool(w: Writer) -> Sequence[str]:
    attributes = w.passed(*_WINDOW, "ceil_mode", "storage_order")
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


def _attention(w: Writer) -> Sequence[str]:
    """Decode Attention. Inputs: x, weights and bias of queries, keys and values side by side; no mask and no past."""
    if any(w.input(i) for i in range(3, 7)) or w.get("qkv_hidden_sizes") or w.get("do_rotary", 0):
        raise w.refuse("a mask, past keys or sizes of their own")
    projected = w.plus(w.op("MatMul", w.input(0), w.input(1)), w.input(2))
    q, k, v = w.several("Split", 3, projected, axis=-1, num_outputs=3)
    return [_attended(w, q, k, v, "", bool(w.get("unidirectional", 0)))]


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


_AVERAGE = (*_WINDOW, "ceil_mode", "count_include_pad")
_TABLE: dict[str, Write] = {
    "Attention": _attention,
    "BiasGelu": lambda w: [w.op("Gelu", w.plus(*w.inputs))],
    "DequantizeLinear": _same("DequantizeLinear", "axis"),
    "DynamicQuantizeMatMul": _dynamic_matmul,
    "EmbedLayerNormalization": _embed_layer_norm,
    "FastGelu": lambda w: [w.op("Gelu", w.plus(*w.inputs), approximate="tanh")],
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "FusedMatMul": _fused_matmul,
    "Gelu": _same("Gelu"),
    "MatMulIntegerToFloat": _matmul_to_float,
    "MultiHeadAttention": _multi_head_attention,
    "NhwcMaxPool": _nhwc_max_pool,
    "QGemm": _qgemm,
    "QLinearAdd": _qlinear_binary("Add"),
    "QLinearAveragePool": _qlinear_pool("AveragePool", *_AVERAGE),
    "QLinearConcat": _qlinear_concat,
    "QLinearConv": _qlinear_conv,
    "QLinearGlobalAveragePool": _qlinear_pool("GlobalAveragePool"),
    "QLinearLeakyRelu": _qlinear_unary("LeakyRelu", "alpha"),
    "QLinearMul": _qlinear_binary("Mul"),
    "QLinearSigmoid": _qlinear_unary("Sigmoid"),
    "QLinearSoftmax": _qlinear_softmax,
    "QuantizeLinear": _same("QuantizeLinear", "axis"),
    "QuickGelu": lambda w: [w.op("Swish", w.input(0), alpha=float(w.get("alpha", 1.702)))],
    "SimplifiedLayerNormalization": _rms_norm,
    "SkipLayerNormalization": _skip_layer_norm,
    "SkipSimplifiedLayerNormalization": _skip_rms_norm,
    "TransposeMatMul": _fused_matmul,
}
NAMES = tuple(f"{MICROSOFT}.{name}" for name in _TABLE)


def is_microsoft(domain: str, kind: str) -> bool:
    """Return whether it is an operator of the table. ONNX Runtime writes one of them into the standard domain."""
    return domain == MICROSOFT or (not domain and kind == "SimplifiedLayerNormalization")


def content(value: Any) -> Array | int | float | str:
    """Return an attribute's value as a Python value."""
    value_of: Array | int | float | str = helper.get_attribute_value(value)
    return value_of.decode() if isinstance(value_of, bytes) else value_of
