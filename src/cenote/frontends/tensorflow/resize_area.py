"""TensorFlow's ResizeArea: every output pixel is the mean of the area of the picture that it stands for."""

from __future__ import annotations

import numpy as np

from cenote.core.types import FLOAT32
from cenote.frontends.builder import GraphBuilder
from cenote.frontends.tensorflow.nodes import NodeSite

_BEYOND = 3.0e38  # where the last pixel ends: it is repeated as far as an area reaches


def resize_area(site: NodeSite) -> str:
    """Decode ResizeArea of x (N, height, width, C): rows, then columns, are weighted sums, so two products. Of open
    sizes the weights are computed when the model runs."""
    builder, x, sizes = site.builder, site.x(), site.x(1)
    if site.dtype("T") != FLOAT32:
        x = builder.cast(x, FLOAT32)
    shape = builder.add("Shape", x)
    weights = [
        _weights(
            builder, _size(builder, shape, axis), _size(builder, sizes, axis - 1), site.flag("align_corners")
        )
        for axis in (1, 2)
    ]
    rows = builder.add("Reshape", x, builder.integers([0, 0, -1]))
    rows = builder.add("MatMul", weights[0], rows)
    width, channels = (_size(builder, shape, axis) for axis in (2, 3))
    every = builder.add("Concat", builder.integers([0, 0]), width, channels, axis=0)
    return builder.add("MatMul", weights[1], builder.add("Reshape", rows, every), name=site.name)


def _size(builder: GraphBuilder, sizes: str, index: int) -> str:
    """Return one of some sizes, (1,) int64."""
    one = builder.add("Gather", sizes, builder.integers([index]))
    return builder.cast(one, np.dtype(np.int64))


def _weights(builder: GraphBuilder, given: str, wanted: str, align_corners: bool) -> str:
    """Return the matrix (wanted, given) of the share that each pixel has in each area, along one axis."""

    def steps(size: str) -> str:
        count = builder.add("Squeeze", size)
        return builder.cast(builder.add("Range", builder.integers(0), count, builder.integers(1)), FLOAT32)

    one = builder.constant(np.float32(1))
    numerator, denominator = builder.cast(given, FLOAT32), builder.cast(wanted, FLOAT32)
    if align_corners:
        several = builder.add("Greater", denominator, one)
        pairs = [(builder.add("Sub", size, one), size) for size in (numerator, denominator)]
        numerator, denominator = (builder.add("Where", several, *pair) for pair in pairs)
    scale = builder.add("Div", numerator, denominator)
    areas = builder.add("Unsqueeze", steps(wanted), builder.integers([1]))
    pixels = steps(given)
    last = builder.add("Equal", pixels, builder.add("Sub", builder.cast(given, FLOAT32), one))
    ends = builder.add("Where", last, builder.constant(np.float32(_BEYOND)), builder.add("Add", pixels, one))
    begin = builder.add("Max", builder.add("Mul", areas, scale), pixels)
    end = builder.add("Min", builder.add("Mul", builder.add("Add", areas, one), scale), ends)
    return builder.add("Div", builder.add("Relu", builder.add("Sub", end, begin)), scale)
