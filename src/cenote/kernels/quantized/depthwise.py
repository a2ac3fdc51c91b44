"""Convolution of bytes whose groups lie within a vector: the depthwise kernel on bytes that become float32 as they are
loaded, for a few of them make each sum and a vector has no instruction for them.

The sums are exact as long as they stay within 2^24, as 258 products of the largest numbers do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, Pointer, Scalar, Value
from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.types import Array
from cenote.kernels.base import Argument, Call, KernelSpec, View
from cenote.kernels.conv.depthwise import DepthwiseSpec, Filters, Groups
from cenote.kernels.conv.depthwise_calls import depthwise_calls, in_blocks
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.quantized.conv import Levels
from cenote.kernels.quantized.requantize import store_requantized

LARGEST_SUM = 1 << 24
UINT8 = np.dtype(np.uint8)


@dataclass(frozen=True)
class DepthwiseQuantizedSpec(DepthwiseSpec):
    """Depthwise kernel of bytes; `x` and `y` are their types."""

    x: np.dtype[Any] = UINT8
    y: np.dtype[Any] = UINT8

    @property
    def words(self) -> tuple[Parameter, ...]:
        elements = {"x": Scalar.of(self.x), "y": Scalar.of(self.y)}
        own = (replace(word, type=elements.get(word.name, word.type)) for word in super().words)
        bounds = (
            Parameter("scales", F32, pointer=True),
            Parameter("low", F32),
            Parameter("high", F32),
            Parameter("zero"),
        )
        return (*own, *bounds)

    def _finish(self, k: Kernel, sums: list[Value], filters: Filters, y: Pointer) -> None:
        lanes = sums[0].lanes
        scales, step = k.pointer("scales").load(filters.first, lanes), self.spread * lanes
        places = [y + index * step for index in range(len(sums))]
        store_requantized(k, [total.to(F32) * scales for total in sums], places, self.spread == 1)


def quantized_depthwise_calls(
    shape: ConvShape,
    weights: Array,
    bias: Array,
    scales: Array,
    levels: Levels,
    x: View,
    y: View,
    target: Target,
) -> Iterator[Call]:
    """Yield the calls for int8 weights without their zero point, and a bias that takes off what x's zero point adds."""
    floats = weights.astype(np.float32), bias.astype(np.float32)
    patterns = Groups(shape.group_channels, shape.group_filters, y.layout.lanes)
    for call in depthwise_calls(shape, *floats, Activation(), x, y, None, target):
        assert isinstance(call.spec, DepthwiseSpec)
        words: dict[str, Argument] = {
            **dict(zip((word.name for word in call.spec.words), call.arguments, strict=True)),
            "scales": in_blocks(scales, replace(patterns, pattern=call.spec.pattern)).ravel(),
            "low": float(levels.low),
            "high": float(levels.high),
            "zero": levels.zero,
        }
        specs = tuple(_of_bytes(spec, x, y) for spec in call.specs)
        own = Call.named(specs[0], words, call.items, call.grain, call.scratch, call.operations)
        yield replace(own, independent=call.independent).among(specs, call.chosen)


def _of_bytes(spec: KernelSpec, x: View, y: View) -> DepthwiseQuantizedSpec:
    assert isinstance(spec, DepthwiseSpec)
    own = {field.name: getattr(spec, field.name) for field in fields(spec)}
    return DepthwiseQuantizedSpec(**own, x=x.type.dtype, y=y.type.dtype)
