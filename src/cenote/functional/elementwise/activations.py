"""Activation functions on arrays, named and defaulted as torch.nn.functional.

Float types, where nothing else is said; out, threads and errors as in `elementwise`.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import numpy as np

from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.types import TensorType
from cenote.functional.arguments import Operation, choice
from cenote.functional.elementwise import arithmetic, unary  # noqa: F401  # formulas are made of their functions
from cenote.functional.elementwise.recorder import (
    FormulaRecorder,
    Operand,
    Traced,
    Value,
    apply,
    as_floats,
    elementwise,
    floats,
    formula,
    of_operator,
    operation_of,
    record,
)
from cenote.functional.kinds import Array, ArrayKind, Kind
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
from cenote.ops.elementwise.compare import Compare
from cenote.ops.elementwise.pointwise import Pointwise
from cenote.ops.elementwise.where import Where

Real = Annotated[Any, Kind("float", number)]
Weight = Annotated[TensorType, ArrayKind("Any")]


def _with(kind: type[Any], *fields: float) -> Pointwise:
    """An operator whose fields type checkers do not know."""
    op: Pointwise = kind(*fields)
    return op


def _where(condition: Traced, a: Operand, b: Operand) -> Traced:
    return record("where", condition, a, b)


_of_operator = partial(of_operator, __name__)

relu = _of_operator("relu", Relu(), "max(input, 0); NaN stays.")
relu6 = _of_operator("relu6", Clip(0, 6), "input held within 0 .. 6; NaN stays.")
# ONNX's constants are rounded to float32.
_SELU = _with(Selu, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)
selu = _of_operator("selu", _SELU, "1.0507 * elu with alpha 1.6733.", floats)
sigmoid = _of_operator(
    "sigmoid", activation.Sigmoid(), "1 / (1 + exp(-input)); integers give float32.", as_floats
)
silu = _of_operator("silu", Swish(), "input * sigmoid(input).", floats)
mish = _of_operator("mish", Mish(), "input * tanh(softplus(input)).", floats)
softsign = _of_operator("softsign", Softsign(), "input / (1 + |input|).", as_floats)
tanh = _of_operator("tanh", activation.Tanh(), "Hyperbolic tangent; integers give float32.", as_floats)
hardsigmoid = _of_operator(
    "hardsigmoid", HardSigmoid(1 / 6, 0.5), "input / 6 + 1/2 held within 0 .. 1.", floats
)
hardswish = _of_operator("hardswish", HardSwish(), "input * hardsigmoid(input).", floats)


@elementwise
def leaky_relu(input: Value, negative_slope: float = 0.01) -> Traced:
    """input, below 0 times negative_slope."""
    return apply(_with(LeakyRelu, negative_slope), floats(input))


@elementwise
def elu(input: Value, alpha: float = 1.0) -> Traced:
    """input, below 0 alpha * (exp(input) - 1)."""
    return apply(_with(Elu, alpha), floats(input))


@elementwise
def celu(input: Value, alpha: float = 1.0) -> Traced:
    """input, below 0 alpha * (exp(input / alpha) - 1)."""
    return apply(_with(Celu, alpha), floats(input))


@elementwise
def gelu(input: Value, approximate: str = "none") -> Traced:
    """input * Phi(input), by erf ("none") or "tanh"."""
    return apply(Gelu(choice("approximate", approximate, ("none", "tanh"))), floats(input))


@elementwise
def logsigmoid(input: Value) -> Traced:
    """log(sigmoid(input)), without overflow."""
    return -apply(Softplus(), -floats(input))


@elementwise
def softplus(input: Value, beta: float = 1.0, threshold: float = 20.0) -> Traced:
    """log(1 + exp(beta * input)) / beta; input itself where beta * input is above threshold."""
    scaled = input if beta == 1 else floats(input) * beta
    soft = apply(Softplus(), floats(scaled))
    if beta != 1:
        soft = soft / beta
    return _where(scaled > threshold, input, soft)


@elementwise
def hardtanh(input: Value, min_val: Real = -1.0, max_val: Real = 1.0) -> Traced:
    """input held within min_val .. max_val; NaN stays."""
    low, high = min_val, max_val
    if input.dtype.kind in "iu":  # a bound beyond the type bounds nothing
        limits = np.iinfo(input.dtype)
        low = held("min_val", limits.min if low < limits.min else low, input.dtype)
        high = held("max_val", limits.max if high > limits.max else high, input.dtype)
    if not low <= high:
        raise ArgumentError(f"min_val {low} must not be above max_val {high}")
    return apply(Clip(low, high), input)


@elementwise
def hardshrink(input: Value, lambd: float = 0.5) -> Traced:
    """0 where input is within -lambd .. lambd; NaN stays."""
    x = floats(input)
    low, high = x.number(-lambd), x.number(lambd)
    return _where((x >= low) & (x <= high), x.number(0), x)


@elementwise
def softshrink(input: Value, lambd: float = 0.5) -> Traced:
    """input moved toward 0 by lambd, and 0 in between; NaN stays."""
    if not lambd >= 0:
        raise ArgumentError(f"lambd must be at least 0, got {lambd}")
    x = floats(input)
    below, above = x < -lambd, x > lambd
    rest = _where(below, x + lambd, x * 0)
    return _where(above, x - lambd, rest)


@elementwise
def tanhshrink(input: Value) -> Traced:
    """input - tanh(input)."""
    x = as_floats(input)
    return x - apply(activation.Tanh(), x)


@elementwise
def threshold(input: Value, threshold: Real, value: Real) -> Traced:
    """value where input is at most threshold; NaN stays."""
    low = apply(Compare("less_or_equal"), input, input.number(threshold))
    return apply(Where(), low, input.number(value), input)


@formula
def _prelu(x: Value, weight: Value) -> Traced:
    return apply(PRelu(), floats(x), weight)


@function()
def prelu(input: Array, weight: Weight) -> Operation:
    """input, below 0 times weight: one number, or one per channel (axis 1).

    Raises ShapeError for a weight of another shape.
    """
    channels = input.shape[1] if input.rank > 1 else 1
    if weight.rank > 1 or weight.size not in (1, channels):
        raise ShapeError(f"weight has shape {list(weight.shape)}; expected 1 number or {channels}")
    behind = (1,) * max(input.rank - 2, 0)
    shape = (weight.size, *behind) if weight.size > 1 else ()
    recorder = FormulaRecorder((input, TensorType(weight.dtype, shape)))
    return operation_of(recorder, _prelu(*recorder.given()))
