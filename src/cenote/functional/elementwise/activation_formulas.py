"""What the activation functions do, on recorded operands; see `formulas`."""

from __future__ import annotations

from typing import Any

import numpy as np

from cenote.core.errors import ArgumentError, DTypeError
from cenote.core.types import is_float
from cenote.functional.arguments import choice, real
from cenote.functional.elementwise.formulas import as_float
from cenote.functional.elementwise.recorder import FORMULAS, Recorder, Traced, formula
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
from cenote.ops.elementwise.binary import Add, Div, Mul, PRelu, Sub
from cenote.ops.elementwise.compare import Compare, Logic
from cenote.ops.elementwise.pointwise import Pointwise
from cenote.ops.elementwise.unary import Neg
from cenote.ops.elementwise.where import Where


def _float(where: str, x: Traced) -> Traced:
    if not is_float(x.dtype):
        raise DTypeError(f"{where}: type {x.dtype} is not a float type; cast the input to float32 first")
    return x


def _with_alpha(kind: Any, where: str, name: str, alpha: Any) -> Pointwise:
    op: Pointwise = kind(real(where, name, alpha))
    return op


def _simple(name: str, op: Pointwise) -> None:
    FORMULAS[name] = lambda r, x: r.apply(op, _float(name, x))


for _name, _op in {
    "silu": Swish(), "mish": Mish(), "hardsigmoid": HardSigmoid(1 / 6, 0.5),
    "hardswish": HardSwish(),
}.items():  # fmt: skip
    _simple(_name, _op)


@formula
def relu(r: Recorder, x: Traced) -> Traced:
    return r.apply(Relu(), x)


@formula
def selu(r: Recorder, x: Traced) -> Traced:
    exact: Any = Selu  # ONNX's constants are rounded to float32
    return r.apply(
        exact(1.6732632423543772848170429916717, 1.0507009873554804934193349852946), _float("selu", x)
    )


@formula
def softsign(r: Recorder, x: Traced) -> Traced:
    return r.apply(Softsign(), as_float(r, x))


@formula
def sigmoid(r: Recorder, x: Traced) -> Traced:
    return r.apply(activation.Sigmoid(), as_float(r, x))


@formula
def tanh(r: Recorder, x: Traced) -> Traced:
    return r.apply(activation.Tanh(), as_float(r, x))


@formula
def relu6(r: Recorder, x: Traced) -> Traced:
    return r.apply(Clip(0, 6), x)


@formula
def hardtanh(r: Recorder, x: Traced, low: float = -1.0, high: float = 1.0) -> Traced:
    low, high = number("hardtanh", "min_val", low), number("hardtanh", "max_val", high)
    if x.dtype.kind in "iu":  # a bound beyond the type bounds nothing
        limits = np.iinfo(x.dtype)
        low = held("hardtanh", "min_val", limits.min if low < limits.min else low, x.dtype)
        high = held("hardtanh", "max_val", limits.max if high > limits.max else high, x.dtype)
    if not low <= high:
        raise ArgumentError(f"hardtanh: min_val {low} must not be above max_val {high}")
    return r.apply(Clip(low, high), x)


@formula
def leaky_relu(r: Recorder, x: Traced, negative_slope: float = 0.01) -> Traced:
    return r.apply(
        _with_alpha(LeakyRelu, "leaky_relu", "negative_slope", negative_slope), _float("leaky_relu", x)
    )


@formula
def elu(r: Recorder, x: Traced, alpha: float = 1.0) -> Traced:
    return r.apply(_with_alpha(Elu, "elu", "alpha", alpha), _float("elu", x))


@formula
def celu(r: Recorder, x: Traced, alpha: float = 1.0) -> Traced:
    return r.apply(_with_alpha(Celu, "celu", "alpha", alpha), _float("celu", x))


@formula
def gelu(r: Recorder, x: Traced, approximate: str = "none") -> Traced:
    return r.apply(Gelu(choice("gelu", "approximate", approximate, ("none", "tanh"))), _float("gelu", x))


@formula
def softplus(r: Recorder, x: Traced, beta: float = 1.0, threshold: float = 20.0) -> Traced:
    beta, threshold = real("softplus", "beta", beta), real("softplus", "threshold", threshold)
    scaled = x if beta == 1 else r.apply(Mul(), _float("softplus", x), r.scalar(beta, x.dtype))
    soft = r.apply(Softplus(), _float("softplus", scaled))
    if beta != 1:
        soft = r.apply(Div(), soft, r.scalar(beta, x.dtype))
    return r.apply(Where(), r.apply(Compare("greater"), scaled, r.scalar(threshold, x.dtype)), x, soft)


@formula
def logsigmoid(r: Recorder, x: Traced) -> Traced:
    return r.apply(Neg(), r.apply(Softplus(), r.apply(Neg(), _float("logsigmoid", x))))


@formula
def tanhshrink(r: Recorder, x: Traced) -> Traced:
    x = as_float(r, x)
    return r.apply(Sub(), x, tanh(r, x))


@formula
def hardshrink(r: Recorder, x: Traced, lambd: float = 0.5) -> Traced:
    limit = real("hardshrink", "lambd", lambd)
    low, high = r.scalar(-limit, _float("hardshrink", x).dtype), r.scalar(limit, x.dtype)
    inside = r.apply(
        Logic("and"), r.apply(Compare("greater_or_equal"), x, low), r.apply(Compare("less_or_equal"), x, high)
    )
    return r.apply(Where(), inside, r.scalar(0, x.dtype), x)


@formula
def softshrink(r: Recorder, x: Traced, lambd: float = 0.5) -> Traced:
    limit = real("softshrink", "lambd", lambd)
    if not limit >= 0:
        raise ArgumentError(f"softshrink: lambd must be at least 0, got {lambd}")
    low, high = r.scalar(-limit, _float("softshrink", x).dtype), r.scalar(limit, x.dtype)
    below, above = r.apply(Compare("less"), x, low), r.apply(Compare("greater"), x, high)
    rest = r.apply(Where(), below, r.apply(Add(), x, high), r.apply(Mul(), x, r.scalar(0, x.dtype)))
    return r.apply(Where(), above, r.apply(Sub(), x, high), rest)


@formula
def threshold(r: Recorder, x: Traced, limit: float, value: float) -> Traced:
    limit, value = number("threshold", "threshold", limit), number("threshold", "value", value)
    low = r.apply(Compare("less_or_equal"), x, r.scalar(limit, x.dtype))
    return r.apply(Where(), low, r.scalar(value, x.dtype), x)


@formula
def prelu(r: Recorder, x: Traced, weight: Any) -> Traced:
    return r.apply(PRelu(), _float("prelu", x), weight)
