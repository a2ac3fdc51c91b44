"""DeformConv: a convolution whose taps read the image at learned places; and Col2Im, columns added up to an image."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from cenote.core.conv_geometry import output_size
from cenote.core.dataclass import dataclass
from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.pool_geometry import Pairs, extents, padding_pairs
from cenote.core.types import Array, TensorType
from cenote.kernels.elementwise.grid_sample import FAR
from cenote.ops.base import Arrays, Op, Sample, Types
from cenote.ops.checks import int64s, known_ints, read, require_kind, require_same_dtype
from cenote.ops.movement.grid_sample import interpolate
from cenote.ops.values import narrow, seeded, wide


@dataclass(frozen=True)
class DeformConv(Op):
    """Convolution of x (N, C, *spatial) with w (M, C/groups, *window) whose taps are moved by offsets.

    The offsets (N, offset_groups * taps * rank, *out) are added to the places of the taps, which are read
    by linear interpolation with zeros outside; the optional mask (N, offset_groups * taps, *out) multiplies
    what is read. Each offset group moves C / offset_groups channels. The bias (M,) is optional. As
    torchvision's deform_conv2d.
    """

    strides: tuple[int, ...] = ()
    pads: Pairs = ()
    dilations: tuple[int, ...] = ()
    groups: int = 1
    offset_groups: int = 1
    window: tuple[int, ...] = ()

    name = "deform_conv"
    operands = ("x", "w", "offset", "bias?", "mask?")
    from_onnx = {
        "DeformConv": lambda node: read(
            DeformConv,
            node,
            "strides",
            "pads",
            "dilations",
            groups="group",
            offset_groups="offset_group",
            window="kernel_shape",
        )
    }

    def geometry(self, x: TensorType, w: TensorType) -> tuple[tuple[int, ...], Pairs, tuple[int, ...]]:
        """Strides, pads and dilations, one per spatial axis."""
        rank = x.rank - 2
        return (
            extents(self.name, "strides", self.strides, rank),
            padding_pairs(self.name, self.pads, rank),
            extents(self.name, "dilations", self.dilations, rank),
        )

    def types(
        self,
        x: TensorType,
        w: TensorType,
        offset: TensorType,
        bias: TensorType | None,
        mask: TensorType | None,
    ) -> Types:
        dtype = require_same_dtype(self.name, require_kind(self.name, x, "f", "x"), w, offset, bias, mask)
        if x.rank < 3 or w.rank != x.rank or 0 in w.shape[2:] or 0 in x.shape[2:]:
            raise ShapeError(
                f"{self.name}: x {x} and w {w} must be (N, C, *spatial) and (M, C/groups, *window)"
            )
        window, rank = w.shape[2:], x.rank - 2
        if self.window and self.window != window:
            raise ShapeError(f"{self.name}: window {self.window} does not match the weights {w}")
        if (
            self.groups < 1
            or self.offset_groups < 1
            or w.shape[0] % self.groups
            or x.shape[1] % self.offset_groups
        ):
            raise ArgumentError(
                f"{self.name}: {self.groups} groups, {self.offset_groups} offset groups do not divide"
            )
        if w.shape[1] * self.groups != x.shape[1]:
            raise ShapeError(f"{self.name}: weights {w} in {self.groups} groups do not fit x {x}")
        strides, pads, dilations = self.geometry(x, w)
        reach = tuple((k - 1) * d + 1 for k, d in zip(window, dilations, strict=True))
        out = output_size(self.name, x.shape[2:], reach, strides, pads)
        taps = self.offset_groups * math.prod(window)
        for value, channels, what in ((offset, taps * rank, "offset"), (mask, taps, "mask")):
            wanted = (x.shape[0], channels, *out)
            if value is not None and value.shape != wanted:
                raise ShapeError(f"{self.name}: {what} {value} must have shape {list(wanted)}")
        if bias is not None and bias.shape != w.shape[:1]:
            raise ShapeError(f"{self.name}: bias {bias} must hold one number per filter of {w}")
        return (TensorType(dtype, (x.shape[0], w.shape[0], *out)),)

    def compute(self, x: Array, w: Array, offset: Array, bias: Array | None, mask: Array | None) -> Arrays:
        (result,) = self.declared(x, w, offset, bias, mask)
        images, channels, parts = x.shape[0], x.shape[1], self.offset_groups
        window, out = w.shape[2:], result.shape[2:]
        strides, pads, dilations = self.geometry(TensorType.known(x), TensorType.known(w))
        source = wide(x).reshape(images * parts, channels // parts, *x.shape[2:])
        moved = wide(offset).reshape(images * parts, *window, len(window), *out)
        factors = None if mask is None else wide(mask).reshape(images * parts, *window, 1, *out)
        weights = wide(w).reshape(self.groups, w.shape[0] // self.groups, w.shape[1], *window)
        total = np.zeros((images, self.groups, w.shape[0] // self.groups, math.prod(out)))
        for tap in np.ndindex(*window):
            places = []
            for axis, extent in enumerate(out):
                base = np.arange(extent) * strides[axis] - pads[axis][0] + tap[axis] * dilations[axis]
                along = base.reshape(-1, *(1,) * (len(out) - axis - 1))
                place = moved[(slice(None), *tap, axis)] + along
                places.append(np.clip(np.nan_to_num(place, nan=-FAR), -FAR, FAR))
            read = interpolate(source, places, "linear", "zeros", align_corners=True)
            read = read if factors is None else read * factors[(slice(None), *tap)]
            columns = read.reshape(images, self.groups, w.shape[1], math.prod(out))
            total += weights[(slice(None), slice(None), slice(None), *tap)] @ columns
        y = total.reshape(result.shape)
        if bias is not None:
            y = y + wide(bias).reshape(-1, *(1,) * len(out))
        return (narrow(y, result.dtype),)

    def operations(self, outputs: Types, x: TensorType, w: TensorType, *rest: TensorType | None) -> int:
        return 2 * outputs[0].size * math.prod(w.shape[1:])

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        op = DeformConv(strides=(2, 1), pads=((1, 1), (0, 1)), dilations=(1, 2), groups=2, offset_groups=2)
        inputs = (seeded((2, 4, 5, 6), 1), seeded((6, 2, 3, 2), 2), seeded((2, 24, 3, 5), 3))
        yield Sample(op, (*inputs, seeded((6,), 4), seeded((2, 12, 3, 5), 5)))
        yield Sample(op, inputs, "no mask")
        plain = (seeded((1, 2, 4, 4), 1), seeded((3, 2, 2, 2), 2), np.zeros((1, 8, 3, 3), np.float32))
        yield Sample(DeformConv(), plain, "no offsets")
        line = (seeded((1, 2, 9), 1), seeded((3, 2, 3), 2), seeded((1, 3, 7), 3) * 5)
        yield Sample(DeformConv(), line, "one axis")
        yield Sample(DeformConv(), tuple(x[:0] if i != 1 else x for i, x in enumerate(plain)), "no images")


@dataclass(frozen=True)
class Col2Im(Op):
    """Columns (N, C * taps, blocks) added up to images (N, C, *image): what unfolding an image gave, folded
    back.

    The blocks are those of a sliding window over the padded image, in row-major order (PyTorch's Fold).
    """

    strides: tuple[int, ...] = ()
    pads: Pairs = ()
    dilations: tuple[int, ...] = ()

    name = "col2im"
    operands = ("columns", "image_shape", "block_shape")
    from_onnx = {"Col2Im": lambda node: read(Col2Im, node, "strides", "pads", "dilations")}

    def geometry(
        self, image: tuple[int, ...], block: tuple[int, ...]
    ) -> tuple[tuple[int, ...], Pairs, tuple[int, ...], tuple[int, ...]]:
        """Strides, pads, dilations and the number of blocks, one per spatial axis."""
        rank = len(image)
        strides = extents(self.name, "strides", self.strides, rank)
        pads = padding_pairs(self.name, self.pads, rank)
        dilations = extents(self.name, "dilations", self.dilations, rank)
        reach = tuple((k - 1) * d + 1 for k, d in zip(block, dilations, strict=True))
        return strides, pads, dilations, output_size(self.name, image, reach, strides, pads)

    def types(self, columns: TensorType, image: TensorType, block: TensorType) -> Types:
        require_kind(self.name, columns, "iuf", "columns")
        extents, window = (
            known_ints(self.name, image, 1, "image_shape"),
            known_ints(self.name, block, 2, "block_shape"),
        )
        if len(extents) != len(window) or not window or min(extents) < 0 or min(window) < 1:
            raise ShapeError(f"col2im: an image {list(extents)} has no blocks {list(window)}")
        blocks, taps = self.geometry(extents, window)[3], math.prod(window)
        if columns.rank != 3 or columns.shape[1] % taps or columns.shape[2] != math.prod(blocks):
            raise ShapeError(f"col2im: {columns} must be (N, a multiple of {taps}, {math.prod(blocks)})")
        return (TensorType(columns.dtype, (columns.shape[0], columns.shape[1] // taps, *extents)),)

    def compute(self, columns: Array, image: Array, block: Array) -> Arrays:
        (result,) = self.declared(columns, image, block)
        extents, window = result.shape[2:], tuple(block.tolist())
        strides, pads, dilations, blocks = self.geometry(extents, window)
        values = wide(columns).reshape(*result.shape[:2], *window, *blocks)
        padded = np.zeros(
            (*result.shape[:2], *(e + sum(p) for e, p in zip(extents, pads, strict=True))), values.dtype
        )
        for tap in np.ndindex(*window):
            begin = [t * d for t, d in zip(tap, dilations, strict=True)]
            places = tuple(
                slice(b, b + (n - 1) * s + 1, s) if n else slice(0, 0)
                for b, n, s in zip(begin, blocks, strides, strict=True)
            )
            padded[(slice(None), slice(None), *places)] += values[(slice(None), slice(None), *tap)]
        inner = tuple(slice(p[0], p[0] + e) for e, p in zip(extents, pads, strict=True))
        return (narrow(padded[(slice(None), slice(None), *inner)], columns.dtype),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(Col2Im(), (seeded((2, 12, 6)), int64s((3, 4)), int64s((2, 2))))
        op = Col2Im(strides=(2, 1), pads=((1, 0), (0, 2)), dilations=(2, 1))
        yield Sample(op, (seeded((1, 12, 12)), int64s((6, 4)), int64s((2, 3))), "strides, pads, dilations")
        yield Sample(Col2Im(), (seeded((1, 2, 4), dtype=np.int32), int64s((5,)), int64s((2,))), "one axis")
        yield Sample(Col2Im(), (seeded((0, 4, 1)), int64s((2, 2)), int64s((2, 2))), "no images")
