"""RotaryEmbedding: pairs of features turned by an angle that grows with the position."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cenote.core.errors import ShapeError
from cenote.core.types import Array, TensorType
from cenote.ops.base import Arrays, Op, Sample, Types
from cenote.ops.checks import checked_indices, read, require_index, require_kind, require_same_dtype
from cenote.ops.values import narrow, seeded, wide


@dataclass(frozen=True)
class RotaryEmbedding(Op):
    """Turns the first `turned` features (0: all) of each head, in pairs (i, i + half) or, `interleaved`,
    neighbours.

    x is (batch, heads, length, size) or, with `heads`, (batch, length, heads * size). Cosines and sines are
    (batch, length, half) or, with positions (batch, length), tables (positions, half).
    """

    heads: int = 0
    turned: int = 0
    interleaved: bool = False

    name = "rotary_embedding"
    operands = ("x", "cosines", "sines", "positions?")
    from_onnx = {
        "RotaryEmbedding": lambda node: read(
            RotaryEmbedding, node, "interleaved", heads="num_heads", turned="rotary_embedding_dim"
        )
    }

    def types(
        self, x: TensorType, cosines: TensorType, sines: TensorType, positions: TensorType | None
    ) -> Types:
        require_same_dtype(self.name, require_kind(self.name, x, "f", "x"), cosines, sines)
        if x.rank not in (3, 4) or (x.rank == 3 and (self.heads < 1 or x.shape[2] % self.heads)):
            raise ShapeError(
                f"{self.name}: {x} must be (batch, heads, length, size) or divide into {self.heads} heads"
            )
        size = x.shape[3] if x.rank == 4 else x.shape[2] // self.heads
        turned, place = self.turned or size, (x.shape[0], x.shape[2] if x.rank == 4 else x.shape[1])
        if turned % 2 or turned > size:
            raise ShapeError(f"{self.name}: cannot turn {turned} of {size} features of {x} in pairs")
        table = (cosines.shape[:1] if positions is not None else place) + (turned // 2,)
        if cosines.shape != table or sines.shape != table:
            raise ShapeError(
                f"{self.name}: cosines {cosines} and sines {sines} must have shape {list(table)}"
            )
        if positions is not None and require_index(self.name, positions, "positions").shape != place:
            raise ShapeError(f"{self.name}: positions {positions} must have shape {list(place)}")
        return (TensorType(x.dtype, x.shape),)

    def compute(self, x: Array, cosines: Array, sines: Array, positions: Array | None) -> Arrays:
        y = (
            x.transpose(0, 2, 1, 3)
            if x.ndim == 4
            else x.reshape(*x.shape[:2], self.heads, x.shape[2] // self.heads)
        )
        y = wide(y).copy()  # (batch, length, heads, size)
        if positions is not None:
            places = checked_indices(self.name, positions, cosines.shape[0])
            cosines, sines = cosines[places], sines[places]
        cosine, sine = wide(cosines)[:, :, None], wide(sines)[:, :, None]
        turned = self.turned or y.shape[3]
        half = turned // 2
        first = slice(0, turned, 2) if self.interleaved else slice(0, half)
        second = slice(1, turned, 2) if self.interleaved else slice(half, turned)
        a, b = y[..., first].copy(), y[..., second].copy()
        y[..., first], y[..., second] = cosine * a - sine * b, sine * a + cosine * b
        y = y.transpose(0, 2, 1, 3) if x.ndim == 4 else y.reshape(x.shape)
        return (narrow(y, x.dtype),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        x, tables = seeded((2, 3, 5, 8)), (seeded((2, 5, 4), 1), seeded((2, 5, 4), 2))
        for interleaved in (False, True):
            yield Sample(RotaryEmbedding(interleaved=interleaved), (x, *tables))
            rows = (seeded((9, 2), 1), seeded((9, 2), 2), np.arange(10).reshape(2, 5) % 9)
            yield Sample(RotaryEmbedding(turned=4, interleaved=interleaved), (x, *rows), "positions")
        flat = x.transpose(0, 2, 1, 3).reshape(2, 5, 24)
        yield Sample(RotaryEmbedding(heads=3), (flat, *tables), "three axes")
