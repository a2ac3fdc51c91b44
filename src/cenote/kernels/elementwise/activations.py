"""Activations as data: functions that a convolution or an elementwise kernel applies to a finished value.

An `Activation` emits its instructions into any kernel, on vectors of any lanes, and computes the same function on
NumPy arrays in float64. Every kind passes NaN on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import erf as erf_of_one
from typing import TypeVar

import numpy as np

from cenote.codegen import math
from cenote.codegen.builder import Kernel
from cenote.codegen.values import Pointer, Value
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.types import Array
from cenote.kernels.elementwise.formula import ElementwiseFormula

ROOT_HALF = 0.5**0.5
ROOT_TWO_OVER_PI = 0.7978845608028654

T = TypeVar("T")

Emit = Callable[[Kernel, Value, float, float], Value]
Apply = Callable[[Array, float, float], Array]


@dataclass(frozen=True)
class Activation:
    """One activation function. `kind` is a key of `KINDS`, which also gives the meaning of `alpha` and `beta`.

    >>> Activation("clip", 0.0, 6.0).apply(np.array([-1.0, 3.0, 9.0]))
    array([0., 3., 6.])
    """

    kind: str = "identity"
    alpha: float = 0.0
    beta: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"activation '{self.kind}' is not known (known: {', '.join(KINDS)})")

    @property
    def is_identity(self) -> bool:
        return self.kind == "identity"

    @property
    def never_decreases(self) -> bool:
        """Whether a <= b makes f(a) <= f(b): then the maximum may be taken first."""
        return self.kind in ("identity", "relu", "clip")

    def emit(self, kernel: Kernel, value: Value) -> Value:
        """Append the instructions for a float scalar or vector and return the result."""
        return KINDS[self.kind].emit(kernel, value, self.alpha, self.beta)

    @property
    def is_long(self) -> bool:
        """Whether it takes so many instructions that several vectors should go through it together."""
        return not KINDS[self.kind].is_short

    def emit_together(self, kernel: Kernel, values: Sequence[Value]) -> list[Value]:
        """Emit the activation of equal vectors, with alternating instructions.

        A long activation is one chain of dependent instructions: alternating chains keep the processor's units busy,
        and share the registers of the constants. Joined vectors are wider than a register, so LLVM splits every
        instruction into neighbours.
        """
        if len(values) == 1:
            return [self.emit(kernel, values[0])]
        lanes = values[0].lanes
        result = self.emit(kernel, kernel.joined(values))
        return [kernel.shuffle(result, result, range(at, at + lanes)) for at in range(0, result.lanes, lanes)]

    def apply(self, array: Array) -> Array:
        """Apply the function to a float64 array (other types compute in their own)."""
        with np.errstate(all="ignore"):
            return np.asarray(KINDS[self.kind].apply(array, self.alpha, self.beta))

    def __str__(self) -> str:
        shown = {"clip": f"({self.alpha:g},{self.beta:g})", "leaky_relu": f"({self.alpha:g})"}
        return self.kind + shown.get(self.kind, "")


@dataclass(frozen=True)
class Destination:
    """Destination of a finished vector; lanes outside the mask are not written."""

    pointer: Pointer
    mask: Value | None = None


def store_activated(
    k: Kernel, activation: Activation, places: Sequence[Destination], values: Sequence[Value]
) -> None:
    """Write the activations of a tile's sums.

    Long activations load the sums again from where they have just been written, some at a time: beside a tile of sums
    there are no registers left for several chains (SiLU on Zen 3: 7.3 cycles per vector, 8.9 straight from the
    registers). Memory of a narrower type would round the sums.
    """
    long = activation.is_long
    if long and places[0].pointer.element is not values[0].type:
        values, activation, long = activated(k, activation, values), Activation(), False
    for place, value in zip(places, values, strict=True):
        place.pointer.store(value if long else activation.emit(k, value), 0, place.mask)
    for part in in_parts(places, k.target) if long else ():
        loaded = [place.pointer.load(0, values[0].lanes, place.mask) for place in part]
        for place, value in zip(part, activation.emit_together(k, loaded), strict=True):
            place.pointer.store(value, 0, place.mask)


def activated(k: Kernel, activation: Activation, values: Sequence[Value]) -> list[Value]:
    """Apply the activation to vectors in registers: long ones together, as many as there are registers for."""
    if not activation.is_long:
        return [activation.emit(k, value) for value in values]
    parts = in_parts(values, k.target)
    return [value for part in parts for value in activation.emit_together(k, part)]


def in_parts(items: Sequence[T], target: Target) -> Iterator[Sequence[T]]:
    """Cut items into few equal parts, each of which goes through a long activation together: six chains fill 16
    registers."""
    parts = -(-len(items) // (12 if target.registers > 16 else 6))
    each = -(-len(items) // parts)
    for first in range(0, len(items), each):
        yield items[first : first + each]


def clamp(kernel: Kernel, value: Value, low: float, high: float) -> Value:
    """Limit a value to low..high; NaN stays; high wins where low > high. Two instructions."""
    raised = kernel.select(value < low, kernel.constant(value.type, low), value)
    return kernel.select(raised > high, kernel.constant(value.type, high), raised)


def _hard_sigmoid(kernel: Kernel, value: Value, alpha: float, beta: float) -> Value:
    return clamp(kernel, value * alpha + beta, 0.0, 1.0)


def _shrink(kernel: Kernel, value: Value, alpha: float, beta: float) -> Value:
    lowered = kernel.select(value > alpha, value - beta, kernel.constant(value.type, 0.0))  # NaN: 0
    return kernel.select(value < -alpha, value + beta, lowered)


def _apply_shrink(x: Array, alpha: float, beta: float) -> Array:
    return np.where(x < -alpha, x + beta, np.where(x > alpha, x - beta, 0))


def _apply_clip(x: Array, low: float, high: float) -> Array:
    raised = np.where(x < low, low, x)
    return np.where(raised > high, high, raised)


def _mish(kernel: Kernel, value: Value, alpha: float, beta: float) -> Value:
    # tanh(log(1 + e^x)) = ((1 + e^x)² - 1) / ((1 + e^x)² + 1), with e^-|x| so that nothing overflows.
    small = math.exp(kernel, -kernel.absolute(value))
    negative, twice = value < 0.0, small + small
    top = kernel.select(negative, kernel.fma(small, small, twice), twice + 1.0)
    rest = kernel.select(negative, kernel.constant(value.type, 2.0), twice * small)
    return value * (top / (top + rest))


def _gelu_tanh(kernel: Kernel, value: Value, alpha: float, beta: float) -> Value:
    cube = value * value * value
    inner = kernel.fma(cube, kernel.constant(value.type, 0.044715), value) * (2.0 * ROOT_TWO_OVER_PI)
    return value * math.sigmoid(kernel, inner)  # (1 + tanh(u)) / 2 = sigmoid(2u)


# ---- NumPy twins of the longer kinds -----------------------------------------------------------------------


def _apply_sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))  # never overflows
    return np.where(x < 0, small, 1.0) / (1.0 + small)


def _apply_softplus(x: Array) -> Array:
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


_erf = np.vectorize(erf_of_one, otypes=[np.float64])


def erf(x: Array) -> Array:
    """Gauss error function in NumPy."""
    return np.asarray(_erf(x)) if x.size else x


def _activation(
    emit: Emit, apply: Apply, types: str = "fd", weight: int = 2, tolerance: float = 1e-6, **flags: bool
) -> ElementwiseFormula:
    """Return the formula of an activation: both functions take a value, alpha and beta."""
    return ElementwiseFormula(emit, apply, types, weight, tolerance, **flags)


KINDS: dict[str, ElementwiseFormula] = {
    "identity": _activation(
        lambda k, v, a, b: v, lambda x, a, b: x, "fdi?", 2, 0.0, exact=True, is_short=True
    ),
    "relu": _activation(
        lambda k, v, a, b: k.select(v < 0.0, k.constant(v.type, 0.0), v),
        lambda x, a, b: np.where(x < 0, 0, x),
        "fdi",
        1,
        0.0,
        exact=True,
        is_short=True,
    ),
    # Slope alpha below 0.
    "leaky_relu": _activation(
        lambda k, v, a, b: k.select(v < 0.0, v * a, v),
        lambda x, a, b: np.where(x < 0, a * x, x),
        tolerance=2e-7,
        is_short=True,
    ),
    # NaN gives 0.
    "thresholded_relu": _activation(
        lambda k, v, a, b: k.select(v > a, v, k.constant(v.type, 0.0)),
        lambda x, a, b: np.where(x > a, x, 0),
        tolerance=0.0,
        is_short=True,
    ),
    # alpha..beta
    "clip": _activation(clamp, _apply_clip, "fdi", 2, 0.0, is_short=True),
    # x + beta below -alpha, x - beta above alpha, else 0
    "shrink": _activation(_shrink, _apply_shrink, "fdi", weight=4),
    "hard_sigmoid": _activation(
        _hard_sigmoid, lambda x, a, b: _apply_clip(a * x + b, 0.0, 1.0), is_short=True
    ),
    "hard_swish": _activation(
        lambda k, v, a, b: v * _hard_sigmoid(k, v, 1.0 / 6.0, 0.5),
        lambda x, a, b: x * _apply_clip(x / 6.0 + 0.5, 0.0, 1.0),
        weight=4,
        is_short=True,
    ),
    "softsign": _activation(
        lambda k, v, a, b: v / (k.absolute(v) + 1.0), lambda x, a, b: x / (1.0 + np.abs(x)), weight=6
    ),
    "sigmoid": _activation(
        lambda k, v, a, b: math.sigmoid(k, v), lambda x, a, b: _apply_sigmoid(x), weight=20
    ),
    "silu": _activation(
        lambda k, v, a, b: math.swish(k, v), lambda x, a, b: x * _apply_sigmoid(x), weight=14
    ),
    "swish": _activation(
        lambda k, v, a, b: math.swish(k, v, a), lambda x, a, b: x * _apply_sigmoid(a * x), weight=14
    ),
    "tanh": _activation(lambda k, v, a, b: math.tanh(k, v), lambda x, a, b: np.tanh(x), weight=20),
    "elu": _activation(
        lambda k, v, a, b: k.select(v < 0.0, math.expm1(k, v) * a, v),
        lambda x, a, b: np.where(x < 0, a * np.expm1(x), x),
        weight=20,
    ),
    "selu": _activation(
        lambda k, v, a, b: k.select(v < 0.0, math.expm1(k, v) * a, v) * b,
        lambda x, a, b: b * np.where(x < 0, a * np.expm1(x), x),
        weight=20,
    ),
    "celu": _activation(
        lambda k, v, a, b: k.select(v < 0.0, math.expm1(k, v / a) * a, v),
        lambda x, a, b: np.where(x < 0, a * np.expm1(x / a), x),
        weight=20,
    ),
    "softplus": _activation(
        lambda k, v, a, b: math.softplus(k, v), lambda x, a, b: _apply_softplus(x), weight=40
    ),
    "mish": _activation(_mish, lambda x, a, b: x * np.tanh(_apply_softplus(x)), weight=60),
    "gelu": _activation(
        lambda k, v, a, b: math.gelu(k, v),
        lambda x, a, b: 0.5 * x * (1.0 + erf(x * ROOT_HALF)),
        "f",
        weight=25,
    ),
    "gelu_tanh": _activation(
        _gelu_tanh,
        lambda x, a, b: 0.5 * x * (1.0 + np.tanh(ROOT_TWO_OVER_PI * (x + 0.044715 * x * x * x))),
        weight=25,
    ),
}
