"""Activation functions: Relu and its relatives, sigmoid, tanh, Gelu, Clip.

Each operator says which `Activation` it is, so that a pass can move it into the epilogue of a kernel.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError, UnsupportedError
from cenote.core.types import INT64, Array, TensorType, is_float
from cenote.kernels.base import present
from cenote.kernels.elementwise.activations import KINDS, Activation
from cenote.kernels.elementwise.functions import FORMULAS
from cenote.ops.base import Arrays, Imported, Op, Rewired, Sample, Types
from cenote.ops.checks import read, require_number, require_same_dtype
from cenote.ops.elementwise.pointwise import Function, Pointwise, unary_samples
from cenote.ops.family import operator, snake_case
from cenote.ops.values import seeded


class ActivationOp(Pointwise):
    """Base: one float input, one function: the activation of the operator's name, with its fields as parameters."""

    operands = ("x",)
    integers = False

    @property
    def activation(self) -> Activation:
        parameters = dataclasses.astuple(self)  # type: ignore[call-overload]  # every operator is a dataclass
        return Activation(self.name, *parameters)

    def function(self, inputs: Sequence[TensorType | None]) -> Function | None:
        made = self.activation
        return Function(made.kind, (made.alpha, made.beta), (0,), KINDS[made.kind].tolerance, self.weight)

    def elements(self, x: Array) -> Array:
        return self.activation.apply(x) if x.size else x

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from unary_samples(cls(), cls.integers)
        yield Sample(cls(), (seeded((2, 9, 5)) * np.float32(30.0),), f"{cls.name} large")


def activation_of(op: Op, inputs: Sequence[TensorType | None]) -> Activation | None:
    """The activation that an operator is on these inputs (bounds of Clip may be constants), or None."""
    if isinstance(op, ActivationOp):
        return op.activation
    return op.bounds_of(inputs) if isinstance(op, Clip) else None


def activation(onnx: str, meaning: str, **parameters: float) -> type[ActivationOp]:
    """The operator that ONNX calls `onnx`; its parameters are the activation's."""
    formula = KINDS[snake_case(onnx)]
    return operator(
        ActivationOp, onnx, meaning, parameters, weight=formula.weight, integers=formula.serves(INT64)
    )


Relu = activation("Relu", "max(x, 0), NaN stays.")
LeakyRelu = activation("LeakyRelu", "x, or alpha * x below 0.", alpha=0.01)
ThresholdedRelu = activation(
    "ThresholdedRelu",
    "x where it is above alpha, else 0: so too where x or alpha is NaN, as the comparison is false then.",
    alpha=1.0,
)
Elu = activation("Elu", "x, or alpha * (exp(x) - 1) below 0.", alpha=1.0)
Selu = activation(
    "Selu",
    "gamma * x, or gamma * alpha * (exp(x) - 1) below 0.",
    alpha=1.67326319217681884765625,
    gamma=1.05070102214813232421875,
)
Sigmoid = activation("Sigmoid", "1 / (1 + exp(-x)).")
HardSwish = activation("HardSwish", "x * max(0, min(1, x / 6 + 0.5)).")
Softplus = activation("Softplus", "log(1 + exp(x)), without overflow.")
Softsign = activation("Softsign", "x / (1 + |x|).")
Tanh = activation("Tanh", "Hyperbolic tangent.")
Mish = activation("Mish", "x * tanh(softplus(x)).")


@dataclass(frozen=True)
class Celu(ActivationOp):
    """x, or alpha * (exp(x / alpha) - 1) below 0; alpha must not be 0."""

    name = "celu"
    from_onnx = {"Celu": lambda node: read(Celu, node, "alpha")}
    weight = KINDS["celu"].weight
    alpha: float = 1.0

    def types(self, x: TensorType) -> Types:
        if self.alpha == 0:
            raise ArgumentError("Celu: alpha is 0, the formula divides by it; use Relu")
        return super().types(x)


@dataclass(frozen=True)
class HardSigmoid(ActivationOp):
    """alpha * x + beta, held within 0..1."""

    name = "hard_sigmoid"
    from_onnx = {"HardSigmoid": lambda node: read(HardSigmoid, node, "alpha", "beta")}
    weight = KINDS["hard_sigmoid"].weight
    alpha: float = 0.2
    beta: float = 0.5


@dataclass(frozen=True)
class Gelu(ActivationOp):
    """x * Phi(x): `approximate` is "none" (by erf) or "tanh"."""

    name = "gelu"
    from_onnx = {"Gelu": lambda node: read(Gelu, node, "approximate")}
    weight = KINDS["gelu"].weight
    approximate: str = "none"

    def types(self, x: TensorType) -> Types:
        if self.approximate not in ("none", "tanh"):
            raise UnsupportedError(f"Gelu: approximate '{self.approximate}' is not known (none, tanh)")
        return super().types(x)

    @property
    def activation(self) -> Activation:
        return Activation("gelu_tanh" if self.approximate == "tanh" else "gelu")

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from super().samples()
        yield from unary_samples(Gelu("tanh"), integers=False)


@dataclass(frozen=True)
class Swish(ActivationOp):
    """x * sigmoid(alpha * x); SiLU when alpha is 1."""

    name = "swish"
    from_onnx = {"Swish": lambda node: read(Swish, node, "alpha")}
    weight = KINDS["swish"].weight
    alpha: float = 1.0

    @property
    def activation(self) -> Activation:
        return Activation("silu") if self.alpha == 1.0 else Activation("swish", self.alpha)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from super().samples()
        yield Sample(Swish(1.702), (seeded((2, 9, 5)),), "Swish 1.702")


@dataclass(frozen=True)
class Shrink(ActivationOp):
    """x + bias below -threshold, x - bias above threshold, else 0: so too where x or threshold is NaN."""

    name = "shrink"
    from_onnx = {"Shrink": lambda node: read(Shrink, node, "bias", threshold="lambd")}
    integers = True
    weight = KINDS["shrink"].weight
    threshold: float = 0.5
    bias: float = 0.0

    def function(self, inputs: Sequence[TensorType | None]) -> Function | None:
        """The kernel counts in the input's type: of integers none, unless both numbers are the same in it."""
        kind = present(inputs[0]).dtype.kind
        whole = self.bias.is_integer() and 0 <= self.threshold < (1 if kind == "u" else math.inf)
        return super().function(inputs) if whole or kind not in "iu" else None

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from unary_samples(cls(), integers=True)
        yield Sample(Shrink(1.0, 0.5), (seeded((2, 9, 5)),), "Shrink soft")
        for dtype in (np.uint8, np.int8):
            for threshold, bias in ((1.0, 1.0), (0.5, 1.0), (1.5, 0.5), (-2.0, 1.0)):
                yield Sample(Shrink(threshold, bias), (np.arange(7).astype(dtype),), "Shrink integers")


@dataclass(frozen=True)
class Clip(Pointwise):
    """x held within low..high; high wins where low > high; NaN stays.

    The bounds are fields, or (where a model computes them) the scalar inputs 1 and 2; None: no bound.
    """

    name = "clip"
    from_onnx = {"Clip": lambda node: _decode_clip(node)}
    weight = KINDS["clip"].weight
    low: float | int | None = None
    high: float | int | None = None

    operands = ("x", "low?", "high?")

    def types(self, x: TensorType, low: TensorType | None, high: TensorType | None) -> Types:
        for what, bound in (("min", low), ("max", high)):
            if bound is not None and bound.size != 1:
                raise ShapeError(f"Clip: {what} has shape {list(bound.shape)}, needs a scalar")
        require_number(self.name, require_same_dtype(self.name, x, low, high))
        return (TensorType(x.dtype, x.shape),)

    def compute(self, x: Array, low: Array | None, high: Array | None) -> Arrays:
        self.declared(x, low, high)
        y = x
        for bound, field, higher in ((low, self.low, True), (high, self.high, False)):
            if bound is not None:
                limit = bound.reshape(())
            elif field is not None:
                limit = _in_range(field, x.dtype)
            else:
                continue
            y = np.where(y < limit if higher else y > limit, limit, y)
        return (y.astype(x.dtype),)

    def function(self, inputs: Sequence[TensorType | None]) -> Function | None:
        known = self.bounds_of(inputs)
        if known is not None:
            dtype = inputs[0].dtype if inputs[0] is not None else np.dtype(np.float32)
            if is_float(dtype):
                return Function(known.kind, (known.alpha, known.beta), (0,), 0.0, self.weight)
            low, high = (int(_in_range(bound, dtype)) for bound in self._exact_bounds(inputs, dtype))
            return Function("clip", (low, high), (0,), 0.0, self.weight)
        if self.low is not None or self.high is not None:
            return None
        given = [index for index in (1, 2) if index < len(inputs) and inputs[index] is not None]
        name = "clamp" if len(given) == 2 else "max_scalar" if given == [1] else "min_scalar"
        return Function(name, (), (0, *given), 0.0, FORMULAS[name].weight)

    def _exact_bounds(self, inputs: Sequence[TensorType | None], dtype: np.dtype[Any]) -> list[int | float]:
        """Known bounds of an integer type, in full precision."""
        limits, bounds = np.iinfo(dtype), []
        for index, (field, none) in enumerate(((self.low, limits.min), (self.high, limits.max)), start=1):
            given = inputs[index] if index < len(inputs) else None
            value = (
                field if given is None else None if given.value is None else given.value.reshape(()).item()
            )
            bounds.append(none if value is None else value)
        return bounds

    def bounds_of(self, inputs: Sequence[TensorType | None]) -> Activation | None:
        """Clip as an activation, if its bounds are known."""
        bounds = []
        for index, (field, none) in enumerate(((self.low, -np.inf), (self.high, np.inf)), start=1):
            given = inputs[index] if index < len(inputs) else None
            if given is None:
                bounds.append(none if field is None else float(field))
            elif given.value is None:
                return None
            else:
                bounds.append(float(given.value.reshape(())))
        return Activation("relu") if bounds == [0.0, np.inf] else Activation("clip", bounds[0], bounds[1])

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for op in (Clip(0.0, 6.0), Clip(-0.5), Clip(None, 0.25), Clip(), Clip(1.0, -1.0)):
            yield from list(unary_samples(op, integers=False))[: 13 if op == Clip(0.0, 6.0) else 2]
        yield Sample(Clip(-3, 5), (seeded((2, 9, 3), 0, np.int8),), "Clip int8")
        low, high = np.float32(-0.5), np.float32(0.5)
        yield Sample(Clip(), (seeded((2, 9, 3)), np.asarray(low), np.asarray(high)), "Clip inputs")
        yield Sample(Clip(), (seeded((2, 9, 3)), None, np.asarray(high)), "Clip no min")


def _in_range(bound: float | int, dtype: np.dtype[Any]) -> Array:
    """A bound as the element type; beyond an integer type's range it is the type's end."""
    if is_float(dtype):
        return np.asarray(bound, np.float64).astype(dtype)
    limits = np.iinfo(dtype)
    return np.asarray(int(min(max(bound, limits.min), limits.max)), dtype)


def _decode_clip(node: Imported) -> Op | Rewired:
    if node.opset < 11:
        node.expect("min", "max")
        low, high = node.get("min", -np.finfo(np.float32).max), node.get("max", np.finfo(np.float32).max)
        lowest = float(np.finfo(np.float32).max)
        return Clip(None if low <= -lowest else float(low), None if high >= lowest else float(high))
    node.expect()
    bounds: list[float | int | None] = []
    for index in (1, 2):
        present = index < len(node.present) and node.present[index]
        value = node.constant(index)
        if present and (value is None or value.size != 1):
            return Clip()
        bounds.append(value.reshape(()).item() if value is not None else None)
    return Rewired(Clip(bounds[0], bounds[1]), (0,))
