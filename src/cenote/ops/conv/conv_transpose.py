"""Transposed convolution over 1, 2 or 3 spatial axes: the gradient of a convolution to its input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

import numpy as np

from cenote.core.conv_geometry import ConvShape, check_auto_pad
from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, DTypeError, ShapeError
from cenote.core.pool_geometry import Pairs, extents, padding_pairs, same_pads
from cenote.core.target import Target
from cenote.core.types import Array, TensorType, is_float
from cenote.kernels.elementwise.activations import Activation
from cenote.ops.base import Arrays, Box, Lowering, Sample, Types
from cenote.ops.checks import read, require_same_dtype
from cenote.ops.conv.algorithms import transposed_lowerings
from cenote.ops.conv.problem import ConvProblem
from cenote.ops.epilogue import Epilogue, Fusible
from cenote.ops.values import narrow, seeded, wide


@dataclass(frozen=True)
class ConvTranspose(Fusible):
    """Each input pixel adds its multiple of w (C, M/groups, *window) to the output at stride * pixel.

    Inputs: x (N, C, *spatial), w, bias (M,) (optional), all of one float type. Output extents are stride *
    (in - 1) + output_padding + reach - begin - end, unless `output_shape` (spatial extents) gives them or
    `auto_pad` SAME_UPPER or SAME_LOWER makes them in * stride; then the pads are what is left over, the odd
    one at the end for SAME_UPPER and at the begin otherwise (ONNX 11; ONNX 1 said the opposite). `pads` crop
    the output. Output pixels that no window reaches hold the bias: of an empty axis the formula may leave some,
    as ONNX and ONNX Runtime have it (reach - stride for one without pads). `exact`: see Conv.
    """

    strides: tuple[int, ...] = ()
    pads: Pairs = ()
    dilations: tuple[int, ...] = ()
    groups: int = 1
    auto_pad: str = "NOTSET"
    output_padding: tuple[int, ...] = ()
    output_shape: tuple[int, ...] = ()
    window: tuple[int, ...] = ()
    activation: Activation = field(default_factory=Activation)
    exact: bool = False

    name = "conv_transpose"
    operands = ("x", "w", "bias?")
    from_onnx = {
        "ConvTranspose": lambda node: read(
            ConvTranspose,
            node,
            "strides",
            "pads",
            "dilations",
            "auto_pad",
            "output_padding",
            "output_shape",
            groups="group",
            window="kernel_shape",
        )
    }

    def shape(self, x: TensorType, w: TensorType) -> ConvShape:
        """The sizes of this operator; `size` is the input's, `out` the output's extent."""
        name, rank = self.name, x.rank - 2
        if rank not in (1, 2, 3) or w.rank != x.rank:
            raise ShapeError(
                f"{name}: x {x} and w {w} must be (N, C, *spatial) and (C, M/groups, *window) with 1-3 axes"
            )
        window = w.shape[2:]
        if self.window and tuple(self.window) != window:
            raise ShapeError(f"{name}: window {self.window} does not match the weights {w}")
        if any(extent < 1 for extent in window):
            raise ShapeError(f"{name}: the weights {w} have an empty window")
        if w.shape[0] != x.shape[1]:
            raise ShapeError(f"{name}: x {x} has {x.shape[1]} channels, weights {w} take {w.shape[0]}")
        if self.groups < 1 or x.shape[1] % self.groups:
            raise ArgumentError(f"{name}: groups {self.groups} must divide the {x.shape[1]} channels")
        strides = extents(name, "strides", self.strides, rank)
        dilations = extents(name, "dilations", self.dilations, rank)
        pads, out = self._extents(x.shape[2:], window, strides, dilations)
        filters = w.shape[1] * self.groups
        return ConvShape(
            x.shape[0], x.shape[1], filters, self.groups, x.shape[2:], out, window, strides, pads, dilations
        )

    def _extents(
        self,
        size: tuple[int, ...],
        window: tuple[int, ...],
        strides: tuple[int, ...],
        dilations: tuple[int, ...],
    ) -> tuple[Pairs, tuple[int, ...]]:
        rank = len(size)
        extra = extents(self.name, "output_padding", self.output_padding, rank, low=0)
        full = [
            stride * (extent - 1) + more + (k - 1) * dilation + 1
            for extent, stride, more, k, dilation in zip(size, strides, extra, window, dilations, strict=True)
        ]
        check_auto_pad(self.name, self.auto_pad)
        wanted = self.output_shape[-rank:]  # some exporters write the whole shape
        if not wanted and self.auto_pad.startswith("SAME"):
            wanted = tuple(extent * stride for extent, stride in zip(size, strides, strict=True))
        if wanted:
            wanted = extents(self.name, "output_shape", wanted, rank, low=0)
            upper = self.auto_pad == "SAME_UPPER"
            pads = tuple(same_pads(max(0, f - o), upper) for f, o in zip(full, wanted, strict=True))
            return pads, wanted
        pads = ((0, 0),) * rank if self.auto_pad == "VALID" else padding_pairs(self.name, self.pads, rank)
        out = tuple(f - begin - end for f, (begin, end) in zip(full, pads, strict=True))
        if any(extent < 0 or (extent == 0 and given) for extent, given in zip(out, size, strict=True)):
            raise ShapeError(
                f"{self.name}: {list(size)} pixels spread over {full}, of which pads {pads} leave nothing; use "
                "smaller pads, or a larger input where it is empty"
            )
        return pads, out

    def types(self, x: TensorType, w: TensorType, bias: TensorType | None) -> Types:
        if not is_float(require_same_dtype(self.name, x, w, bias)):
            raise DTypeError(f"{self.name}: needs a float type, got {x.dtype}; cast x and w first")
        shape = self.shape(x, w)
        if bias is not None and bias.shape != (shape.filters,):
            raise ShapeError(
                f"{self.name}: bias {bias} must have shape [{shape.filters}], one number per filter"
            )
        return (TensorType(x.dtype, (shape.n, shape.filters, *shape.out)),)

    def compute(self, x: Array, w: Array, bias: Array | None) -> Arrays:
        y = scatter(wide(x), wide(w), self.shape(TensorType.known(x), TensorType.known(w)))
        if bias is not None:
            y = y + wide(bias).reshape(-1, *(1,) * (y.ndim - 2))
        return (narrow(self.activation.apply(y), x.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x, w, bias = self.arranged(inputs)
        if x.dtype != np.float32:
            return
        fused = Epilogue(None if bias is None else 2, None, self.activation, exact=self.exact)
        problem = ConvProblem(self.shape(x, w), fused, inputs, target, local=self.exact)
        yield from transposed_lowerings(problem)

    def operations(self, outputs: Types, x: TensorType, w: TensorType, bias: TensorType | None) -> int:
        extra = sum((bias is not None, not self.activation.is_identity))
        return 2 * x.size * (w.size // max(1, w.shape[0])) + extra * outputs[0].size

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        x, w, _ = self.arranged(inputs)
        shape = self.shape(x, w)
        images, filters, *spatial = box.ranges
        each = max(1, shape.group_filters)
        first, last = filters[0] // each, -(-filters[1] // each)
        channels = (first * shape.group_channels, last * shape.group_channels)
        read = []
        for axis, (begin, end) in enumerate(spatial):
            stride, (pad, _), extent = shape.strides[axis], shape.pads[axis], shape.size[axis]
            low = -(-(begin + pad - shape.reach[axis] + 1) // stride)
            high = (end - 1 + pad) // stride + 1
            low = min(max(low, 0), extent)
            read.append((low, max(low, min(high, extent)) if end > begin else low))
        boxes: list[Box | None] = [Box((images, channels, *read)), Box.whole(w.shape)]
        if len(inputs) > 2:
            boxes.append(None if inputs[2] is None else Box((filters,)))
        return tuple(boxes)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from _samples()


def scatter(x: Array, w: Array, shape: ConvShape) -> Array:
    """The plain sum in the arrays' own type: every tap adds one matrix product at a stride, then the pads crop."""
    groups, images = shape.groups, shape.n
    sizes = zip(shape.size, shape.strides, shape.reach, shape.pads, shape.out, strict=True)
    extents = [max(s * (e - 1) + r, pad + o, 0) for e, s, r, (pad, _), o in sizes]
    total = np.zeros((images, groups, shape.group_filters, *extents), x.dtype)
    pixels = int(np.prod(shape.size))
    source = x.reshape(images, groups, shape.group_channels, pixels)
    kernels = w.reshape(groups, shape.group_channels, shape.group_filters, *shape.window)
    if 0 in shape.size:
        return np.zeros((images, shape.filters, *shape.out), x.dtype)
    for tap in np.ndindex(*shape.window):
        window = tuple(
            slice(offset * dilation, offset * dilation + (extent - 1) * stride + 1, stride)
            for offset, dilation, extent, stride in zip(
                tap, shape.dilations, shape.size, shape.strides, strict=True
            )
        )
        matrices = np.swapaxes(kernels[(slice(None), slice(None), slice(None), *tap)], 1, 2)
        with np.errstate(invalid="ignore", over="ignore"):
            part = (matrices @ source).reshape(images, groups, shape.group_filters, *shape.size)
            total[(slice(None), slice(None), slice(None), *window)] += part
    crop = tuple(slice(pad, pad + extent) for (pad, _), extent in zip(shape.pads, shape.out, strict=True))
    y: Array = total[(slice(None), slice(None), slice(None), *crop)]
    return y.reshape(images, shape.filters, *shape.out)


def _sample(
    label: str,
    op: ConvTranspose,
    x: tuple[int, ...],
    filters: int,
    window: tuple[int, ...],
    bias: bool = True,
) -> Sample:
    w = (x[1], filters // op.groups, *window)
    scale = np.float32(1 / np.sqrt(max(1, x[1] // op.groups)))
    return Sample(op, (seeded(x, 1), seeded(w, 2) * scale, seeded((filters,), 3) if bias else None), label)


def _samples() -> Iterator[Sample]:
    one = ((1, 1), (1, 1))
    yield _sample("2x2 stride 2", ConvTranspose((2, 2)), (1, 16, 7, 7), 24, (2, 2))
    yield _sample(
        "4x4 stride 2", ConvTranspose((2, 2), one, activation=Activation("relu")), (2, 20, 6, 5), 13, (4, 4)
    )
    yield _sample("4x4 stride 2, vectors", ConvTranspose((2, 2), one), (1, 16, 6, 7), 24, (4, 4))
    yield _sample(
        "3x3, output padding", ConvTranspose((2, 2), one, output_padding=(1, 1)), (1, 8, 5, 6), 8, (3, 3)
    )
    yield _sample("3x3 stride 1", ConvTranspose(pads=((0, 2), (1, 1))), (1, 3, 6, 7), 5, (3, 3), bias=False)
    yield _sample("stride 3, window 2", ConvTranspose((3, 3)), (1, 5, 4, 5), 9, (2, 2))
    yield _sample("dilated", ConvTranspose((2, 1), one, (2, 3)), (1, 9, 5, 4), 8, (3, 3))
    yield _sample("output shape", ConvTranspose((3, 2), output_shape=(10, 8)), (1, 4, 3, 3), 6, (3, 3))
    yield _sample("larger output shape", ConvTranspose((2, 2), output_shape=(9, 7)), (1, 4, 3, 3), 6, (2, 2))
    yield _sample("same upper", ConvTranspose((2, 2), auto_pad="SAME_UPPER"), (1, 6, 4, 4), 10, (3, 3))
    yield _sample("same lower", ConvTranspose((2, 2), auto_pad="SAME_LOWER"), (1, 6, 4, 4), 10, (3, 3))
    yield _sample("grouped", ConvTranspose((2, 2), one, groups=2), (1, 16, 5, 5), 24, (4, 4))
    yield _sample("depthwise", ConvTranspose((2, 2), one, groups=9), (1, 9, 5, 5), 9, (4, 4))
    yield _sample("depthwise, multiplier 3", ConvTranspose((2, 2), one, groups=9), (1, 9, 5, 5), 27, (4, 3))
    yield _sample("groups of 2 for 4", ConvTranspose((3, 1), groups=5), (2, 10, 3, 4), 20, (2, 2))
    yield _sample("1-D", ConvTranspose((2,), ((1, 0),)), (2, 10, 9), 7, (3,))
    yield _sample("3-D", ConvTranspose((1, 2, 2)), (1, 5, 3, 4, 3), 6, (2, 3, 2))
    yield _sample("one pixel", ConvTranspose((4, 4)), (1, 12, 1, 1), 8, (4, 4))
    yield _sample("empty batch", ConvTranspose((2, 2)), (0, 4, 3, 3), 4, (2, 2))
