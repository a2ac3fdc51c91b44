"""ONNX Runtime's operators on quantised tensors, expressed by standard operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from cenote.frontends.microsoft.writer import WINDOW, Write, Writer


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


def _matmul_n_bits(w: Writer) -> Sequence[str]:
    """Decode MatMulNBits. Inputs: a, weights (N, blocks, bytes of a block), scales, zero points packed likewise, an
    order of rows (refused), bias. Products of few rows read the weights in their bits."""
    bits, block = int(w.get("bits", 4)), int(w.get("block_size"))
    depth, columns = int(w.get("K")), int(w.get("N"))
    w.get("accuracy_level")  # sums of floats are right for all of them
    if bits not in (4, 8):
        raise w.refuse(f"{bits} bits")
    if w.input(4) or w.get("weight_prepacked", 0):
        raise w.refuse("g_idx or weight_prepacked")
    blocks = -(-depth // block)
    weights = _unpacked(w, w.input(1), bits, columns, depth)
    scales = w.op("Reshape", w.input(2), w.constant([columns, blocks], np.int64))
    if w.input(3):
        zeros = _unpacked(w, w.input(3), bits, columns, blocks)
    else:
        zeros = w.op(
            "Cast", w.constant(np.full((blocks, columns), 1 << (bits - 1)), np.uint8), to=_NARROW[bits]
        )
    turned = w.op("Transpose", scales, perm=[1, 0])
    matrix = w.op("DequantizeLinear", weights, turned, zeros, axis=0, block_size=block)
    return [w.plus(w.op("MatMul", w.input(0), matrix), w.input(5))]


_NARROW = {4: onnx.TensorProto.UINT4, 8: onnx.TensorProto.UINT8}


def _unpacked(w: Writer, packed: str, bits: int, rows: int, columns: int) -> str:
    """Return the numbers (columns, rows) of rows of bytes, each of which holds one, or two with the lower half first;
    what fills up a row is cut off."""
    if bits == 4:
        last = w.constant([-1], np.int64)
        low = w.op("BitwiseAnd", packed, w.constant(15, np.uint8))
        high = w.op("BitShift", packed, w.constant(4, np.uint8), direction="RIGHT")
        packed = w.op("Concat", *(w.op("Unsqueeze", half, last) for half in (low, high)), axis=-1)
    flat = w.op("Reshape", packed, w.constant([rows, -1], np.int64))
    ends = (w.constant([number], np.int64) for number in (0, columns, 1))
    turned = w.op("Transpose", w.op("Slice", flat, *ends), perm=[1, 0])
    return w.op("Cast", turned, to=_NARROW[bits])


def _qgemm(w: Writer) -> Sequence[str]:
    """Decode QGemm. Inputs: a, b (each with scale and zero point; b's one for all or one per column), an int32 bias at
    the scale of the sums, scale and zero point of y (without them: floats)."""
    if w.input(8) and not w.input(7):
        raise w.refuse("a zero point of y without its scale")
    turned, alpha = [bool(w.get(name, 0)) for name in ("transA", "transB")], float(w.get("alpha", 1.0))
    scale = w.op("Mul", w.input(1), w.input(4))
    if w.input(7) and alpha == 1:
        # A product between quantisations, which runs on bytes.
        a, b = w.dequantized(0), w.dequantized(3, axis=0 if turned[1] else 1)
        bias = w.op("DequantizeLinear", w.input(6), scale, axis=-1) if w.input(6) else ""
        y = w.op("Gemm", a, b, bias, transA=int(turned[0]), transB=int(turned[1]))
    else:
        sides = [w.input(0), w.input(3)]
        a, b = (
            w.op("Transpose", x, perm=[1, 0]) if turn else x for x, turn in zip(sides, turned, strict=True)
        )
        sums = w.plus(w.op("MatMulInteger", a, b, w.input(2), w.input(5)), w.input(6))
        scale = scale if alpha == 1 else w.op("Mul", scale, w.constant(alpha))
        y = w.op("Mul", w.op("Cast", sums, to=onnx.TensorProto.FLOAT), scale)
    return [w.quantized(y, 7, w.input(0)) if w.input(7) else y]


def _qlinear_conv(w: Writer) -> Sequence[str]:
    """Decode QLinearConv, like the standard operator; `channels_last`: the channels of pictures are the last axis."""
    last = w.get("channels_last", 0)
    attributes = w.passed(*WINDOW, "group")
    if not last:
        return [w.op("QLinearConv", *w.inputs, **attributes)]
    rank = len(w.get("kernel_shape", (0, 0))) + 2
    y = w.op("QLinearConv", w.channels_first(w.input(0), rank), *w.inputs[1:], **attributes)
    return [w.channels_last(y, rank)]


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
        last, x = w.get("channels_last", 0), w.input(0)
        # Bytes are turned, not floats, so that the pool stands between dequantisation and quantisation.
        floats = w.op("DequantizeLinear", w.channels_first(x, rank) if last else x, w.input(1), w.input(2))
        y = w.quantized(w.op(kind, floats, **attributes_of), 3, x)
        return [w.channels_last(y, rank) if last else y]

    return write


def _qlinear_where(w: Writer) -> Sequence[str]:
    """Decode QLinearWhere. Inputs: condition, x and y (each with scale and zero point), scale and zero point of z."""
    chosen = w.op("Where", w.input(0), w.dequantized(1), w.dequantized(4))
    return [w.quantized(chosen, 7, w.input(1))]


def _qlinear_mean(w: Writer) -> Sequence[str]:
    axes = w.get("axes")
    named = w.constant(axes, np.int64) if axes else ""
    y = w.op("ReduceMean", w.dequantized(0), named, **w.passed("keepdims"))
    return [w.quantized(y, 3, w.input(0))]


def _looked_up(w: Writer, table: int, ids: str, scale: int) -> str:
    """Return floats of rows of a quantised table: the rows are dequantised, not the table. The zero point is five
    inputs behind the scale."""
    return w.op("DequantizeLinear", w.op("Gather", w.input(table), ids), w.input(scale), w.input(scale + 5))


def _embed_layer_norm(w: Writer) -> Sequence[str]:
    """Decode QEmbedLayerNormalization. Inputs: words, segments, tables of words, positions and segments, scale, shift,
    mask, the five scales of tables, scale and shift, and their zero points. Outputs: the result, the number of words
    that the mask keeps."""
    ids = w.input(0)
    one, zero = w.constant([1], np.int64), w.constant([0], np.int64)
    rows = w.op("Slice", w.input(3), zero, w.op("Gather", w.op("Shape", ids), one), zero)
    places = w.op("DequantizeLinear", rows, w.input(9), w.input(14))
    segments = _looked_up(w, 4, w.input(1), 10) if w.input(4) else ""
    total = w.plus(_looked_up(w, 2, ids, 8), places, segments)
    gamma, beta = (w.op("DequantizeLinear", w.input(i), w.input(i + 6), w.input(i + 11)) for i in (5, 6))
    y = w.op("LayerNormalization", total, gamma, beta, epsilon=float(w.get("epsilon", 1e-12)))
    # Without a mask the count is 0, as in ONNX Runtime.
    mask = w.input(7) or w.op("Sub", ids, ids)
    return [y, w.op("ReduceSum", mask, one, keepdims=0)]


_AVERAGE = (*WINDOW, "ceil_mode", "count_include_pad")
QUANTIZED: Mapping[str, Write] = {
    "DynamicQuantizeMatMul": _dynamic_matmul,
    "MatMulIntegerToFloat": _matmul_to_float,
    "MatMulNBits": _matmul_n_bits,
    "QEmbedLayerNormalization": _embed_layer_norm,
    "QGemm": _qgemm,
    "QLinearAdd": _qlinear_binary("Add"),
    "QLinearAveragePool": _qlinear_pool("AveragePool", *_AVERAGE),
    "QLinearConcat": _qlinear_concat,
    "QLinearConv": _qlinear_conv,
    "QLinearGlobalAveragePool": _qlinear_pool("GlobalAveragePool"),
    "QLinearLeakyRelu": _qlinear_unary("LeakyRelu", "alpha"),
    "QLinearMul": _qlinear_binary("Mul"),
    "QLinearReduceMean": _qlinear_mean,
    "QLinearSigmoid": _qlinear_unary("Sigmoid"),
    "QLinearSoftmax": _qlinear_softmax,
    "QLinearWhere": _qlinear_where,
}
