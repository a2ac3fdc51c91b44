"""Partial inverse of max pooling: values go back to where they came from, zeros elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, DTypeError, InputError, ShapeError
from cenote.core.pool_geometry import Pairs, extents, padding_pairs
from cenote.core.target import Target
from cenote.core.types import INT64, Array, TensorType
from cenote.ops.base import Arrays, Box, Decoder, Imported, Lowering, Op, Sample, Types, ValueNeeded
from cenote.ops.pool.index_lowerings import outside, scatter_lowerings
from cenote.ops.pool.onnx_attributes import window_attributes
from cenote.ops.pool.window import (
    INDEX_RULES,
    NUMBERS,
    MaxPool,
    as_declared,
    channels_first,
    check_dtype,
    spatial_of,
    with_spatial,
)
from cenote.ops.traits import MapOp
from cenote.ops.values import seeded


def decode_max_unpool(node: Imported) -> Op:
    """MaxUnpool of ai.onnx 9, 11, 22."""
    node.expect("kernel_shape", "pads", "strides")
    fields = window_attributes("max_unpool", node)
    inverts = node.makers.get(1) == "MaxPool"
    return MaxUnpool(fields["window"], fields["stride"], fields["pads"], inverts=inverts)


@dataclass(frozen=True)
class MaxUnpool(MapOp):
    """Write each element of x (N, C, *spatial) to the place its index names, in a tensor of zeros.

    Inputs: x, indices (int64, of x's shape) and, as ONNX has it, an optional constant output_shape (int64,
    the whole shape, of any spatial extents). `output` gives the spatial extents instead; without either
    they are (in - 1) stride - begin - end + window. `index` says what indices count, as in MaxPool.

    With ONNX's output_shape, indices that a MaxPool of the model makes (`inverts`) count in the output, as
    in ONNX Runtime: maxima return to where they were in maps of any size. Others count in the map of the
    size that the formula gives, which lies at the begin of the output (so the tests of ONNX have it, against
    ONNX Runtime), unless that map does not fit into the output: then in the output.

    Where two indices are equal the last value in row-major order stays. An index below 0 or past the map
    raises InputError.
    """

    window: tuple[int, ...]
    stride: tuple[int, ...] = ()
    pads: Pairs = ()
    output: tuple[int, ...] = ()
    index: str = "tensor"
    channels_last: bool = False
    inverts: bool = False

    name: ClassVar[str] = "max_unpool"
    operands = ("x", "indices", "output_shape?")
    from_onnx: ClassVar[Mapping[str, Decoder]] = {"MaxUnpool": decode_max_unpool}

    def default_size(self, spatial: Sequence[int]) -> tuple[int, ...]:
        """The spatial extents that pooling with the same arguments most likely came from."""
        rank = len(self.window)
        if len(spatial) != rank:
            raise ShapeError(
                f"max_unpool: kernel_size has {rank} numbers, the input {len(spatial)} spatial axes"
            )
        window = extents("max_unpool", "kernel_size", self.window, rank)
        stride = extents("max_unpool", "stride", self.stride, rank)
        pads = padding_pairs("max_unpool", self.pads, rank)
        sizes = zip(spatial, stride, pads, window, strict=True)
        return tuple((extent - 1) * s - begin - end + k for extent, s, (begin, end), k in sizes)

    def sizes(self, x: TensorType, shape: TensorType | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Spatial extents of the map that indices count in, and of the output."""
        counted = self.default_size(spatial_of(x.shape, self.channels_last))
        if self.output:
            if len(self.output) != len(counted) or any(extent < 0 for extent in self.output):
                raise ArgumentError(
                    f"max_unpool: output_size {self.output} must hold {len(counted)} extents of 0 or more"
                )
            return self.output, self.output
        if shape is None:
            if any(extent < 1 for extent in counted):
                raise ShapeError(f"max_unpool: the output size would be {counted}; give a smaller padding")
            return counted, counted
        if shape.value is None:
            raise ValueNeeded(2)
        wanted = tuple(int(extent) for extent in np.asarray(shape.value).ravel())
        if len(wanted) != x.rank or wanted[:2] != x.shape[:2] or min(wanted[2:]) < 1:
            raise ShapeError(f"max_unpool: output_shape {wanted} does not fit the input {x}")
        fits = all(1 <= small <= big for big, small in zip(wanted[2:], counted, strict=True))
        return (wanted if self.inverts or not fits else (*x.shape[:2], *counted))[2:], wanted[2:]

    def types(self, x: TensorType, indices: TensorType, shape: TensorType | None) -> Types:
        check_dtype("max_unpool", x.dtype, NUMBERS)
        if self.index not in INDEX_RULES:
            raise ArgumentError(
                f"max_unpool: index rule '{self.index}' is not known (allowed: {', '.join(INDEX_RULES)})"
            )
        if indices.dtype != INT64:
            raise DTypeError(f"max_unpool: indices must be int64, got {indices.dtype}")
        if indices.shape != x.shape:
            raise ShapeError(
                f"max_unpool: indices must have the input's shape {list(x.shape)}, got {list(indices.shape)}"
            )
        if x.rank < 3 or 0 in x.shape[2:]:
            raise ShapeError(f"max_unpool: needs (N, C, *spatial) with a spatial part, got {list(x.shape)}")
        _, output = self.sizes(x, shape)
        return (TensorType(x.dtype, with_spatial(x.shape, output, self.channels_last)),)

    def compute(self, x: Array, indices: Array, shape: Array | None) -> Arrays:
        (result,) = self.declared(x, indices, shape)
        counted, _ = self.sizes(TensorType.known(x), None if shape is None else TensorType.known(shape))
        values, places = (channels_first(value, self.channels_last) for value in (x, indices))
        size = math.prod(counted)
        plane = within_plane(places, (*values.shape[:2], *counted), self.index)
        y = np.zeros((values.shape[0] * values.shape[1], size), x.dtype)
        rows = np.arange(len(y))[:, None]
        count = math.prod(values.shape[2:])
        # The last of equal indices stays.
        y[rows, plane.reshape(len(y), count)] = values.reshape(len(y), count)
        whole = np.zeros((*values.shape[:2], *spatial_of(result.shape, self.channels_last)), x.dtype)
        whole[(slice(None), slice(None), *(slice(0, extent) for extent in counted))] = y.reshape(
            *values.shape[:2], *counted
        )
        return (as_declared(whole, self.channels_last),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        (x, _, shape), (y,) = self.arranged(inputs), self.infer(*inputs)
        counted, _ = self.sizes(x, shape)
        yield from scatter_lowerings(
            inputs, y, counted, self.index, target, adds=False, channels_last=self.channels_last, rest=None
        )

    def operations(self, outputs: Types, x: TensorType, *others: TensorType | None) -> int:
        return x.size

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        """Indices may point anywhere in their plane: the spatial axes are needed whole."""
        boxes: list[Box | None] = []
        for position, x in enumerate(inputs):
            if x is None or position == 2:
                boxes.append(None if x is None else Box.whole(x.shape))
                continue
            ranges = list(Box.whole(x.shape).ranges)
            ranges[0] = box.ranges[0]
            channel = x.rank - 1 if self.channels_last else 1
            ranges[channel] = box.ranges[channel]
            boxes.append(Box(tuple(ranges)))
        return tuple(boxes)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for rank, shape in ((1, (2, 3, 10)), (2, (2, 9, 8, 7)), (3, (1, 3, 4, 6, 5))):
            for rule in ("plane", "tensor", "column"):
                for overlap in (0, 1):
                    window, stride = (2 + overlap,) * rank, (2,) * rank
                    pool = MaxPool(window, stride, return_indices=True, index=rule)
                    y, indices = pool.reference(seeded(shape))
                    op = cls(window, stride, (), shape[2:], rule)
                    yield Sample(op, (y, indices), f"max_unpool {rank}-D {rule}{', overlap' * overlap}")
        x, places = seeded((1, 1, 2, 2)), np.array([[[[5, 7], [13, 15]]]], np.int64)
        yield Sample(cls((2, 2), (2, 2)), (x, places), "max_unpool default size")
        shape_input = np.array([1, 1, 5, 5], np.int64)
        yield Sample(cls((2, 2), (2, 2)), (x, places, shape_input), "max_unpool output_shape")
        for shape, ceil in (((2, 3, 7, 9), False), ((1, 2, 5, 8), True)):
            pool = MaxPool((2, 2), (2, 2), ceil_mode=ceil, return_indices=True, index="tensor")
            y, indices = pool.reference(seeded(shape))
            inverse = cls((2, 2), (2, 2), inverts=True)
            yield Sample(inverse, (y, indices, np.array(shape, np.int64)), f"max_unpool inverts, ceil {ceil}")


def within_plane(indices: Array, shape: Sequence[int], rule: str) -> Array:
    """Indices (N, C, *in) as row-major positions within the plane of (N, C, *spatial); InputError if out
    of it.
    """
    images, channels, *spatial = shape
    size = math.prod(spatial)
    lead = (1,) * len(spatial)
    base: Array = np.zeros((), INT64)
    plane = indices
    if rule in ("tensor", "column"):
        base = (np.arange(images)[:, None] * channels + np.arange(channels)).reshape(
            images, channels, *lead
        ) * size
    elif rule == "nhwc":
        plane, channel = np.divmod(indices, max(channels, 1))
        if (channel != np.arange(channels).reshape(-1, *lead)).any():
            raise InputError("max_unpool: an index points into another channel than its value's")
    plane = plane - base
    wrong = (plane < 0) | (plane >= size)
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise outside("max_unpool", int(indices[where]), where, spatial, rule)
    if rule == "column":
        where_all = np.unravel_index(plane, tuple(spatial[::-1]))
        plane = np.ravel_multi_index(where_all[::-1], tuple(spatial))
    return np.asarray(plane)
