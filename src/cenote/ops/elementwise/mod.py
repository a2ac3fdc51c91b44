"""Mod: what is left after division, with the quotient rounded down or towards zero."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cenote.core.types import Array, TensorType
from cenote.ops.base import (
    Arrays,
    Op,
    Sample,
    Types,
    broadcast_shapes,
    narrow,
    require_same_dtype,
    seeded,
    wide,
)
from cenote.ops.checks import read, require_kind


@dataclass(frozen=True)
class Mod(Op):
    """a - floor(a / b) * b with the sign of b (Python's %), or, with `truncate`, C's fmod with the sign of a.

    Special values as in `numpy.mod` and `numpy.fmod`; an integer b of 0 gives 0, where ONNX says nothing.
    """

    truncate: bool = False

    name = "mod"
    operands = ("a", "b")
    from_onnx = {"Mod": lambda node: read(Mod, node, truncate="fmod")}

    def types(self, a: TensorType, b: TensorType) -> Types:
        dtype = require_same_dtype(self.name, require_kind(self.name, a, "iuf", "a"), b)
        return (TensorType(dtype, broadcast_shapes(self.name, a.shape, b.shape)),)

    def compute(self, a: Array, b: Array) -> Arrays:
        y = np.fmod(wide(a), wide(b)) if self.truncate else np.mod(wide(a), wide(b))
        return (narrow(y, a.dtype),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        a = np.array([-5.5, 5.5, 0.0, -0.0, np.inf, np.nan, 1.0, 3.0], np.float32)
        b = np.array([[2.0], [-2.0], [np.inf], [0.0]], np.float32)
        for truncate in (False, True):
            op = Mod(truncate)
            yield Sample(op, (a, b), "special values")
            yield Sample(op, (np.array([-7, 7, -8], np.int8), np.array([[3], [-3]], np.int8)))
            yield Sample(op, (seeded((2, 3), 1, np.uint64), np.array(4, np.uint64)))
            yield Sample(op, (np.array([4], np.int32), np.array([0], np.int32)), "zero")
            yield Sample(op, (seeded((0, 2), 1, np.float16), seeded((2,), 2, np.float16)))
