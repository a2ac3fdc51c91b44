"""Products of matrices: (…, M, K) by (K, N), or by as many (K, N).

A product is a convolution of window 1: the rows of the first matrix are its filters, the rows of the second its input
channels, whose maps are the columns. So K may be taken in parts, and several small products share a tile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import dataclass
from cenote.core.errors import ShapeError, shown
from cenote.core.types import Array, TensorType
from cenote.ops.base import Op
from cenote.ops.linear.gemm import Gemm
from cenote.ops.linear.matmul import MatMul
from cenote.tiling.axis import window_axis
from cenote.tiling.kinds.arguments import LayerArguments, LayerFamily, shape_of
from cenote.tiling.kinds.computation import Computation, TileData
from cenote.tiling.kinds.convolutions import scaled_examples
from cenote.tiling.layer import Layer, check_outputs, three_axes, work_of


@dataclass(frozen=True)
class ProductTiles(Computation):
    """A product. `batch`: how many different second matrices there are."""

    batch: int

    weights_at: ClassVar[int] = 0

    def examples(self) -> tuple[Array, ...]:
        return scaled_examples(self.given)

    def sources(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        b = _straight(arrays[1], self.op)
        return (b.reshape(1, -1, b.shape[-1]),)

    def values(self, arrays: Sequence[Array], data: TileData) -> tuple[Array, ...]:
        return (self.finished(self.partial(data), arrays, data),)

    def partial(self, data: TileData) -> Array:
        b = data.read(0, (data.channels, *data.spatial)).astype(np.float64)
        rows = data.planes[1] - data.planes[0]
        a = data.weights().astype(np.float64)
        width = a.size // rows
        several = max(1, len(b) // width)  # the products of a tile, one behind the other
        y: Array = a.reshape(several, -1, width) @ b.reshape(several, width, -1)
        return y.reshape(rows, -1)

    def finished(self, total: Array, arrays: Sequence[Array], data: TileData) -> Array:
        op = self.op
        assert isinstance(op, Gemm | MatMul)
        total = total if op.alpha == 1 else total * op.alpha
        if len(arrays) > 2:
            bias = arrays[2][..., slice(*data.spatial[0])].astype(np.float64)
            total = total + bias * (op.beta if isinstance(op, Gemm) else 1.0)
        return total.astype(arrays[0].dtype)


def _straight(b: Array, op: Op) -> Array:
    """Return the second matrix as (K, N): Gemm may have it the other way round, and planners take it as turned
    ahead."""
    return np.ascontiguousarray(b.T) if isinstance(op, Gemm) and op.transpose_b else b


def product_layer(
    op: Gemm | MatMul, inputs: Sequence[TensorType], title: str = "", fused: tuple[Op, ...] = ()
) -> Layer:
    """Return the layer of a product of inputs of these types: A, B and perhaps a vector that is added to each row."""
    (y,) = op.infer(*inputs)
    a, b = inputs[0], inputs[1]
    batch = math.prod(b.shape[:-2])
    rows, columns, inner = math.prod(y.shape[:-1]), y.shape[-1], a.shape[-1]
    check_outputs(op, y, rows, fused)
    shape = ConvShape(1, batch * inner, rows, batch, (columns,), (columns,), (1,), (1,), ((0, 0),), (1,))
    return Layer(
        title or op.name,
        ProductTiles(op, tuple(inputs), batch),
        tuple(inputs),
        (y,),
        1,
        rows,
        three_axes([window_axis(windows) for windows in shape.axes], op),
        work_of(op, inputs, y, fused),
        reads=(y.dtype,),
        writes=(y.dtype,),
        conv=shape,
        row_parameters=len(inputs) - 2,
        fused=fused,
    )


def _build(given: LayerArguments) -> Layer:
    other = shape_of("other", given.required("other", "the second matrix's shape"), (2, 5, "(…, K, N)"))
    a = given.x
    b = TensorType(a.dtype, other)
    if len(other) > 2 and other[:-2] != a.shape[:-2]:
        raise ShapeError(
            f"tiling.plan: other must be (K, N), or as many of them as input {list(a.shape)} has matrices, got "
            f"{shown(given['other'])}"
        )
    return product_layer(MatMul(), (a, b), given.kind, given.fused)


def _match(op: Op, inputs: tuple[TensorType | None, ...], title: str, fused: tuple[Op, ...]) -> Layer | None:
    """Products whose second operand is one matrix or as many as the first, and whose third, if any, is one row."""
    if not isinstance(op, Gemm | MatMul) or not op.is_bare:
        return None
    a, b, *added = (each for each in inputs if each is not None)
    if isinstance(op, Gemm):
        plain = not op.transpose_a
    else:
        several = b.rank == 2 or b.shape[:-2] == a.shape[:-2]
        plain = not (op.permute_a or op.permute_b or op.permute_y) and min(a.rank, b.rank) > 1 and several
    rows = all(each.rank == 1 and each.shape[0] == op.infer(*inputs)[0].shape[-1] for each in added)
    if not plain or not rows or not a.size or not b.size:
        return None
    return product_layer(op, (a, b, *added), title, fused)


PRODUCTS = LayerFamily({"matmul": ("other",)}, _build, _match, (2, 5, "(…, M, K)"))
