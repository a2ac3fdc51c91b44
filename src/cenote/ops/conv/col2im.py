"""Col2Im: columns added up to an image (PyTorch's Fold)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from cenote.core.conv_geometry import output_size
from cenote.core.deferred import dataclass
from cenote.core.errors import ShapeError
from cenote.core.pool_geometry import Pairs, extents, padding_pairs
from cenote.core.target import Target
from cenote.core.types import PLAIN, Array, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.layout.fold import AXES, Windows, fold_call
from cenote.ops.base import Arrays, Lowering, Op, Sample, Types
from cenote.ops.checks import int64s, known_ints, read, require_kind
from cenote.ops.elementwise.pointwise import error_of
from cenote.ops.values import narrow, seeded, wide


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

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x, image, block = map(present, inputs)
        (output,) = self.infer(*inputs)
        window = known_ints(self.name, block, 2, "block_shape")
        if not output.size or len(window) > len(AXES):
            return
        sizes = known_ints(self.name, image, 1, "image_shape")
        strides, pads, dilations, blocks = self.geometry(sizes, window)
        windows = Windows.of(sizes, blocks, window, strides, [before for before, _ in pads], dilations)

        shapes = tuple(None if each.value is not None else PLAIN for each in (image, block))
        seconds = pass_seconds(x.nbytes + output.nbytes, x.size)

        def call(x: View, *others: View) -> Call:
            return fold_call(x, others[-1], windows, target)

        error = error_of(1e-6, x.dtype)
        yield Lowering.of_call("rows", (PLAIN, *shapes), (PLAIN,), call, seconds, error)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(Col2Im(), (seeded((2, 12, 6)), int64s((3, 4)), int64s((2, 2))))
        op = Col2Im(strides=(2, 1), pads=((1, 0), (0, 2)), dilations=(2, 1))
        yield Sample(op, (seeded((1, 12, 12)), int64s((6, 4)), int64s((2, 3))), "strides, pads, dilations")
        yield Sample(Col2Im(), (seeded((1, 2, 4), dtype=np.int32), int64s((5,)), int64s((2,))), "one axis")
        yield Sample(Col2Im(), (seeded((0, 4, 1)), int64s((2, 2)), int64s((2, 2))), "no images")
        apart = Col2Im(strides=(3, 2), pads=((2, 1), (1, 3)), dilations=(2, 3))
        for dtype in (np.float32, np.float64, np.float16, "bfloat16", np.int8, np.int64):
            sizes = (int64s((11, 37)), int64s((3, 4)))
            places = math.prod(apart.geometry((11, 37), (3, 4))[3])
            yield Sample(apart, (seeded((2, 24, places), dtype=np.dtype(dtype)), *sizes), "windows apart")
            near = (seeded((2, 18, 9 * 40), dtype=np.dtype(dtype)), int64s((9, 40)), int64s((3, 3)))
            yield Sample(Col2Im(pads=((1, 1), (1, 1))), near, "neighbours")
        yield Sample(Col2Im(), (seeded((1, 16, 12)), int64s((3, 4, 3)), int64s((2, 2, 2))), "a volume")
        yield Sample(Col2Im(pads=((5, 0),)), (seeded((1, 2, 5)), int64s((1,)), int64s((2,))), "border")
