"""Elementwise functions that ONNX has no operator for, by the names that kernels have: parts of functions on arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.types import Array, TensorType
from cenote.kernels.elementwise.functions import FORMULAS
from cenote.ops.base import Arrays, Sample, Types
from cenote.ops.checks import BOOL, broadcast_shapes, one_of, require_same_dtype
from cenote.ops.elementwise.pointwise import Function, Pointwise
from cenote.ops.values import hostile, narrow, seeded, wide

_RELATIONS = ("different", "is_finite")
_KINDS = (
    "exp2",
    "expm1",
    "log1p",
    "log2",
    "log10",
    "rsqrt",
    "truncate",
    "square",
    "floor_divide",
    *_RELATIONS,
)


@dataclass(frozen=True)
class Formula(Pointwise):
    """`kind` of one or two tensors of one type; "different" and "is_finite" give bool. "floor_divide" is Python's //:
    what a - a % b has of b; by zero it is a / b of floats and 0 of integers."""

    kind: str

    name = "formula"
    operands = ("x*",)

    def types(self, *inputs: TensorType) -> Types:
        one_of(self.name, "kind", self.kind, _KINDS)
        dtype = require_same_dtype(self.name, *inputs)
        shape = broadcast_shapes(self.name, *(x.shape for x in inputs))
        return (TensorType(BOOL if self.kind in _RELATIONS else dtype, shape),)

    def function(self, inputs: Sequence[TensorType | None]) -> Function | None:
        formula = FORMULAS[self.kind]
        return Function(self.kind, (), tuple(range(len(inputs))), formula.tolerance, formula.weight)

    def compute(self, *inputs: Array) -> Arrays:
        (output,) = self.declared(*inputs)
        return (narrow(np.asarray(FORMULAS[self.kind].apply(*map(wide, inputs))), output.dtype),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for kind in _KINDS:
            pair = kind in ("floor_divide", "different")
            for dtype in (np.float32, np.float16, *((np.int8, np.int64) if pair else ())):
                given = (seeded((3, 41), 1, dtype), seeded((41,), 2, dtype))
                yield Sample(cls(kind), given if pair else given[:1])
            if kind == "floor_divide":
                special = np.array(
                    [5, -1, 1, 0, -0.0, np.inf, -np.inf, np.nan, 3e38, -1e-45, 0.3], np.float32
                )
                divisors = np.array([0.1, -0.1, 2, np.inf, -np.inf, 0, -0.0, np.nan, 3e38], np.float32)[
                    :, None
                ]
                for dtype in (np.float32, np.float64):
                    yield Sample(
                        cls(kind), (special.astype(dtype), divisors.astype(dtype)), f"{kind} special"
                    )
            if not pair:
                yield Sample(cls(kind), (hostile((3, 9, 4, 5)),), f"{kind} special")
