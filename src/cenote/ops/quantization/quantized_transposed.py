"""Transposed convolutions of bytes: a plain one for each remainder of output pixels by the stride."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar

import numpy as np

from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import dataclass
from cenote.core.pool_geometry import Pairs
from cenote.core.target import Target
from cenote.core.types import Array, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.conv.transposed import axis_phases, phase_shapes, transpose_halo, transposed_parts
from cenote.kernels.cost_model import BYTES_FASTER, peak_seconds
from cenote.kernels.quantized.conv_calls import QuantizedProblem, quantized_calls
from cenote.kernels.quantized.tile_calls import quantized_tile_calls
from cenote.kernels.quantized.tile_cut import ByteTileCut
from cenote.ops.base import Decoder, Lowering, Sample
from cenote.ops.conv.conv_transpose import ConvTranspose
from cenote.ops.conv.phases import MOST_PHASES
from cenote.ops.quantization.convolution_lowerings import QuantizedConvolution
from cenote.ops.quantization.quantized_linear import QLinearConv, flat, output_scales
from cenote.ops.values import seeded


@dataclass(frozen=True)
class QLinearConvTranspose(QLinearConv):
    """Transposed convolution of quantized x and w (C, M/groups, *window), quantized: see QLinearConv. Attributes as in
    ConvTranspose; scales, zero points and biases of filters are those of M."""

    conv: ConvTranspose = field(default_factory=ConvTranspose)  # type: ignore[assignment]

    name = "qlinear_conv_transpose"
    from_onnx: ClassVar[dict[str, Decoder]] = {}

    def sums(self, x: Array, w: Array, x_zero: Array | None, w_zero: Array | None) -> Array:
        """The transposed convolution of what is left when the zero points are taken off, in int64: exact in float64."""
        centered = x.astype(np.float64) - (0.0 if x_zero is None else flat(x_zero).astype(np.float64))
        weights = by_filter(w, self.conv.groups).astype(np.float64)
        if w_zero is not None:
            weights = weights - w_zero.astype(np.float64).reshape(-1, *(1,) * (w.ndim - 1))
        turned = weights.reshape(self.conv.groups, -1, *weights.shape[1:]).swapaxes(1, 2)
        (result,) = replace(self.conv, exact=False).reference(centered, turned.reshape(w.shape))
        return np.rint(result).astype(np.int64)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        given = [None if each is None else each.value for each in self.arranged(inputs)[1:]]
        x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias = given
        unknown = any(each is None for each in given[:7])
        if unknown or (len(inputs) == 9 and inputs[8] is not None and bias is None):
            return
        dtype = np.iinfo(present(y_zero).dtype)
        problem = _Transposed(
            self.conv.shape(present(inputs[0]), present(inputs[3])),
            inputs,
            target,
            by_filter(present(w), self.conv.groups),
            int(present(x_zero).item()),
            present(w_zero),
            bias,
            output_scales(present(x_scale), present(w_scale), present(y_scale)).ravel(),
            int(present(y_zero).item()),
            self.bounds or (dtype.min, dtype.max),
        )
        if problem.is_served:
            seconds = peak_seconds(problem.executed, target, 0.6 * BYTES_FASTER[target.dots])
            yield from problem.lowerings("quantized_phases", target.lanes(), seconds, problem.calls)
            if target.tiles.int8:
                yield from problem.lowerings(
                    "quantized_phases_tiles", target.lanes(), problem.tile_seconds, problem.tile_calls
                )

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        y = (np.array(2.5, np.float32), np.array(120, np.uint8))
        scale = np.array([0.5], np.float32)
        for kind, zero in ((np.uint8, 3), (np.int8, -4)):
            x = seeded((2, 19, 5, 6), 1, kind)
            w, bias = seeded((19, 21, 2, 2), 2, np.int8), seeded((21,), 4, np.int32)
            many = (np.abs(seeded((21,), 3)), np.arange(21, dtype=np.int8))
            op = cls(ConvTranspose(strides=(2, 2)))
            yield Sample(op, (x, scale, np.array(zero, kind), w, *many, *y, bias), "windows side by side")
            around = cls(
                ConvTranspose(strides=(2, 1), pads=((1, 0), (1, 1)), output_padding=(1, 0)), (99, 140)
            )
            wide = seeded((19, 21, 3, 4), 5, np.int8)
            yield Sample(around, (x, scale, np.array(zero, kind), wide, *many, *y), "windows that overlap")
        one = (seeded((16, 5, 3), 6, np.int8), np.array(0.75, np.float32), np.array(0, np.int8))
        line = (seeded((1, 16, 9), 7, np.uint8), scale, np.array(0, np.uint8), *one, *y)
        yield Sample(cls(ConvTranspose(strides=(3,))), line, "one axis")


def by_filter(weights: Array, groups: int) -> Array:
    """Weights (C, M/groups, *window) as a convolution's: (M, C/groups, *window)."""
    parts = weights.reshape(groups, -1, *weights.shape[1:]).swapaxes(1, 2)
    return np.ascontiguousarray(parts.reshape(-1, parts.shape[2], *weights.shape[2:]))


class _Transposed(QuantizedConvolution):
    """A transposed convolution of bytes, its weights as a convolution's."""

    @property
    def halo(self) -> Pairs:
        return transpose_halo(self.shape)

    @property
    def is_served(self) -> bool:
        """Whether there is one group, and each output pixel is reached by a window."""
        shape = self.shape
        if shape.groups != 1 or not self.weights.size or not np.isfinite(self.scales).all():
            return False
        if 0 in (shape.n, *shape.size, *shape.out) or not self.fits_bytes:
            return False
        reached = all(phase.taps for axis in axis_phases(shape) for phase in axis)
        return reached and int(np.prod(shape.strides)) <= MOST_PHASES

    @property
    def executed(self) -> int:
        """Operations, those on lanes without a channel among them."""
        shape, lanes = self.shape, self.target.lanes()
        filled = [-(-count // lanes) * lanes for count in (shape.channels, shape.filters)]
        return 2 * shape.n * math.prod(filled) * shape.taps * math.prod(shape.size)

    @property
    def tile_seconds(self) -> float:
        """The estimate of all phases on tile registers."""
        pieces = phase_shapes(self.shape.deep())
        return sum(
            ByteTileCut.of(piece, self.target.lanes(), self.target.l2_bytes).seconds() for _, piece in pieces
        )

    def calls(self, x: View, y: View, _: None) -> Iterator[Call]:
        """Yield the calls of all phases in vectors, whose bytes are larger than s8 numbers by 128."""
        zero = self.x_zero + (128 if present(self.inputs[0]).dtype == np.int8 else 0)
        yield from self._phases(y, zero, lambda problem, view: quantized_calls(problem, x, view, self.target))

    def tile_calls(self, x: View, y: View, _: None) -> Iterator[Call]:
        """Yield the calls of all phases on tile registers."""
        way = self.target.tiles.int8
        yield from self._phases(
            y, self.x_zero, lambda problem, view: quantized_tile_calls(problem, way, x, view, self.target)
        )

    def _phases(
        self, y: View, zero: int, calls: Callable[[QuantizedProblem, View], Iterator[Call]]
    ) -> Iterator[Call]:
        """Yield the calls of all phases, each of which writes pixels of its own."""
        weights, others = self.centred.astype(np.int8), False
        for piece, part, view in transposed_parts(self.shape.deep(), weights, y):
            for call in calls(self._problem(piece, part, zero), view):
                yield replace(call, independent=others)
                others = True

    def _problem(self, shape: ConvShape, part: Array, zero: int) -> QuantizedProblem:
        bias: Any = 0 if self.bias is None else self.bias.astype(np.int64)
        offsets = (bias - zero * part.sum(axis=(1, 2, 3, 4), dtype=np.int64)).astype(np.int32)
        return QuantizedProblem(shape, part, offsets, self.filter_scales, self.target.dots, self.levels)
