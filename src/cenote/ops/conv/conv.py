"""Convolution over 1, 2 or 3 spatial axes, with what a fusion pass folds into it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace

import numpy as np

from cenote.core.conv_geometry import ConvShape, output_size, resolve_pads
from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from cenote.core.pool_geometry import Pairs, extents
from cenote.core.target import Target
from cenote.core.types import Array, TensorType, is_float
from cenote.kernels.elementwise.activations import Activation
from cenote.ops.base import Arrays, Box, Imported, Lowering, Sample, Types
from cenote.ops.checks import read, require_same_dtype
from cenote.ops.conv.algorithms import convolution_lowerings
from cenote.ops.conv.problem import ConvProblem
from cenote.ops.epilogue import Epilogue, Fusible
from cenote.ops.values import narrow, seeded, wide


def decode_conv(node: Imported) -> Conv:
    """Conv of ai.onnx 1, 11 and 22 (they differ in types and wording only)."""
    if not node.get("group", 1):
        raise ArgumentError("conv: groups 0 must divide the channels and filters")
    return read(Conv, node, "strides", "pads", "dilations", "auto_pad", groups="group", window="kernel_shape")


@dataclass(frozen=True)
class Conv(Fusible):
    """Cross-correlation of x (N, C, *spatial) with weights w (M, C/groups, *window), plus bias (M,).

    Inputs: x, w, bias (optional) and, with `residual`, a tensor of the output's shape; the result is activation(conv
    + bias + residual). All are of one float type. Empty `strides` and `dilations` mean ones, empty `pads` none;
    `pads` holds (begin, end) per axis. With `auto_pad` other than NOTSET the explicit pads are ignored. With `pool`,
    y is the 2x2 maxima, two apart, of what it would be (a NaN makes its window NaN; an odd last row or column is
    dropped); needs two spatial axes and no residual, and only Winograd computes it natively. `window` only repeats
    the extents of w (ONNX's kernel_shape): they are checked when given. 0 `groups` are as many as the channels of x
    are times those of the weights. `exact` forbids Strassen's algorithm and Winograd's, whose rounding error is two to
    three times that of a plain sum, and which spread an infinity or NaN of the input over all filters of a pixel and
    over whole tiles of outputs, and groups joined by zeros until they fill vectors, where it reaches its neighbour
    groups (0 * inf is NaN): groups apart take 0.4 to 1.2 times as long. Groups of 1, 2 and 4 channels with a multiple
    of that as filters are never joined. Chains of additions then have 32 terms, not 256; of groups of few channels the
    root of the number of terms if that is more. `on_tiles`: also by products of float16 parts, as accurate as plain
    sums, on tiles.

    Output extents are floor((in + begin + end - reach) / stride) + 1 with reach = (window - 1) * dilation +
    1. Raises ShapeError where the window does not fit: PyTorch does too, ONNX leaves it open.
    """

    strides: tuple[int, ...] = ()
    pads: Pairs = ()
    dilations: tuple[int, ...] = ()
    groups: int = 1
    auto_pad: str = "NOTSET"
    window: tuple[int, ...] = ()
    activation: Activation = field(default_factory=Activation)
    residual: bool = False
    exact: bool = False
    pool: bool = False
    on_tiles: bool = False

    name = "conv"
    operands = ("x", "w", "bias?", "residual?")
    from_onnx = {"Conv": decode_conv}

    def shape(self, x: TensorType, w: TensorType) -> ConvShape:
        """The resolved sizes; raises where they do not fit."""
        rank = x.rank - 2
        if rank not in (1, 2, 3) or w.rank != x.rank:
            raise ShapeError(
                f"conv: x {x} and w {w} must be (N, C, *spatial) and (M, C/groups, *window) with 1 to 3 axes"
            )
        window = w.shape[2:]
        if self.window and tuple(self.window) != window:
            raise ShapeError(f"conv: window {self.window} does not match the weights {w}")
        if any(extent < 1 for extent in window):
            raise ShapeError(f"conv: the weights {w} have an empty window")
        channels, filters = x.shape[1], w.shape[0]
        groups = self.groups or max(1, channels // max(1, w.shape[1]))
        if groups < 1 or channels % groups or filters % groups:
            raise ArgumentError(
                f"conv: groups {groups} must divide {channels} channels and {filters} filters"
            )
        if w.shape[1] * groups != channels:
            raise ShapeError(
                f"conv: x {x} has {channels} channels, weights {w} in {groups} groups take {w.shape[1] * groups}"
            )
        strides = extents("conv", "strides", self.strides, rank)
        dilations = extents("conv", "dilations", self.dilations, rank)
        reach = tuple((k - 1) * d + 1 for k, d in zip(window, dilations, strict=True))
        pads = resolve_pads("conv", self.auto_pad, self.pads, x.shape[2:], reach, strides)
        out = output_size("conv", x.shape[2:], reach, strides, pads)
        return ConvShape(
            x.shape[0], channels, filters, groups, x.shape[2:], out, window, strides, pads, dilations
        )

    def extents(self, shape: ConvShape) -> tuple[int, ...]:
        """The output's spatial extents; raises where a pool does not fit."""
        if not self.pool:
            return shape.out
        if self.residual:
            raise ArgumentError(
                "conv: pool and residual exclude each other; add the residual before a MaxPool"
            )
        if shape.rank != 2 or any(extent < 2 for extent in shape.out):
            raise ShapeError(
                f"conv: pool needs a map of at least 2x2, the convolution's is {list(shape.out)}"
            )
        return tuple(extent // 2 for extent in shape.out)

    def types(
        self, x: TensorType, w: TensorType, bias: TensorType | None, residual: TensorType | None
    ) -> Types:
        if (residual is not None) != self.residual:
            raise ShapeError(f"conv: input 'residual' is {residual or 'missing'}, residual={self.residual}")
        if not is_float(require_same_dtype("conv", x, w, bias, residual)):
            raise DTypeError(f"conv: needs a float type, got {x.dtype}; cast x and w first")
        shape = self.shape(x, w)
        y = TensorType(x.dtype, (shape.n, shape.filters, *self.extents(shape)))
        if bias is not None and bias.shape != (shape.filters,):
            raise ShapeError(f"conv: bias {bias} must have shape [{shape.filters}], one number per filter")
        if residual is not None and residual.shape != y.shape:
            raise ShapeError(f"conv: residual {residual} must have the output's shape {list(y.shape)}")
        return (y,)

    def compute(self, x: Array, w: Array, bias: Array | None, residual: Array | None) -> Arrays:
        y = correlate(wide(x), wide(w), self.shape(TensorType.known(x), TensorType.known(w)))
        if bias is not None:
            y = y + wide(bias).reshape(-1, *(1,) * (y.ndim - 2))
        if residual is not None:
            y = y + wide(residual)
        y = self.activation.apply(y)
        return (narrow(largest_of_2x2(y) if self.pool else y, x.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x, w, bias, residual = self.arranged(inputs)
        if x.dtype != np.float32:
            return
        fused = Epilogue(
            bias=2 if bias is not None else None,
            residual=3 if residual is not None else None,
            activation=self.activation,
            pool=self.pool,
            exact=self.exact,
        )
        problem = ConvProblem(
            self.shape(x, w), fused, inputs, target, local=self.exact, on_tiles=self.on_tiles
        )
        yield from convolution_lowerings(problem)

    def operations(
        self,
        outputs: Types,
        x: TensorType,
        w: TensorType,
        bias: TensorType | None,
        residual: TensorType | None,
    ) -> int:
        extra = sum((bias is not None, residual is not None, not self.activation.is_identity, self.pool))
        return self.shape(x, w).operations + extra * outputs[0].size * (4 if self.pool else 1)

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        x, w, bias, _ = self.arranged(inputs)
        shape = self.shape(x, w)
        images, filters, *spatial = box.ranges
        if self.pool:
            spatial = [(2 * begin, 2 * end) for begin, end in spatial]
        first, last = filters[0] // max(1, shape.group_filters), -(-filters[1] // max(1, shape.group_filters))
        channels = (first * shape.group_channels, last * shape.group_channels)
        read = []
        for axis, (begin, end) in enumerate(spatial):
            low = begin * shape.strides[axis] - shape.pads[axis][0]
            high = (end - 1) * shape.strides[axis] - shape.pads[axis][0] + shape.reach[axis]
            low = min(max(low, 0), shape.size[axis])
            read.append((low, max(low, min(high, shape.size[axis])) if end > begin else low))
        boxes: list[Box | None] = [
            Box((images, channels, *read)),
            Box((filters, *((0, k) for k in w.shape[1:]))),
        ]
        if len(inputs) > 2:
            boxes.append(None if bias is None else Box((filters,)))
        if self.residual:
            boxes.append(box)
        return tuple(boxes)

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Conv:
        """The convolution over a box: explicit padding, as many groups as its filters are of. The filters are of one
        group, or of whole groups."""
        x, w, _, _ = self.arranged(inputs)
        if self.pool:
            raise UnsupportedError("conv: cannot be computed in parts once a pool is folded into it")
        shape = self.shape(x, w)
        first, stop = box.ranges[1]
        per_group = max(1, shape.group_filters)
        groups = -(-stop // per_group) - first // per_group
        if groups > 1 and (first % per_group or stop % per_group):
            raise ArgumentError(
                f"conv: filters {first} to {stop - 1} are of {groups} groups of {per_group}, not all whole"
            )
        pads = []
        for windows, bounds in zip(shape.axes, box.ranges[2:], strict=True):
            part = windows.part(*bounds)
            pads.append((part.begin, part.end))
        return replace(self, pads=tuple(pads), auto_pad="NOTSET", groups=groups)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from _samples()


def correlate(x: Array, w: Array, shape: ConvShape) -> Array:
    """The plain sum in the arrays' own type: one matrix product per tap of the window."""
    images, groups = shape.n, shape.groups
    padded = np.pad(x, ((0, 0), (0, 0), *shape.halo))
    total = np.zeros((images, groups, shape.group_filters, shape.pixels), x.dtype)
    kernels = w.reshape(groups, shape.group_filters, shape.group_channels, *shape.window)
    for tap in np.ndindex(*shape.window):
        starts = [offset * dilation for offset, dilation in zip(tap, shape.dilations, strict=True)]
        window = tuple(
            slice(start, start + (extent - 1) * stride + 1, stride) if extent else slice(0, 0)
            for start, extent, stride in zip(starts, shape.out, shape.strides, strict=True)
        )
        part = padded[(slice(None), slice(None), *window)]
        part = part.reshape(images, groups, shape.group_channels, shape.pixels)
        total += kernels[(slice(None), slice(None), slice(None), *tap)] @ part
    return total.reshape(images, shape.filters, *shape.out)


def largest_of_2x2(y: Array) -> Array:
    """Maxima of 2x2 windows, two apart, of (N, C, H, W); NaN where one of the four is NaN."""
    height, width = (extent - extent % 2 for extent in y.shape[2:])
    blocks = y[:, :, :height, :width].reshape(*y.shape[:2], height // 2, 2, width // 2, 2)
    largest: Array = np.maximum.reduce(blocks, axis=(3, 5))
    return largest


RELU = Activation("relu")


def _sample(
    label: str, op: Conv, x: tuple[int, ...], filters: int, window: tuple[int, ...], bias: bool = True
) -> Sample:
    """Seeded inputs whose sums stay near 1, so that tolerances mean something."""
    w = (filters, x[1] // op.groups, *window)
    scale = np.float32(1 / math.sqrt(max(1, math.prod(w[1:]))))
    inputs: list[Array | None] = [seeded(x, 1), seeded(w, 2) * scale, seeded((filters,), 3) if bias else None]
    if op.residual:
        (y,) = Conv(op.strides, op.pads, op.dilations, op.groups, op.auto_pad).infer(
            TensorType.of(np.float32, x), TensorType.of(np.float32, w)
        )
        inputs.append(seeded(y.shape, 4))
    return Sample(op, tuple(inputs), label)


def _samples() -> Iterator[Sample]:
    one, two = ((1, 1), (1, 1)), ((2, 2), (2, 2))
    yield _sample("3x3", Conv(pads=one, activation=RELU), (1, 16, 14, 14), 32, (3, 3))
    yield _sample("ragged", Conv(pads=one), (2, 20, 9, 11), 13, (3, 3))
    yield _sample(
        "three channels", Conv((2, 2), ((3, 3), (3, 3)), activation=RELU), (1, 3, 30, 30), 20, (7, 7)
    )
    yield _sample("one channel", Conv(), (1, 1, 28, 28), 6, (5, 5))
    yield _sample("one filter", Conv(pads=two), (1, 5, 6, 8), 1, (5, 5), bias=False)
    yield _sample("SiLU", Conv(pads=one, activation=Activation("silu")), (1, 16, 9, 8), 24, (3, 3))
    yield _sample(
        "SiLU, depthwise", Conv(pads=one, groups=9, activation=Activation("silu")), (1, 9, 9, 9), 9, (3, 3)
    )
    yield _sample(
        "SiLU, weights in chunks", Conv(pads=one, activation=Activation("silu")), (1, 120, 5, 6), 17, (3, 3)
    )
    yield _sample("SiLU, pointwise", Conv(activation=Activation("silu")), (2, 40, 5, 8), 17, (1, 1))
    yield _sample("7x7 map", Conv(pads=one, residual=True, activation=RELU), (1, 40, 7, 7), 24, (3, 3))
    yield _sample("pointwise", Conv(activation=Activation("clip", 0.0, 6.0)), (1, 24, 14, 14), 40, (1, 1))
    yield _sample("pointwise, one pixel", Conv(residual=True), (3, 20, 1, 1), 9, (1, 1))
    yield _sample("pointwise, stride 2", Conv((2, 2)), (1, 24, 15, 14), 17, (1, 1))
    yield _sample("stride 3, window 2", Conv((3, 3)), (1, 9, 11, 10), 8, (2, 2))
    yield from _dilated_samples()
    yield from _samples_on_tiles()
    yield from _volume_samples()
    yield from _even_samples()
    yield _sample("asymmetric pads", Conv(pads=((0, 2), (3, 1))), (1, 8, 5, 6), 24, (3, 4))
    yield _sample("same upper", Conv((2, 2), auto_pad="SAME_UPPER"), (1, 8, 9, 8), 16, (3, 3))
    yield _sample("same lower", Conv((2, 2), auto_pad="SAME_LOWER"), (1, 8, 8, 9), 16, (4, 3))
    yield _sample("1x7", Conv(pads=((0, 0), (3, 3))), (1, 16, 9, 9), 16, (1, 7))
    yield _sample("7x1", Conv(pads=((3, 3), (0, 0))), (1, 16, 9, 9), 16, (7, 1))
    yield _sample("depthwise", Conv(pads=one, groups=20, activation=RELU), (2, 20, 9, 10), 20, (3, 3))
    yield _sample("depthwise, stride 2", Conv((2, 2), two, groups=16), (1, 16, 13, 14), 16, (5, 5))
    yield from _multiplied_samples()
    yield _sample("depthwise, dilated", Conv(pads=two, dilations=(2, 2), groups=8), (1, 8, 9, 9), 8, (3, 3))
    yield _sample("groups of 8", Conv(pads=one, groups=2), (1, 16, 8, 9), 32, (3, 3))
    yield _sample(
        "groups of 4", Conv(pads=one, groups=5, residual=True, activation=RELU), (2, 20, 9, 10), 20, (3, 3)
    )
    yield _sample("groups of 4, stride 2", Conv((2, 2), two, groups=4), (1, 16, 13, 14), 16, (5, 5))
    yield _sample(
        "groups of 2, dilated", Conv(pads=two, dilations=(2, 2), groups=7), (1, 14, 9, 9), 14, (3, 3)
    )
    yield _sample("groups of 4, twice the filters", Conv(pads=one, groups=3), (1, 12, 6, 6), 24, (3, 3))
    yield _sample("groups of 3", Conv(pads=one, groups=4), (2, 12, 7, 7), 20, (3, 3))
    yield _sample("groups of 20", Conv(pads=one, groups=2, activation=RELU), (2, 40, 6, 5), 32, (3, 3))
    yield _sample("groups of 20, residual", Conv(groups=3, residual=True), (1, 60, 4, 7), 96, (1, 1))
    yield _sample("groups of 37 for 9", Conv((2, 1), one, groups=4), (2, 148, 7, 5), 36, (3, 3))
    yield _sample("1-D", Conv((2,), ((2, 1),)), (2, 10, 25), 12, (5,))
    yield _sample("1-D depthwise", Conv(pads=((1, 1),), groups=9), (1, 9, 12), 9, (3,))
    yield _sample("1-D, many channels", Conv(pads=((1, 1),)), (2, 17, 30), 24, (3,))
    yield _sample("3-D", Conv((1, 2, 1), ((1, 1), (1, 1), (0, 1))), (1, 9, 4, 7, 6), 10, (3, 3, 2))
    yield _sample("pool", Conv(pads=one, activation=RELU, pool=True), (1, 16, 14, 12), 32, (3, 3))
    yield _sample("pool, odd map", Conv(pads=one, pool=True), (2, 20, 7, 13), 17, (3, 3))
    yield _sample(
        "pool, SiLU", Conv(pool=True, activation=Activation("silu")), (1, 16, 8, 10), 24, (3, 3), bias=False
    )
    yield _sample("empty batch", Conv(pads=one), (0, 8, 6, 6), 8, (3, 3))
    yield _sample("window of the padded map", Conv(), (1, 12, 4, 4), 16, (4, 4))
    yield _sample("all padding", Conv(pads=((3, 3), (3, 3))), (1, 3, 1, 1), 8, (2, 2))


def _multiplied_samples() -> Iterator[Sample]:
    """Groups with several times as many filters as channels."""
    one, two = ((1, 1), (1, 1)), ((2, 2), (2, 2))
    yield _sample("depthwise, multiplier 2", Conv(pads=one, groups=6), (1, 6, 8, 8), 12, (3, 3))
    op = Conv(pads=one, groups=19, residual=True, activation=RELU)
    yield _sample("depthwise, multiplier 3", op, (2, 19, 7, 9), 57, (3, 3))
    yield _sample("depthwise, multiplier 4", Conv((2, 2), two, groups=20), (1, 20, 9, 11), 80, (5, 5))
    yield _sample("depthwise, multiplier 5", Conv(pads=((0, 0), (3, 3)), groups=5), (1, 5, 3, 9), 25, (1, 7))
    yield _sample("depthwise, multiplier 6", Conv(groups=17), (2, 17, 4, 5), 102, (1, 1))
    yield _sample("depthwise, multiplier 32", Conv(groups=3), (1, 3, 5, 6), 96, (2, 2))
    yield _sample("depthwise, multiplier 11", Conv(groups=3), (1, 3, 5, 6), 33, (2, 2))
    yield _sample("depthwise, long sums", Conv(groups=9, activation=RELU), (2, 9, 20, 23), 9, (18, 17))
    op = Conv((1, 2), two, groups=9, residual=True, exact=True)
    yield _sample("depthwise, exact", op, (1, 9, 11, 12), 18, (7, 7))
    yield _sample("groups of 2, exact", Conv(pads=two, groups=5, exact=True), (1, 10, 9, 8), 20, (5, 5))
    yield _sample("groups of 2 for 6", Conv(pads=one, groups=5), (2, 10, 6, 7), 30, (3, 3))
    op = Conv(pads=two, dilations=(2, 2), groups=9, activation=RELU)
    yield _sample("groups of 2 for 4, dilated", op, (1, 18, 6, 9), 36, (3, 3))


def _even_samples() -> Iterator[Sample]:
    """Pointwise, halves of channels and filters in whole vectors."""
    op = Conv(residual=True, activation=RELU)
    yield _sample("1x1, even channels and filters", op, (2, 32, 5, 7), 128, (1, 1))
    yield _sample("1x1, stride 2, even channels and filters", Conv((2, 1)), (1, 64, 7, 6), 64, (1, 1))


def _volume_samples() -> Iterator[Sample]:
    op = Conv(pads=((1, 1), (0, 1), (1, 0)), residual=True, activation=RELU)
    yield _sample("3-D, many channels", op, (2, 17, 5, 7, 6), 24, (3, 3, 3))
    yield _sample(
        "3-D, window across planes", Conv(pads=((1, 1), (0, 0), (0, 0))), (1, 16, 6, 3, 5), 20, (3, 1, 1)
    )


def _samples_on_tiles() -> Iterator[Sample]:
    op = Conv(pads=((1, 1), (1, 1)), residual=True, activation=RELU, on_tiles=True)
    yield _sample("7x7 map, on tiles", op, (2, 40, 7, 7), 24, (3, 3))
    op = Conv(pads=((0, 2), (3, 1)), activation=Activation("silu"), on_tiles=True)
    yield _sample("asymmetric pads, on tiles", op, (1, 8, 5, 6), 33, (3, 4))
    yield _sample("stride 3, on tiles", Conv((3, 3), on_tiles=True), (1, 9, 11, 10), 8, (2, 2))
    yield _sample("1-D, on tiles", Conv((2,), ((2, 1),), on_tiles=True), (2, 70, 19), 40, (5,))


def _dilated_samples() -> Iterator[Sample]:
    two = ((2, 2), (2, 2))
    yield _sample("dilated", Conv(pads=two, dilations=(2, 2)), (1, 8, 10, 9), 16, (3, 3))
    yield _sample("dilated, strided", Conv((2, 1), ((3, 1), (0, 2)), (3, 2)), (1, 10, 13, 12), 8, (3, 3))
    far = ((8, 8), (8, 8))
    yield _sample("dilated beyond the map", Conv(pads=far, dilations=(8, 8)), (1, 16, 6, 5), 24, (3, 3))
    far = ((9, 10), (7, 3))
    yield _sample("dilated beyond one end", Conv((2, 2), far, (8, 7)), (1, 16, 6, 7), 24, (3, 3))
    far = ((4, 4), (5, 5))
    yield _sample(
        "dilated, in regions", Conv(pads=far, dilations=(4, 5), activation=RELU), (2, 32, 7, 6), 40, (3, 3)
    )
    op = Conv(pads=far, dilations=(4, 5), groups=19, residual=True, activation=RELU)
    yield _sample("depthwise, dilated, in regions", op, (2, 19, 7, 6), 19, (3, 3))
    op = Conv(pads=((8, 8),), dilations=(2,), residual=True, activation=RELU)
    yield _sample("dilated, long window", op, (2, 17, 41), 24, (9,))
    yield _sample("dilated, in regions of few", Conv(pads=((3, 2),), dilations=(3,)), (1, 32, 5), 17, (3,))
    far = ((6, 6), (6, 6))
    yield _sample(
        "dilated, in regions, residual",
        Conv(pads=far, dilations=(6, 6), residual=True),
        (1, 48, 16, 16),
        64,
        (3, 3),
    )
