"""Unfold: the windows of an image as columns (im2col)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from cenote.core.conv_geometry import output_size
from cenote.core.deferred import dataclass
from cenote.core.errors import ShapeError
from cenote.core.pool_geometry import Pairs, extents, padding_pairs
from cenote.core.target import Target
from cenote.core.types import PLAIN, Array, TensorType
from cenote.kernels.base import Call, View, dense_strides, present
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.layout.copy import can_copy
from cenote.kernels.layout.transpose import strided_copy_call
from cenote.ops.base import Arrays, Lowering, Op, Sample, Types
from cenote.ops.movement.pad import Pad
from cenote.ops.values import seeded


@dataclass(frozen=True)
class Unfold(Op):
    """An image (N, C, *spatial) as columns (N, C * taps, blocks): what each tap of a sliding window reads.

    The blocks are the window's places over the image padded with zeros, in row-major order, as are the taps (PyTorch's
    Unfold). Raises ShapeError for a window that does not fit, ArgumentError for strides or dilations below 1.
    """

    window: tuple[int, ...]
    strides: tuple[int, ...] = ()
    pads: Pairs = ()
    dilations: tuple[int, ...] = ()

    name = "unfold"
    operands = ("x",)

    def geometry(self, x: TensorType) -> tuple[tuple[int, ...], Pairs, tuple[int, ...], tuple[int, ...]]:
        """Strides, pads, dilations and the number of blocks, one per spatial axis."""
        rank = x.rank - 2
        if rank < 1 or len(self.window) != rank or min(self.window) < 1:
            raise ShapeError(f"{self.name}: a window {list(self.window)} does not fit {x}, (N, C, *spatial)")
        strides = extents(self.name, "strides", self.strides, rank)
        pads = padding_pairs(self.name, self.pads, rank)
        dilations = extents(self.name, "dilations", self.dilations, rank)
        reach = tuple((k - 1) * d + 1 for k, d in zip(self.window, dilations, strict=True))
        return strides, pads, dilations, output_size(self.name, x.shape[2:], reach, strides, pads)

    def types(self, x: TensorType) -> Types:
        blocks = self.geometry(x)[3]
        return (TensorType(x.dtype, (x.shape[0], x.shape[1] * math.prod(self.window), math.prod(blocks))),)

    def compute(self, x: Array) -> Arrays:
        (result,) = self.declared(x)
        strides, pads, dilations, blocks = self.geometry(TensorType.known(x))
        padded = np.pad(x, ((0, 0), (0, 0), *pads))
        y = np.zeros((*x.shape[:2], *self.window, *blocks), x.dtype)
        for tap in np.ndindex(*self.window):
            places = tuple(
                slice(t * d, t * d + (n - 1) * s + 1, s) if n else slice(0, 0)
                for t, d, n, s in zip(tap, dilations, blocks, strides, strict=True)
            )
            y[(slice(None), slice(None), *tap)] = padded[(slice(None), slice(None), *places)]
        return (y.reshape(result.shape),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        """A strided copy of the image, or of a padded copy of it."""
        x, (output,) = present(inputs[0]), self.infer(*inputs)
        if not can_copy(x.dtype) or not output.size:
            return
        strides, pads, dilations, blocks = self.geometry(x)
        pad = Pad(((0, 0), (0, 0), *pads))
        bordered = any(sum(pair) for pair in pads)
        first = next((o for o in pad.lowerings((x, None, None, None), target) if o.outputs == (PLAIN,)), None)
        if bordered and first is None:
            return
        (padded,) = pad.infer(x, None, None, None)
        shape = (*x.shape[:2], *self.window, *blocks)

        def bind(views: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
            source, y = present(views[0]), outputs[0]
            calls: list[Call] = []
            if bordered and first is not None:
                calls += first.bind([source, None, None, None], outputs[1:])
                source = outputs[1]
            walk = (
                *source.strides[:2],
                *(s * d for s, d in zip(source.strides[2:], dilations, strict=True)),
                *(s * step for s, step in zip(source.strides[2:], strides, strict=True)),
            )
            y = replace(y, type=TensorType(y.type.dtype, shape), strides=dense_strides(shape))
            return [*calls, strided_copy_call(source, walk, y, target)]

        seconds = pass_seconds(3 * output.nbytes) + (first.seconds if bordered and first is not None else 0.0)
        temporaries = (padded,) if bordered else ()
        yield Lowering("strided_copy", (PLAIN,), (PLAIN,), bind, seconds, temporaries=temporaries)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(cls((3, 3)), (seeded((2, 3, 7, 9)),))
        yield Sample(cls((3, 2), (2, 1), ((1, 1), (0, 2)), (2, 1)), (seeded((1, 4, 9, 11)),), "all")
        yield Sample(cls((2, 2), (2, 2)), (seeded((2, 3, 8, 6), dtype=np.int8),))
        yield Sample(cls((4,), (2,), ((1, 2),)), (seeded((2, 3, 19), dtype=np.float64),), "one axis")
        yield Sample(cls((1, 1)), (seeded((1, 2, 3, 4)),))
        yield Sample(cls((2, 2)), (seeded((0, 2, 3, 4)),), "no images")
