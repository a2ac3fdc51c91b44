"""DeformConv: a convolution whose taps read the image at learned places."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from cenote.core.conv_geometry import output_size
from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.pool_geometry import Pairs, extents, padding_pairs
from cenote.core.target import Target
from cenote.core.types import FLOAT32, PLAIN, Array, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.conv.deformed import Deformation, deformed_call
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.elementwise.elementwise import elementwise_call, operand_of, per_channel
from cenote.kernels.sampling.taps import FAR
from cenote.ops.base import Arrays, Lowering, Op, Sample, Types
from cenote.ops.checks import read, require_kind, require_same_dtype
from cenote.ops.conv.columns import filter_product
from cenote.ops.movement.grid_sample import interpolate
from cenote.ops.values import narrow, seeded, wide


@dataclass(frozen=True)
class DeformConv(Op):
    """Convolution of x (N, C, *spatial) with w (M, C/groups, *window) whose taps are moved by offsets.

    The offsets (N, offset_groups * taps * rank, *out) are added to the places of the taps, which are read
    by linear interpolation with zeros outside; the optional mask (N, offset_groups * taps, *out) multiplies
    what is read. Each offset group moves C / offset_groups channels. The bias (M,) is optional. As
    torchvision's deform_conv2d. `exact`: chains of additions have 32 terms, not 256.
    """

    strides: tuple[int, ...] = ()
    pads: Pairs = ()
    dilations: tuple[int, ...] = ()
    groups: int = 1
    offset_groups: int = 1
    window: tuple[int, ...] = ()
    exact: bool = False

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

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        """Samples at the taps written as columns, then a product with the weights, in float32."""
        x, w = present(inputs[0]), present(inputs[1])
        (output,) = self.infer(*inputs)
        if x.dtype != FLOAT32 or not output.size or not x.shape[1] or x.rank > 5:
            return
        strides, pads, dilations = self.geometry(x, w)
        window, out = w.shape[2:], output.shape[2:]
        before = [pad for pad, _ in pads]
        how = Deformation.of(self.offset_groups, x.shape[2:], out, window, strides, before, dilations)
        columns = TensorType(FLOAT32, (x.shape[0], x.shape[1], how.taps, how.places))
        sizes = (w.shape[0] // self.groups, math.prod(w.shape[1:]), how.places)
        product = filter_product(x.shape[0], self.groups, sizes, target, Activation(), exact=self.exact)
        if product is None:
            return

        def bind(views: Sequence[View | None], made: Sequence[View]) -> Sequence[Call]:
            image, weights, offset, added, factors = (*views, None, None)[:5]
            y, read, *more = made
            calls = [deformed_call(present(image), present(offset), factors, read, how)]
            calls += product.bind([weights, read], [y, *more])
            if added is not None:
                sums = [operand_of(y, y), per_channel(added, y)]
                calls.append(elementwise_call("add", (), sums, y, target))
            return calls

        layouts = tuple(None if each is None else PLAIN for each in inputs)
        seconds = product.seconds + pass_seconds(2 * columns.nbytes, 4 * columns.size)
        yield Lowering("columns", layouts, (PLAIN,), bind, seconds, 4e-6, (columns, *product.temporaries))

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
        far = (seeded((1, 2, 9, 8), 1), seeded((3, 2, 3, 3), 2), 1e3 * seeded((1, 18, 7, 6), 3))
        far[2][0, 0, 0] = [np.nan, np.inf, -np.inf, 1e30, -1e30, 0]
        yield Sample(DeformConv(), far, "far away")
        depth = (seeded((1, 2, 4, 5, 6), 1), seeded((3, 2, 2, 2, 2), 2), seeded((1, 24, 3, 4, 5), 3))
        yield Sample(DeformConv(), depth, "a volume")
        many = (
            seeded((3, 8, 20, 21), 1),
            seeded((17, 8, 3, 3), 2),
            seeded((3, 18, 20, 21), 3),
            seeded((17,), 4),
        )
        yield Sample(DeformConv(pads=((1, 1), (1, 1))), many, "more than a run")
        yield Sample(DeformConv(), tuple(x[:0] if i != 1 else x for i, x in enumerate(plain)), "no images")
