"""Decoders of Keras's layers: one table. Layers of pictures are here, layers that move elements in `layers_shape`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cenote.core.errors import ModelError, UnsupportedError
from cenote.frontends.builder import transposed
from cenote.frontends.channels_last import SlidingWindow
from cenote.frontends.keras.activations import LAYERS as ACTIVATIONS
from cenote.frontends.keras.activations import activated
from cenote.frontends.keras.layer import Decode, KerasValue, LayerCall
from cenote.frontends.keras.layers_shape import SHAPES
from cenote.frontends.keras.masks import MASKS, mean_of_steps
from cenote.frontends.keras.recurrent import RECURRENT, distributed


def _window(
    call: LayerCall, strides: Sequence[int], dilations: Sequence[int] = (), size: Sequence[int] = ()
) -> SlidingWindow:
    """Return the window of a layer; "causal" padding is the whole reach of the window before its place."""
    padding = call.layer.text("padding", "valid")
    if padding == "causal":
        pads = [((extent - 1) * step, 0) for extent, step in zip(size, dilations, strict=False)]
        return SlidingWindow(strides, "EXPLICIT", pads, dilations)
    if padding not in ("same", "valid"):
        raise ModelError(f"padding '{padding}' is none of same, valid, causal")
    return SlidingWindow(strides, padding.upper(), (), dilations)


def _steps(call: LayerCall, spatial: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the strides and dilations of a layer."""
    return call.layer.integers("strides", spatial, 1), call.layer.integers("dilation_rate", spatial, 1)


def _bias(call: LayerCall, index: int) -> str:
    return call.weight(index, "bias", 1) if call.layer.flag("use_bias", True) else ""


def _conv(spatial: int) -> Decode:
    def decode(call: LayerCall) -> str:
        layer, rank = call.layer, call.need_rank(spatial + 2)
        window = _window(call, *_steps(call, spatial), layer.integers("kernel_size", spatial))
        kernel, bias, groups = call.weight(0, "kernel", rank), _bias(call, 1), layer.integer("groups", 1)
        return activated(
            call,
            lambda name: call.pictures().conv(call.x, kernel, bias, window, groups=groups, name=name),
        )

    return decode


def _depthwise_of(call: LayerCall, spatial: int, kernel: str, bias: str, name: str) -> str:
    window = _window(call, *_steps(call, spatial), call.layer.integers("kernel_size", spatial))
    return call.pictures().depthwise(call.x, kernel, bias, window, name=name)


def _depthwise(spatial: int) -> Decode:
    def decode(call: LayerCall) -> str:
        kernel = call.weight(0, "kernel", call.need_rank(spatial + 2))
        return activated(call, lambda name: _depthwise_of(call, spatial, kernel, _bias(call, 1), name))

    return decode


def _separable(spatial: int) -> Decode:
    """Decode a convolution of each channel, followed by one that mixes the channels."""

    def decode(call: LayerCall) -> str:
        rank = call.need_rank(spatial + 2)
        alone, mixing = call.weight(0, "depthwise_kernel", rank), call.weight(1, "pointwise_kernel", rank)
        x = _depthwise_of(call, spatial, alone, "", f"{call.name}/depthwise")
        window = SlidingWindow((1,) * spatial, "VALID")
        return activated(
            call,
            lambda name: call.pictures().conv(x, mixing, _bias(call, 2), window, name=name),
        )

    return decode


def _conv_transpose(spatial: int) -> Decode:
    def decode(call: LayerCall) -> str:
        layer, rank = call.layer, call.need_rank(spatial + 2)
        if layer.config.get("output_padding") is not None:
            raise UnsupportedError("output_padding is not supported")
        kernel, bias = call.weight(0, "kernel", rank), _bias(call, 1)
        window = _window(call, *_steps(call, spatial))
        return activated(
            call,
            lambda name: call.pictures().conv_transpose(call.x, kernel, bias, window, None, name=name),
        )

    return decode


def _pool(op: str, spatial: int) -> Decode:
    def decode(call: LayerCall) -> str:
        layer = call.layer
        call.need_rank(spatial + 2)
        size = layer.integers("pool_size", spatial)
        strides = layer.integers("strides", spatial) if layer.config.get("strides") is not None else size
        return call.pictures().pool(op, call.x, size, _window(call, strides), name=call.name)

    return decode


def _global_pool(op: str, spatial: int) -> Decode:
    def decode(call: LayerCall) -> KerasValue:
        rank, keep = call.need_rank(spatial + 2), call.layer.flag("keepdims", False)
        axes = call.builder.integers(call.spatial)
        if call.value.mask and (op, spatial) == ("ReduceMean", 1):
            return KerasValue(mean_of_steps(call, axes, int(keep)), rank if keep else 2)
        y = call.builder.add(op, call.x, axes, name=call.name, keepdims=int(keep))
        return KerasValue(y, rank if keep else 2)

    return decode


def _dense(call: LayerCall) -> str:
    kernel, bias, builder = call.weight(0, "kernel", 2), _bias(call, 1), call.builder

    def linear(name: str) -> str:
        if call.rank == 2:
            return builder.add("Gemm", call.x, kernel, bias, name=name)
        if not bias:
            return builder.add("MatMul", call.x, kernel, name=name)
        return builder.add("Add", builder.add("MatMul", call.x, kernel), bias, name=name)

    return activated(call, linear)


def _scaled(call: LayerCall, first: int) -> tuple[str, str, int]:
    """Return scale and offset of a normalisation, "" for absent ones, and the index of the next array."""
    scale = call.weight(first, "gamma") if call.layer.flag("scale", True) else ""
    first += bool(scale)
    offset = call.weight(first, "beta") if call.layer.flag("center", True) else ""
    return scale, offset, first + bool(offset)


def _normalization(call: LayerCall) -> str:
    axis, rank = call.axis(), call.rank
    if axis not in (1, rank - 1):
        raise UnsupportedError(f"batch normalisation along axis {axis} of {rank} is not supported")
    scale, offset, following = _scaled(call, 0)
    mean, variance = (
        call.weight(following, "moving_mean", 1),
        call.weight(following + 1, "moving_variance", 1),
    )
    channels = call.builder.constants[mean].size
    scale = scale or call.builder.constant(np.ones(channels, np.float32))
    offset = offset or call.builder.constant(np.zeros(channels, np.float32))
    pictures = call.pictures()
    pictures.first = axis == 1
    epsilon = call.layer.real("epsilon", 1e-3)
    operands = scale, offset, mean, variance
    return pictures.on_first("BatchNormalization", call.x, rank, call.name, operands, epsilon=epsilon)


def _layer_normalization(call: LayerCall) -> str:
    """Decode a normalisation over the last axes."""
    if call.layer.config.get("rms_scaling"):
        raise UnsupportedError("rms_scaling is not supported")
    axes = sorted(axis % call.rank for axis in call.layer.integers("axis", 0, -1))
    if axes != list(range(axes[0] if axes else 0, call.rank)) or not axes:
        raise UnsupportedError(
            f"normalisation over axes {axes} of {call.rank}, which are not the last, is not supported"
        )
    scale, offset, _ = _scaled(call, 0)
    shape = call.builder.constants[scale or offset].shape if scale or offset else (1,)
    scale = scale or call.builder.constant(np.ones(shape, np.float32))
    epsilon = call.layer.real("epsilon", 1e-3)
    return call.builder.add(
        "LayerNormalization", call.x, scale, offset, name=call.name, axis=axes[0], epsilon=epsilon
    )


def _group_normalization(call: LayerCall) -> str:
    axis, rank, builder = call.axis(), call.rank, call.builder
    scale, offset, _ = _scaled(call, 0)
    if axis not in (1, rank - 1) or rank < 3 or not (scale or offset):
        raise UnsupportedError(
            f"group normalisation along axis {axis} of {rank}, or without scale and offset"
        )
    channels = builder.constants[scale or offset].size
    scale = scale or builder.constant(np.ones(channels, np.float32))
    offset = offset or builder.constant(np.zeros(channels, np.float32))
    groups = call.layer.integer("groups", 32)
    order = (0, rank - 1, *range(1, rank - 1))
    x = call.x if axis == 1 else transposed(builder, call.x, order)
    y = builder.add(
        "GroupNormalization",
        x,
        scale,
        offset,
        num_groups=channels if groups == -1 else groups,
        epsilon=call.layer.real("epsilon", 1e-3),
        name=call.name if axis == 1 else "",
    )
    return y if axis == 1 else transposed(builder, y, (0, *range(2, rank), 1), call.name)


def _rescaling(call: LayerCall) -> str:
    numbers = []
    for name, default in (("scale", 1.0), ("offset", 0.0)):
        number = call.layer.config.get(name, default)
        try:
            numbers.append(call.builder.constant(np.array(number, np.float32)))
        except (TypeError, ValueError):
            raise ModelError(f"'{name}' of the configuration is {number!r:.80}") from None
    return call.builder.add("Add", call.builder.add("Mul", call.x, numbers[0]), numbers[1], name=call.name)


def _standardization(call: LayerCall) -> str:
    """Decode (x - mean) / max(sqrt(variance), 1e-7), each along the axes that the layer keeps."""
    layer, builder = call.layer, call.builder
    configured = [layer.config.get(f"input_{name}", layer.config.get(name)) for name in ("mean", "variance")]
    try:
        statistics = [
            layer.array(index, what) if each is None else np.array(each, np.float32)
            for index, (each, what) in enumerate(zip(configured, ("mean", "variance"), strict=True))
        ]
    except (TypeError, ValueError):
        raise ModelError("'mean' or 'variance' of the configuration is no list of numbers") from None
    kept = (
        sorted(axis % call.rank for axis in layer.integers("axis", 0, -1))
        if layer.config.get("axis", -1) is not None
        else []
    )
    if any(each.size > 1 for each in statistics) and kept != [call.rank - 1]:
        if len(kept) != 1:
            raise UnsupportedError(f"statistics kept along axes {kept} are not supported")
        statistics = [
            each.reshape([-1 if axis == kept[0] else 1 for axis in range(call.rank)]) for each in statistics
        ]
    elif all(each.size == 1 for each in statistics):
        statistics = [each.reshape(()) for each in statistics]
    mean = builder.constant(statistics[0].astype(np.float32))
    deviation = builder.constant(np.maximum(np.sqrt(statistics[1].astype(np.float32)), np.float32(1e-7)))
    if layer.flag("invert", False):
        return builder.add("Add", builder.add("Mul", call.x, deviation), mean, name=call.name)
    return builder.add("Div", builder.add("Sub", call.x, mean), deviation, name=call.name)


def _embedding(call: LayerCall) -> KerasValue:
    indices, kind = call.value.name, call.value.dtype
    if kind.kind == "f":
        kind = np.dtype(np.int32)
        indices = call.builder.cast(indices, kind)
    y = call.builder.add("Gather", call.weight(0, "embeddings", 2), indices, name=call.name, axis=0)
    mask = ""
    if call.layer.flag("mask_zero", False):
        zero = call.builder.constant(np.zeros((), kind))
        mask = call.builder.add("Not", call.builder.add("Equal", indices, zero))
    return KerasValue(y, call.rank + 1, mask=mask)


def _merge(op: str) -> Decode:
    def decode(call: LayerCall) -> KerasValue:
        ranks = {each.rank for each in call.inputs}
        if (
            len(ranks) != 1
            or len({each.dtype for each in call.inputs}) != 1
            or (op == "Sub" and len(call.inputs) != 2)
        ):
            raise UnsupportedError(f"{len(call.inputs)} values of {sorted(ranks)} axes are not supported")
        y = call.inputs[0].name
        if op in ("Sum", "Max", "Min", "Mean"):
            y = call.builder.add(op, *(each.name for each in call.inputs), name=call.name)
        else:
            for each in call.inputs[1:]:
                y = call.builder.add(op, y, each.name, name=call.name)
        return KerasValue(y, call.inputs[0].rank, call.inputs[0].dtype)

    return decode


# Layers that change nothing outside of training.
_OF_TRAINING = (
    "Dropout SpatialDropout1D SpatialDropout2D SpatialDropout3D GaussianNoise GaussianDropout AlphaDropout "
    "ActivityRegularization RandomFlip RandomRotation RandomZoom RandomTranslation RandomContrast RandomBrightness"
)
LAYERS: Mapping[str, Decode] = {
    **{f"Conv{n}D": _conv(n) for n in (1, 2, 3)},
    **{f"Convolution{n}D": _conv(n) for n in (1, 2, 3)},
    **{f"Conv{n}DTranspose": _conv_transpose(n) for n in (1, 2, 3)},
    **{f"DepthwiseConv{n}D": _depthwise(n) for n in (1, 2)},
    **{f"SeparableConv{n}D": _separable(n) for n in (1, 2)},
    **{f"MaxPooling{n}D": _pool("MaxPool", n) for n in (1, 2, 3)},
    **{f"AveragePooling{n}D": _pool("AveragePool", n) for n in (1, 2, 3)},
    **{f"GlobalMaxPooling{n}D": _global_pool("ReduceMax", n) for n in (1, 2, 3)},
    **{f"GlobalAveragePooling{n}D": _global_pool("ReduceMean", n) for n in (1, 2, 3)},
    "Dense": _dense,
    **dict.fromkeys(("BatchNormalization", "BatchNormalizationV1", "SyncBatchNormalization"), _normalization),
    "LayerNormalization": _layer_normalization,
    "GroupNormalization": _group_normalization,
    "Rescaling": _rescaling,
    "Normalization": _standardization,
    "Embedding": _embedding,
    "Add": _merge("Sum"),
    "Multiply": _merge("Mul"),
    "Subtract": _merge("Sub"),
    "Average": _merge("Mean"),
    "Maximum": _merge("Max"),
    "Minimum": _merge("Min"),
    **dict.fromkeys(_OF_TRAINING.split(), lambda call: call.value),
    **ACTIVATIONS,
    **SHAPES,
    **RECURRENT,
    **MASKS,
    "TimeDistributed": lambda call: distributed(call, LAYERS),
}
