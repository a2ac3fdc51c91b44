"""Decoders of TensorFlow Lite's operators: one table."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np

from cenote.core.errors import ModelError, UnsupportedError
from cenote.frontends import tensorflow_common as common
from cenote.frontends.builder import reshaped, transposed
from cenote.frontends.channels_last import SlidingWindow, channels_first, channels_last
from cenote.frontends.tflite.operators_recurrent import RECURRENT
from cenote.frontends.tflite.operators_shape import SHAPES
from cenote.frontends.tflite.site import Decode, OperatorSite
from cenote.ops.pool.average import AveragePool


def _activated(op: str) -> Decode:
    return lambda site: site.activated(lambda name: site.builder.add(op, *site.values(), name=name))


def _conv(site: OperatorSite) -> str:
    """Decode a convolution. The kernel is (M, H, W, C / groups)."""
    return _convolved(site, site.weights(1, (0, 3, 1, 2)), 0)


def _convolved(site: OperatorSite, weights: str, groups: int) -> str:
    bias = site.weights(2, (0,))
    return site.pictures().conv_of(
        site.x(), weights, bias, site.windowed(), groups=groups, name=site.name, then=site.finished
    )


def _depthwise(site: OperatorSite) -> str:
    """Decode a depthwise convolution. The kernel is (1, H, W, C * multiplier)."""
    kernel = site.shape(1)
    if len(kernel) != 4 or kernel[0] != 1:
        raise ModelError(f"a depthwise kernel of shape {list(kernel)}")
    weights = site.weights(1, (3, 0, 1, 2), (kernel[3], 1, *kernel[1:3]))
    groups = kernel[3] // max(1, site.integer("depth_multiplier") or kernel[3] // max(1, site.shape(0)[3]))
    return _convolved(site, weights, groups)


def _conv_3d(site: OperatorSite) -> str:
    """Decode a convolution of volumes. The kernel is (D, H, W, C, M)."""
    return site.activated(
        lambda name: site.pictures().conv(site.x(), site.x(1), site.x(2), site.windowed(), name=name)
    )


def _transposed_conv(site: OperatorSite) -> str:
    """Decode a transposed convolution. Inputs: the shape of the result, the kernel (M, H, W, C), the picture, a
    bias."""
    shape = site.builder.known(site.stored(0))
    sizes = None if shape is None else [int(extent) for extent in shape.reshape(-1)[1:3]]
    kernel = transposed(site.builder, site.x(1), (1, 2, 0, 3))
    return site.activated(
        lambda name: site.pictures().conv_transpose(
            site.x(2), kernel, site.x(3), site.windowed(), sizes, name=name
        )
    )


def _transposed_conv_with_bias(site: OperatorSite) -> str:
    """Decode MediaPipe's operator. Inputs: x, kernel (M, H, W, C), bias; its options are padding, stride_w, stride_h
    as int32."""
    content = site.operator["custom_options"]
    if content is None or len(content) < 12:
        raise ModelError("its options are missing")
    padding, stride_w, stride_h = struct.unpack_from("<iii", content.tobytes())
    if padding not in (1, 2):
        raise ModelError(f"padding {padding}")
    kernel = transposed(site.builder, site.x(1), (1, 2, 0, 3))
    window = SlidingWindow((stride_h, stride_w), "SAME" if padding == 1 else "VALID")
    return site.pictures().conv_transpose(site.x(0), kernel, site.x(2), window, None, name=site.name)


def _pool(op: str) -> Decode:
    def decode(site: OperatorSite) -> str:
        if op == "AveragePool" and site.importer.tensor(site.outputs[0]).is_rounded:
            return site.activated(lambda name: _average_of_stored(site, name))
        return site.activated(lambda name: _pooled(site, op, site.x(), name))

    return decode


def _pooled(site: OperatorSite, op: str, x: str, name: str) -> str:
    size = site.integer("filter_height"), site.integer("filter_width")
    return site.pictures().pool(op, x, size, site.windowed(), name=name)


def _average_of_stored(site: OperatorSite, name: str) -> str:
    """Add the mean of the stored integers with halves rounded away from zero, as in TensorFlow Lite: with a window of
    2x2 every fourth mean ends in a half, and rounding it otherwise shifts the whole map."""
    builder, quantization = site.builder, site.importer.tensor(site.tensor_number(0)).quantization
    if quantization is None or quantization.scale.size != 1:
        raise ModelError("an average pool of integers takes one scale")
    window, rank = site.windowed(), site.rank()
    pool = AveragePool(
        (site.integer("filter_height"), site.integer("filter_width")),
        tuple(window.strides),
        pads=tuple((begin, end) for begin, end in window.pads),
        auto_pad={"SAME": "SAME_UPPER", "VALID": "VALID"}.get(window.padding, "NOTSET"),
        rounding="away",
    )
    x = channels_first(builder, site.stored(0), rank)
    (mean,) = builder.add_op(pool, (x,), (f"{name}/channels_first",))
    return site.importer.dequantized_like(channels_last(builder, mean, rank), site.tensor_number(0), name)


def _linear(site: OperatorSite) -> str:
    """Decode a linear layer. Inputs: x (of any rank; its elements make rows of the weights' length), weights (M, K),
    bias."""
    if site.integer("weights_format"):
        raise UnsupportedError("shuffled weights are not supported")
    weights = site.shape(1)
    if len(weights) != 2:
        raise ModelError(f"weights of shape {list(weights)}")
    x, builder = site.x(), site.builder

    def linear(name: str) -> str:
        is_matrix = site.rank() == 2 and site.shape()[1] == weights[1]
        rows = (
            x if is_matrix else site.importer.moved(x, lambda each: reshaped(builder, each, (-1, weights[1])))
        )
        keeps = site.flag("keep_num_dims") and site.rank() != 2
        made = builder.add(
            "Gemm",
            rows,
            site.weights(1, (0, 1)),
            site.weights(2, (0,)),
            transB=1,
            name=f"{name}/rows" if keeps else name,
        )
        if not keeps:
            return made
        before, last = builder.add("Shape", x, end=-1), builder.constant(np.array(weights[:1], np.int64))
        return builder.add("Reshape", made, builder.add("Concat", before, last, axis=0), name=name)

    return site.activated(linear)


def _batch_matmul(site: OperatorSite) -> str:
    values = []
    for index, flag in ((0, "adj_x"), (1, "adj_y")):
        rank = site.rank(index)
        order = (*range(rank - 2), rank - 1, rank - 2)
        values.append(transposed(site.builder, site.x(index), order) if site.flag(flag) else site.x(index))
    return site.builder.add("MatMul", *values, name=site.name)


def _softmax(site: OperatorSite) -> str:
    x, beta = site.x(), site.real("beta")
    if beta != 1.0:
        x = site.builder.add("Mul", x, site.builder.constant(np.float32(beta)))
    return site.builder.add("Softmax", x, name=site.name, axis=-1)


OPERATORS: Mapping[str, Decode] = {
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": _depthwise,
    "CONV_3D": _conv_3d,
    "TRANSPOSE_CONV": _transposed_conv,
    "custom Convolution2DTransposeBias": _transposed_conv_with_bias,
    "MAX_POOL_2D": _pool("MaxPool"),
    "AVERAGE_POOL_2D": _pool("AveragePool"),
    "FULLY_CONNECTED": _linear,
    "BATCH_MATMUL": _batch_matmul,
    "SOFTMAX": _softmax,
    **common.each("ADD SUB MUL DIV", lambda name: _activated(name.title())),
    **common.each(
        "LOGISTIC=Sigmoid TANH=Tanh RELU=Relu ELU=Elu HARD_SWISH=HardSwish EXP=Exp LOG=Log SQRT=Sqrt NEG=Neg ABS=Abs "
        "SIN=Sin COS=Cos FLOOR=Floor CEIL=Ceil ROUND=Round SIGN=Sign POW=Pow FLOOR_MOD=Mod ADD_N=Sum MAXIMUM=Max "
        "MINIMUM=Min EQUAL=Equal LESS=Less LESS_EQUAL=LessOrEqual GREATER=Greater GREATER_EQUAL=GreaterOrEqual "
        "LOGICAL_AND=And LOGICAL_OR=Or LOGICAL_NOT=Not PRELU=PRelu",
        common.plain,
    ),
    "LOG_SOFTMAX": common.plain("LogSoftmax", axis=-1),
    "RELU6": common.clip(0.0, 6.0),
    "RELU_N1_TO_1": common.clip(-1.0, 1.0),
    "RELU_0_TO_1": common.clip(0.0, 1.0),
    "LEAKY_RELU": common.leaky,
    "GELU": lambda site: site.builder.add(
        "Gelu", site.x(), name=site.name, approximate="tanh" if site.flag("approximate") else "none"
    ),
    "RSQRT": common.after("Sqrt", "Reciprocal"),
    "NOT_EQUAL": common.after("Equal", "Not"),
    "SQUARE": common.square,
    "SQUARED_DIFFERENCE": common.squared_difference,
    "FLOOR_DIV": common.floor_division,
    # x / sqrt(sum of squares of its last axis).
    "L2_NORMALIZATION": lambda site: site.activated(
        lambda name: site.builder.add("LpNormalization", site.x(), axis=-1, p=2, name=name)
    ),
    "LOCAL_RESPONSE_NORMALIZATION": common.lrn("radius"),
    **common.each(
        "MEAN=Mean SUM=Sum REDUCE_MAX=Max REDUCE_MIN=Min REDUCE_PROD=Prod",
        lambda name: common.reduction(f"Reduce{name}"),
    ),
    **RECURRENT,
    **SHAPES,
}
