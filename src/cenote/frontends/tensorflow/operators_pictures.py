"""Convolutions, pools, normalisation and resizing of TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from cenote.core.errors import ModelError, UnsupportedError
from cenote.frontends import tensorflow_common as common
from cenote.frontends.channels_last import SlidingWindow, pads_less_crops
from cenote.frontends.pieces import batch_to_blocks
from cenote.frontends.tensorflow.nodes import Decode, NodeSite, SpaceToBatchNode, Value
from cenote.frontends.tensorflow.resize_area import resize_area

# As many groups as the channels of x and of the weights imply.
_GROUPS_OF_WEIGHTS = 0


def _window(site: NodeSite) -> SlidingWindow:
    """Return strides, padding and dilations of a convolution's attributes."""
    if site.window is not None:
        return site.window
    rank = len(site.integers("strides"))
    padding = site.text("padding")
    pads = _explicit_pads(site, rank) if padding == "EXPLICIT" else ()
    return SlidingWindow(site.spatial("strides"), padding, pads, site.spatial("dilations", (1,) * rank))


def _explicit_pads(site: NodeSite, rank: int) -> Sequence[tuple[int, int]]:
    every = site.integers("explicit_paddings", ())
    if len(every) != 2 * rank:
        raise ModelError(f"explicit_paddings {list(every)} must have two numbers for each of {rank} axes")
    pairs = list(zip(every[::2], every[1::2], strict=True))
    channel = 1 if site.channels_first else rank - 1
    if pairs[0] != (0, 0) or pairs[channel] != (0, 0):
        raise UnsupportedError(f"explicit_paddings {list(every)} of batch or channels are not supported")
    return [pair for axis, pair in enumerate(pairs) if axis not in (0, channel)]


def _conv(site: NodeSite) -> str:
    window, name = _window(site), site.name
    return site.pictures().conv(site.x(0), site.x(1), "", window, groups=_GROUPS_OF_WEIGHTS, name=name)


def _depthwise(site: NodeSite) -> str:
    return site.pictures().depthwise(site.x(0), site.x(1), "", _window(site), name=site.name)


def _conv_transpose(site: NodeSite) -> str:
    """Decode the gradient of a convolution to its input. Inputs: the sizes of the result, the kernel, the
    gradient."""
    rank = len(site.integers("strides"))
    sizes = site.known(0)
    spatial = None
    if sizes is not None:
        every = [int(number) for number in sizes.reshape(-1)]
        channel = 1 if site.channels_first else rank - 1
        spatial = (
            [size for axis, size in enumerate(every) if axis not in (0, channel)]
            if len(every) == rank
            else every
        )
    window = SlidingWindow(
        site.spatial("strides"), site.text("padding"), (), site.spatial("dilations", (1,) * rank)
    )
    return site.pictures().conv_transpose(site.x(2), site.x(1), "", window, spatial, name=site.name)


def _bias(site: NodeSite) -> str:
    x, bias = site.values()[:2]
    if not site.channels_first:
        return site.builder.add("Add", x, bias, name=site.name)
    # Along axis 1 of an unknown number of axes, which only a normalisation can express.
    content = site.need(1, "the bias")
    zeros, ones = (site.builder.constant(np.full_like(content, number)) for number in (0, 1))
    return site.builder.add("BatchNormalization", x, ones, bias, zeros, ones, name=site.name, epsilon=0.0)


def _batch_norm(site: NodeSite) -> Sequence[str]:
    if site.flag("is_training", True):
        raise UnsupportedError(
            "is_training is set: it would normalise by the statistics of the batch; save the model for inference"
        )
    x, scale, offset, mean, variance = site.values()[:5]
    rank = 5 if site.text("data_format", "NHWC") in ("NDHWC", "NCDHW") else 4
    y = site.pictures().on_first(
        "BatchNormalization",
        x,
        rank,
        site.name,
        (scale, offset, mean, variance),
        epsilon=site.real("epsilon", 1e-4),
    )
    return (y, mean, variance, mean, variance, mean)


def _pool(op: str) -> Decode:
    def decode(site: NodeSite) -> str:
        every = site.integers("ksize") if "ksize" in site.attributes else site.numbers(1, "the window")
        strides = site.integers("strides") if "strides" in site.attributes else site.numbers(2, "the strides")
        padding = site.text("padding")
        pads = _explicit_pads(site, len(every)) if padding == "EXPLICIT" else ()
        window = SlidingWindow(site.spatial_of(strides, "strides"), padding, pads)
        size = site.spatial_of(every, "ksize")
        return site.pictures().pool(op, site.x(0), size, window, name=site.name)

    return decode


def _max_pool_with_places(site: NodeSite) -> Sequence[str]:
    """Decode a max pool and the places of the maxima: (row * width + column) * channels + channel, and picture by
    picture with `include_batch_in_index`."""
    window = SlidingWindow(site.spatial("strides"), site.text("padding"))
    names, builder = site.names(2), site.builder
    y, places = site.pictures().max_pool_with_places(
        site.x(0), site.spatial("ksize"), window, (names[0], f"{site.name}/planes")
    )
    shape, zero, one = builder.add("Shape", site.x(0)), builder.integers(0), builder.integers(1)
    batch, channels = (builder.add("Gather", shape, builder.integers(axis)) for axis in (0, 3))
    every_channel = builder.add("Range", zero, channels, one)
    flat = builder.add("Add", builder.add("Mul", places, channels), every_channel)
    if site.flag("include_batch_in_index"):
        picture = builder.add("ReduceProd", builder.add("Shape", site.x(0), start=1), keepdims=0)
        begins = builder.add("Mul", builder.add("Range", zero, batch, one), picture)
        column = builder.add("Reshape", begins, builder.integers([-1, 1, 1, 1]))
        flat = builder.add("Add", flat, column)
    return y, builder.cast(flat, site.dtype("Targmax", 9), names[1])


def _space_to_batch(site: NodeSite) -> Value:
    return SpaceToBatchNode(site.x(0), site.numbers(1, "the block"), site.stored(2))


def _batch_to_space(site: NodeSite) -> str:
    """Decode BatchToSpaceND: the end of a dilated convolution, where one (VALID, strides 1) stands between
    SpaceToBatchND and this, dilated by the block; else as it is."""
    spread, block = site.inputs[0] if site.inputs else "", site.numbers(1, "the block")
    if isinstance(spread, SpaceToBatchNode) and len(block) in (1, 2) and block == spread.block:
        with suppress(UnsupportedError):
            return _dilated(spread, site)
    return batch_to_blocks(site.builder, site.x(0), block, site.stored(2), site.name)


def _dilated(spread: SpaceToBatchNode, site: NodeSite) -> str:
    """Return the operations between, on the whole picture. UnsupportedError where they are no dilated convolution."""
    convolutions = [each for each in spread.waiting if each.op in ("Conv2D", "DepthwiseConv2dNative")]
    before = [each.op for each in spread.waiting if each.op != "ExpandDims"][:1]
    if len(convolutions) != 1 or before != [convolutions[0].op]:
        raise UnsupportedError("no convolution, or several, between SpaceToBatchND and BatchToSpaceND")
    left = pads_less_crops(site.builder, spread.pads, site.stored(2), spread.block)
    window = _window(convolutions[0]).dilated(spread.block, left)
    value: Value = spread.value
    for each in spread.waiting:
        inputs = [value, *each.inputs[1:]]
        # The node of the name itself computes in phases.
        name = f"{each.name}/whole"
        own = window if each is convolutions[0] else None
        value = replace(each, name=name, inputs=inputs, window=own).decoded()[0]
    assert isinstance(value, str)
    return value


PICTURES: Mapping[str, Decode] = {
    "Conv2D": _conv,
    "Conv3D": _conv,
    "DepthwiseConv2dNative": _depthwise,
    "Conv2DBackpropInput": _conv_transpose,
    "Conv3DBackpropInputV2": _conv_transpose,
    "BiasAdd": _bias,
    "BiasAddV1": _bias,
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), _batch_norm),
    **dict.fromkeys(("MaxPool", "MaxPoolV2", "MaxPool3D"), _pool("MaxPool")),
    **dict.fromkeys(("AvgPool", "AvgPool3D"), _pool("AveragePool")),
    "MaxPoolWithArgmax": _max_pool_with_places,
    "LRN": common.lrn("depth_radius"),
    "ResizeBilinear": common.resize("linear"),
    "ResizeNearestNeighbor": common.resize("nearest"),
    "ResizeBicubic": common.resize("cubic"),
    "ResizeArea": resize_area,
    "SpaceToDepth": common.depth("SpaceToDepth"),
    "DepthToSpace": common.depth("DepthToSpace"),
    "SpaceToBatchND": _space_to_batch,
    "BatchToSpaceND": _batch_to_space,
}
