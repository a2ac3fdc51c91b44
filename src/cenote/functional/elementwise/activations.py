"""Activation functions on arrays, named and defaulted as torch.nn.functional.

Float types, where nothing else is said; out, threads and errors as in `elementwise`.
"""

from __future__ import annotations

from typing import Any, cast

import cenote.functional.elementwise.activation_formulas  # noqa: F401  # enters the functions
from cenote.core.errors import ShapeError
from cenote.core.types import TensorType
from cenote.functional.arguments import Operation, Types
from cenote.functional.dispatch import call
from cenote.functional.elementwise.recorder import FORMULAS, Recorder, operation_of, run
from cenote.functional.record import public
from cenote.functional.types import A


@public
def relu(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """max(input, 0); NaN stays."""
    return cast(A, run("relu", (input,), (), out, threads))


@public
def relu6(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """input held within 0 .. 6; NaN stays."""
    return cast(A, run("relu6", (input,), (), out, threads))


@public
def leaky_relu(
    input: A, negative_slope: float = 0.01, *, out: A | None = None, threads: int | None = None
) -> A:
    """input, below 0 times negative_slope."""
    return cast(A, run("leaky_relu", (input,), (negative_slope,), out, threads))


@public
def elu(input: A, alpha: float = 1.0, *, out: A | None = None, threads: int | None = None) -> A:
    """input, below 0 alpha * (exp(input) - 1)."""
    return cast(A, run("elu", (input,), (alpha,), out, threads))


@public
def selu(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """1.0507 * elu with alpha 1.6733."""
    return cast(A, run("selu", (input,), (), out, threads))


@public
def celu(input: A, alpha: float = 1.0, *, out: A | None = None, threads: int | None = None) -> A:
    """input, below 0 alpha * (exp(input / alpha) - 1)."""
    return cast(A, run("celu", (input,), (alpha,), out, threads))


@public
def gelu(input: A, approximate: str = "none", *, out: A | None = None, threads: int | None = None) -> A:
    """input * Phi(input), by erf ("none") or "tanh"."""
    return cast(A, run("gelu", (input,), (approximate,), out, threads))


@public
def sigmoid(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """1 / (1 + exp(-input)); integers give float32."""
    return cast(A, run("sigmoid", (input,), (), out, threads))


@public
def logsigmoid(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """log(sigmoid(input)), without overflow."""
    return cast(A, run("logsigmoid", (input,), (), out, threads))


@public
def silu(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """input * sigmoid(input)."""
    return cast(A, run("silu", (input,), (), out, threads))


@public
def mish(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """input * tanh(softplus(input))."""
    return cast(A, run("mish", (input,), (), out, threads))


@public
def softplus(
    input: A, beta: float = 1.0, threshold: float = 20.0, *, out: A | None = None, threads: int | None = None
) -> A:
    """log(1 + exp(beta * input)) / beta; input itself where beta * input is above threshold."""
    return cast(A, run("softplus", (input,), (beta, threshold), out, threads))


@public
def softsign(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """input / (1 + |input|)."""
    return cast(A, run("softsign", (input,), (), out, threads))


@public
def tanh(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """Hyperbolic tangent; integers give float32."""
    return cast(A, run("tanh", (input,), (), out, threads))


@public
def hardtanh(
    input: A, min_val: float = -1.0, max_val: float = 1.0, *, out: A | None = None, threads: int | None = None
) -> A:
    """input held within min_val .. max_val; NaN stays."""
    return cast(A, run("hardtanh", (input,), (min_val, max_val), out, threads))


@public
def hardsigmoid(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """input / 6 + 1/2 held within 0 .. 1."""
    return cast(A, run("hardsigmoid", (input,), (), out, threads))


@public
def hardswish(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """input * hardsigmoid(input)."""
    return cast(A, run("hardswish", (input,), (), out, threads))


@public
def hardshrink(input: A, lambd: float = 0.5, *, out: A | None = None, threads: int | None = None) -> A:
    """0 where input is within -lambd .. lambd; NaN stays."""
    return cast(A, run("hardshrink", (input,), (lambd,), out, threads))


@public
def softshrink(input: A, lambd: float = 0.5, *, out: A | None = None, threads: int | None = None) -> A:
    """input moved toward 0 by lambd, and 0 in between; NaN stays."""
    return cast(A, run("softshrink", (input,), (lambd,), out, threads))


@public
def tanhshrink(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """input - tanh(input)."""
    return cast(A, run("tanhshrink", (input,), (), out, threads))


@public
def threshold(
    input: A, threshold: float, value: float, *, out: A | None = None, threads: int | None = None
) -> A:
    """value where input is at most threshold; NaN stays."""
    return cast(A, run("threshold", (input,), (threshold, value), out, threads))


@public
def prelu(input: A, weight: Any, *, out: A | None = None, threads: int | None = None) -> A:
    """input, below 0 times weight: one number, or one per channel (axis 1).

    Raises ShapeError for a weight of another shape.
    """
    return cast(A, call(parse_prelu, (input, weight), ("prelu",), out, threads))


def parse_prelu(types: Types, where: str) -> Operation:
    """PReLU, the weight moved to the axis of channels."""
    x, weight = types
    channels = x.shape[1] if x.rank > 1 else 1
    if weight.rank > 1 or weight.size not in (1, channels):
        raise ShapeError(f"{where}: weight has shape {list(weight.shape)}; expected 1 number or {channels}")
    behind = (1,) * max(x.rank - 2, 0)
    shape = (weight.size, *behind) if weight.size > 1 else ()
    recorder = Recorder(where, (x, TensorType(weight.dtype, shape)))
    return operation_of(recorder, FORMULAS["prelu"](recorder, *recorder.given()))
