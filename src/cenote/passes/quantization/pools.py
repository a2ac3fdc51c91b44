"""Means between dequantisation and quantisation as those of bytes: of whole maps, and of windows.

    %a = dequantize_linear %q, …
    %b = global_average_pool %a            ->    %y = qlinear_global_average_pool %q, …
    %y = quantize_linear %b, …

The mean of a window is a depthwise convolution, whose weights are ones at the scale 1 / number of taps. Where windows
differ in that number, it is the mean of whole numbers, if the scale stays.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from cenote.core.sizes import is_size, plain
from cenote.core.target import Target
from cenote.core.types import Array, TensorType
from cenote.graph.graph import Graph, Node
from cenote.kernels.cost_model import LAUNCH, moved_seconds
from cenote.ops.base import Op
from cenote.ops.conv.conv import Conv
from cenote.ops.pool.average import AveragePool
from cenote.ops.pool.whole_map import GlobalAveragePool
from cenote.ops.quantization.quantize import DequantizeLinear, QuantizeLinear
from cenote.ops.quantization.quantized_linear import QLinearConv
from cenote.ops.quantization.quantized_pools import QLinearGlobalAveragePool
from cenote.passes.declined import estimated
from cenote.passes.fuse import Rewriter
from cenote.passes.quantization.scales import scale_and_zero_point

_WHOLE = ("x_scale", "x_zero", "y_scale", "y_zero")
_WINDOW = ("x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero")


def quantize_means(graph: Graph, target: Target) -> Graph:
    """Take means of bytes where the quantised means are all that is read, and no slower than those of floats."""
    if not any(isinstance(node.op, AveragePool | GlobalAveragePool) for node in graph.nodes):
        return graph
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        if isinstance(node.op, QuantizeLinear):
            _quantize(rewriter, node, target)
    return rewriter.result()


def _quantize(rewriter: Rewriter, last: Node, target: Target) -> None:
    """Replace the mean that a node quantises."""
    found = rewriter.producer(last.inputs[0], Op)
    if found is None or not isinstance(found[1], AveragePool | GlobalAveragePool):
        return
    pool, place = found[0], rewriter.position.get(found[0].inputs[0])
    first = None if place is None else rewriter.nodes[place]
    if first is None or not isinstance(first.op, DequantizeLinear):
        return
    x_scale, x_zero = scale_and_zero_point(rewriter, first)
    y_scale, y_zero = scale_and_zero_point(rewriter, last)
    if x_scale is None or x_zero is None or y_scale is None or y_zero is None:
        return
    x = rewriter.type(first.inputs[0])
    if isinstance(found[1], AveragePool):
        window = _window(found[1], x)
        if window is None:
            whole = _of_integers(found[1], (x_scale, x_zero), (y_scale, y_zero))
            if whole is not None:
                _merge(rewriter, pool, last, whole, first, {}, target)
            return
        weights, w_scale = window
        values = (x_scale, x_zero, weights, w_scale, np.zeros((), np.int8), y_scale, y_zero)
        _merge(
            rewriter,
            pool,
            last,
            _convolution(found[1], len(weights)),
            first,
            dict(zip(_WINDOW, values, strict=True)),
            target,
        )
    elif replace(found[1], accumulate=None) == GlobalAveragePool():
        values_of_map = (x_scale, x_zero, y_scale, y_zero)
        op = QLinearGlobalAveragePool()
        _merge(rewriter, pool, last, op, first, dict(zip(_WHOLE, values_of_map, strict=True)), target)


def _merge(
    rewriter: Rewriter, pool: Node, last: Node, op: Op, first: Node, values: dict[str, Array], target: Target
) -> None:
    """Put an operator of bytes in place of a pool and its quantisation, if it is estimated to take no longer."""
    x, y = rewriter.type(first.inputs[0]), rewriter.type(last.outputs[0])
    types = [x, *map(TensorType.known, values.values())]
    other = estimated(pool.op, [rewriter.type(pool.inputs[0])], target)
    # Floats are made of the bytes of x, and bytes of those of y: two steps more, five bytes read and written for each.
    if estimated(op, types, target) > other + 2 * LAUNCH + plain(moved_seconds(5 * (x.size + y.size))):
        return
    names = [rewriter.constant(f"{last.outputs[0]}.{name}", value) for name, value in values.items()]
    rewriter.merge(pool, last, op, (first.inputs[0], *names))


def _window(pool: AveragePool, x: TensorType) -> tuple[Array, Array] | None:
    """Ones for the taps of each channel, and their scale; None where windows differ in what they divide by."""
    ordinary = AveragePool(pool.window, pool.stride, pool.pads, pool.dilation)
    if replace(pool, count_include_pad=False, accumulate=None) != ordinary or is_size(x.shape[1]):
        return None
    if any(map(any, pool.pads)) and not pool.count_include_pad:
        return None
    scale = np.float32(1) / np.float32(math.prod(pool.window))
    return np.ones((x.shape[1], 1, *pool.window), np.int8), np.array(scale, np.float32)


def _of_integers(pool: AveragePool, x: tuple[Array, Array], y: tuple[Array, Array]) -> AveragePool | None:
    """The pool of the whole numbers that x consists of, by its scale and zero point, where y has the same; else None.

    The mean of whole numbers rounds as that of their differences from a zero point does, if this is even."""
    same = x[0] == y[0] and x[1] == y[1] and x[1].dtype == y[1].dtype
    if not same or x[1].item() % 2 or pool.count_include_pad or pool.divisor_override:
        return None
    return replace(pool, rounding="even", accumulate=None)


def _convolution(pool: AveragePool, channels: int) -> QLinearConv:
    """The depthwise convolution with the windows of a pool."""
    return QLinearConv(
        Conv(
            strides=pool.stride, pads=pool.pads, dilations=pool.dilation, groups=channels, window=pool.window
        )
    )
