"""Comparisons, logic and bits: what gives bool, or works on the bits of integers. All broadcast."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import DTypeError
from cenote.core.types import Array, TensorType
from cenote.kernels.elementwise.functions import FORMULAS
from cenote.ops.base import Arrays, Decoder, Imported, Op, Sample, Types
from cenote.ops.checks import BOOL, STRING, broadcast_shapes, one_of, read, require_kind, require_same_dtype
from cenote.ops.elementwise.pointwise import Function, Pointwise
from cenote.ops.family import operator
from cenote.ops.values import seeded, wide

# Formulas by the names of ONNX.
_COMPARISONS = {
    "Equal": "equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_or_equal",
    "Less": "less",
    "LessOrEqual": "less_or_equal",
}
_LOGIC = {"And": "and", "Or": "or", "Xor": "xor"}
_BITS = {"BitwiseAnd": "and", "BitwiseOr": "or", "BitwiseXor": "xor"}


def _decoders(make: Callable[[str], Op], table: Mapping[str, str]) -> Mapping[str, Decoder]:
    def decode(node: Imported) -> Op:
        node.expect()
        return make(table[node.op])

    return dict.fromkeys(table, decode)


class _Pair(Pointwise):
    """Base: two inputs of one type that broadcast. `kind` names the formula of both."""

    @property
    def kind(self) -> str:
        raise NotImplementedError(f"{type(self).__name__}.kind")

    def joined(self, a: TensorType, b: TensorType, kinds: str) -> TensorType:
        """Their type, checked, of the broadcast shape."""
        dtype = require_same_dtype(str(self), require_kind(str(self), a, kinds, "a"), b)
        return TensorType(dtype, broadcast_shapes(str(self), a.shape, b.shape))

    def function(self, inputs: Sequence[TensorType | None]) -> Function | None:
        return Function(self.kind, (), (0, 1))

    def compute(self, a: Array, b: Array) -> Arrays:
        return (np.asarray(FORMULAS[self.kind].apply(wide(a), wide(b))),)


@dataclass(frozen=True)
class Compare(_Pair):
    """`relation` of two tensors as bool; any comparison with NaN is false."""

    relation: str = "equal"

    name = "compare"
    from_onnx = _decoders(lambda name: Compare(name), _COMPARISONS)

    @property
    def kind(self) -> str:
        return self.relation

    def types(self, a: TensorType, b: TensorType) -> Types:
        one_of(self.name, "relation", self.relation, tuple(_COMPARISONS.values()))
        return (TensorType(BOOL, self.joined(a, b, "biufO" if self.relation == "equal" else "iuf").shape),)

    def compute(self, a: Array, b: Array) -> Arrays:
        return (super().compute(a, b)[0].astype(bool),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        special = np.array([1.0, np.nan, np.inf, -0.0, 2.0], np.float32)
        for relation in _COMPARISONS.values():
            op = Compare(relation)
            yield Sample(op, (special, np.array([[1.0], [0.0], [np.nan]], np.float32)))
            yield Sample(op, (np.array([2**53 + 1, 5], np.int64), np.array([2**53, 5], np.int64)))
            yield Sample(op, (seeded((2, 3), 1, np.uint8), seeded((), 2, np.uint8)))
            yield Sample(op, (seeded((0, 3), 1, np.float16), seeded((1,), 2, np.float16)))
        yield Sample(Compare("equal"), (seeded((2, 3), 1, np.bool_), seeded((3,), 2, np.bool_)))


class _Bits(_Pair):
    """Base: and, or, xor of two tensors of some kinds, bit by bit."""

    kinds: ClassVar[str]
    operation: str

    @property
    def kind(self) -> str:
        return self.operation

    def types(self, a: TensorType, b: TensorType) -> Types:
        one_of(self.name, "operation", self.operation, tuple(_LOGIC.values()))
        return (self.joined(a, b, self.kinds),)


@dataclass(frozen=True)
class Logic(_Bits):
    """and, or, xor of two bool tensors."""

    operation: str = "and"

    name = "logic"
    kinds = "b"
    from_onnx = _decoders(lambda name: Logic(name), _LOGIC)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for operation in _LOGIC.values():
            yield Sample(Logic(operation), (seeded((4, 5), 1, np.bool_), seeded((5,), 2, np.bool_)))


@dataclass(frozen=True)
class Bitwise(_Bits):
    """and, or, xor of the bits of two integer tensors."""

    operation: str = "and"

    name = "bitwise"
    kinds = "iu"
    from_onnx = _decoders(lambda name: Bitwise(name), _BITS)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for operation in _BITS.values():
            yield Sample(Bitwise(operation), (seeded((4, 5), 1, np.int32), seeded((5,), 2, np.int32)))
            yield Sample(Bitwise(operation), (seeded((0,), 1, np.uint8), seeded((), 2, np.uint8)))


class _Inverted(Pointwise):
    """Base: all bits flipped, of tensors of some kinds."""

    operands = ("x",)
    formula = "not"
    kinds: ClassVar[str]
    samples_of: ClassVar[tuple[tuple[tuple[int, ...], Any], ...]]

    def types(self, x: TensorType) -> Types:
        return (TensorType(require_kind(self.name, x, self.kinds, "x").dtype, x.shape),)

    def compute(self, x: Array) -> Arrays:
        return (np.asarray(~x),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        return (Sample(cls(), (seeded(shape, dtype=dtype),)) for shape, dtype in cls.samples_of)


Not = operator(
    _Inverted, "Not", "The opposite of a bool tensor.", kinds="b", samples_of=(((2, 3), bool), ((), bool))
)
BitwiseNot = operator(
    _Inverted,
    "BitwiseNot",
    "All bits of an integer tensor flipped.",
    kinds="iu",
    samples_of=(((2, 3), np.int16), ((4,), np.uint64)),
)


@dataclass(frozen=True)
class BitShift(_Pair):
    """a moved by b bits, LEFT or RIGHT; to the right a signed a keeps its sign.

    A negative count, or one of at least the width, leaves only the sign: -1 for a negative a moved to the right,
    else 0.
    """

    direction: str

    name = "bit_shift"
    from_onnx = {"BitShift": lambda node: read(BitShift, node, "direction")}

    def types(self, a: TensorType, b: TensorType) -> Types:
        one_of(self.name, "direction", self.direction, ("LEFT", "RIGHT"))
        return (self.joined(a, b, "iu"),)

    @property
    def kind(self) -> str:
        return f"shift_{self.direction.lower()}"

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for direction in ("LEFT", "RIGHT"):
            signed = (np.array([-128, -1, 5, 127], np.int8), np.array([[1], [7], [8], [-1]], np.int8))
            yield Sample(BitShift(direction), signed)
            unsigned = (np.array([1, 255, 16], np.uint8), np.array([7, 1, 200], np.uint8))
            yield Sample(BitShift(direction), unsigned)
            yield Sample(BitShift(direction), (seeded((2, 3), dtype=np.uint64), np.array(63, np.uint64)))


@dataclass(frozen=True)
class IsInf(Pointwise):
    """True where x is infinite: of either sign, or of one sign only. The output is bool."""

    positive: bool = True
    negative: bool = True

    name = "is_inf"
    operands = ("x",)
    from_onnx = {
        "IsInf": lambda node: read(IsInf, node, positive="detect_positive", negative="detect_negative")
    }

    def types(self, x: TensorType) -> Types:
        return (TensorType(BOOL, _float_like(self.name, x).shape),)

    def function(self, inputs: Sequence[TensorType | None]) -> Function | None:
        if self.positive and self.negative:
            return Function("is_infinite")
        # Nothing equals NaN: a detector of neither sign.
        wanted = float("inf") if self.positive else float("-inf") if self.negative else float("nan")
        return Function("is_value", (wanted,))

    def compute(self, x: Array) -> Arrays:
        values = x.astype(np.float64)
        return (np.asarray((np.isposinf(values) & self.positive) | (np.isneginf(values) & self.negative)),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        special = np.array([[1.0, np.nan, np.inf, -np.inf]], np.float32)
        for positive, negative in [(True, True), (True, False), (False, True), (False, False)]:
            yield Sample(IsInf(positive, negative), (special,))


@dataclass(frozen=True)
class IsNaN(Pointwise):
    """True where x is NaN. The output is bool."""

    name = "is_nan"
    operands = ("x",)
    formula = "is_nan"
    from_onnx = {"IsNaN": lambda node: read(IsNaN, node)}

    def types(self, x: TensorType) -> Types:
        return (TensorType(BOOL, _float_like(self.name, x).shape),)

    def compute(self, x: Array) -> Arrays:
        return (np.isnan(x.astype(np.float64)),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(IsNaN(), (np.array([[1.0, np.nan, np.inf, -np.inf]], np.float32),))
        yield Sample(IsNaN(), (np.array([np.nan, 0], np.float16),))


def _float_like(op: str, x: TensorType) -> TensorType:
    """Floats of any width."""
    if x.dtype == STRING or "float" not in x.dtype.name:
        raise DTypeError(f"{op}: 'x' has type {x.dtype}, expected a float")
    return x
