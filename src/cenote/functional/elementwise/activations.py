"""Activation functions on arrays, named and defaulted as torch.nn.functional.

Float types, where nothing else is said; out, threads and errors as in `elementwise`.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

import cenote.functional.elementwise.arithmetic  # noqa: F401  # Python's operators are its functions
from cenote.core.errors import ArgumentError, DTypeError, ShapeError
from cenote.core.types import TensorType, is_float
from cenote.functional.arguments import Operation, choice
from cenote.functional.elementwise.recorder import (
    FormulaRecorder,
    Number,
    Operand,
    Traced,
    Value,
    apply,
    elementwise,
    formula,
    operation_of,
    record,
)
from cenote.functional.elementwise.unary import as_float
from cenote.functional.kinds import Array, ArrayKind, Kind, Name
from cenote.functional.record import function
from cenote.functional.scalars import held, number
from cenote.ops.elementwise import activation
from cenote.ops.elementwise.activation import (
    Celu,
    Clip,
    Elu,
    Gelu,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    Mish,
    Relu,
    Selu,
    Softplus,
    Softsign,
    Swish,
)
from cenote.ops.elementwise.binary import PRelu
from cenote.ops.elementwise.compare import Compare, Logic
from cenote.ops.elementwise.pointwise import Pointwise
from cenote.ops.elementwise.where import Where


class _NumberKind(Kind):
    """A real number, whole ones as they are."""

    def read(self, where: str, name: str, value: Any) -> Number:
        return number(where, name, value)


Real = Annotated[Any, _NumberKind("float")]
Weight = Annotated[TensorType, ArrayKind("Any")]


def _float(where: str, x: Traced) -> Traced:
    if not is_float(x.dtype):
        raise DTypeError(f"{where}: type {x.dtype} is not a float type; cast the input to float32 first")
    return x


def _with(kind: type[Any], *fields: float) -> Pointwise:
    """An operator whose fields type checkers do not know."""
    op: Pointwise = kind(*fields)
    return op


def _where(condition: Traced, a: Operand, b: Operand) -> Traced:
    return record("where", condition, a, b)


@elementwise
def relu(input: Value) -> Traced:
    """max(input, 0); NaN stays."""
    return apply(Relu(), input)


@elementwise
def relu6(input: Value) -> Traced:
    """input held within 0 .. 6; NaN stays."""
    return apply(Clip(0, 6), input)


@elementwise
def leaky_relu(input: Value, negative_slope: float = 0.01) -> Traced:
    """input, below 0 times negative_slope."""
    return apply(_with(LeakyRelu, negative_slope), _float("leaky_relu", input))


@elementwise
def elu(input: Value, alpha: float = 1.0) -> Traced:
    """input, below 0 alpha * (exp(input) - 1)."""
    return apply(_with(Elu, alpha), _float("elu", input))


@elementwise
def selu(input: Value) -> Traced:
    """1.0507 * elu with alpha 1.6733."""
    # ONNX's constants are rounded to float32.
    exact = _with(Selu, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)
    return apply(exact, _float("selu", input))


@elementwise
def celu(input: Value, alpha: float = 1.0) -> Traced:
    """input, below 0 alpha * (exp(input / alpha) - 1)."""
    return apply(_with(Celu, alpha), _float("celu", input))


@elementwise
def gelu(input: Value, approximate: str = "none") -> Traced:
    """input * Phi(input), by erf ("none") or "tanh"."""
    return apply(Gelu(choice("gelu", "approximate", approximate, ("none", "tanh"))), _float("gelu", input))


@elementwise
def sigmoid(input: Value) -> Traced:
    """1 / (1 + exp(-input)); integers give float32."""
    return apply(activation.Sigmoid(), as_float(input))


@elementwise
def logsigmoid(input: Value) -> Traced:
    """log(sigmoid(input)), without overflow."""
    return -apply(Softplus(), -_float("logsigmoid", input))


@elementwise
def silu(input: Value) -> Traced:
    """input * sigmoid(input)."""
    return apply(Swish(), _float("silu", input))


@elementwise
def mish(input: Value) -> Traced:
    """input * tanh(softplus(input))."""
    return apply(Mish(), _float("mish", input))


@elementwise
def softplus(input: Value, beta: float = 1.0, threshold: float = 20.0) -> Traced:
    """log(1 + exp(beta * input)) / beta; input itself where beta * input is above threshold."""
    scaled = input if beta == 1 else _float("softplus", input) * beta
    soft = apply(Softplus(), _float("softplus", scaled))
    if beta != 1:
        soft = soft / beta
    return _where(scaled > threshold, input, soft)


@elementwise
def softsign(input: Value) -> Traced:
    """input / (1 + |input|)."""
    return apply(Softsign(), as_float(input))


@elementwise
def tanh(input: Value) -> Traced:
    """Hyperbolic tangent; integers give float32."""
    return apply(activation.Tanh(), as_float(input))


@elementwise
def hardtanh(input: Value, min_val: Real = -1.0, max_val: Real = 1.0) -> Traced:
    """input held within min_val .. max_val; NaN stays."""
    low, high = min_val, max_val
    if input.dtype.kind in "iu":  # a bound beyond the type bounds nothing
        limits = np.iinfo(input.dtype)
        low = held("hardtanh", "min_val", limits.min if low < limits.min else low, input.dtype)
        high = held("hardtanh", "max_val", limits.max if high > limits.max else high, input.dtype)
    if not low <= high:
        raise ArgumentError(f"hardtanh: min_val {low} must not be above max_val {high}")
    return apply(Clip(low, high), input)


@elementwise
def hardsigmoid(input: Value) -> Traced:
    """input / 6 + 1/2 held within 0 .. 1."""
    return apply(HardSigmoid(1 / 6, 0.5), _float("hardsigmoid", input))


@elementwise
def hardswish(input: Value) -> Traced:
    """input * hardsigmoid(input)."""
    return apply(HardSwish(), _float("hardswish", input))


@elementwise
def hardshrink(input: Value, lambd: float = 0.5) -> Traced:
    """0 where input is within -lambd .. lambd; NaN stays."""
    x = _float("hardshrink", input)
    low, high = x.number(-lambd), x.number(lambd)
    inside = apply(Logic("and"), x >= low, x <= high)
    return _where(inside, x.number(0), x)


@elementwise
def softshrink(input: Value, lambd: float = 0.5) -> Traced:
    """input moved toward 0 by lambd, and 0 in between; NaN stays."""
    if not lambd >= 0:
        raise ArgumentError(f"softshrink: lambd must be at least 0, got {lambd}")
    x = _float("softshrink", input)
    below, above = x < -lambd, x > lambd
    rest = _where(below, x + lambd, x * 0)
    return _where(above, x - lambd, rest)


@elementwise
def tanhshrink(input: Value) -> Traced:
    """input - tanh(input)."""
    x = as_float(input)
    return x - apply(activation.Tanh(), x)


@elementwise
def threshold(input: Value, threshold: Real, value: Real) -> Traced:
    """value where input is at most threshold; NaN stays."""
    low = apply(Compare("less_or_equal"), input, input.number(threshold))
    return apply(Where(), low, input.number(value), input)


@formula
def _prelu(x: Value, weight: Value) -> Traced:
    return apply(PRelu(), _float("prelu", x), weight)


@function()
def prelu(where: Name, input: Array, weight: Weight) -> Operation:
    """input, below 0 times weight: one number, or one per channel (axis 1).

    Raises ShapeError for a weight of another shape.
    """
    channels = input.shape[1] if input.rank > 1 else 1
    if weight.rank > 1 or weight.size not in (1, channels):
        raise ShapeError(f"{where}: weight has shape {list(weight.shape)}; expected 1 number or {channels}")
    behind = (1,) * max(input.rank - 2, 0)
    shape = (weight.size, *behind) if weight.size > 1 else ()
    recorder = FormulaRecorder(where, (input, TensorType(weight.dtype, shape)))
    return operation_of(recorder, _prelu(*recorder.given()))
