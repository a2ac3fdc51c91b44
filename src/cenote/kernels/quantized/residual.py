"""Residuals of convolutions of bytes: a result is rounded to its own bytes, then added to another tensor's, and the sum
quantised.

    own = bounded(round((sum + bias) * scale))
    sum = own * own_scale + (residual - residual zero point) * residual_scale
    y   = saturate(round(sum / sum_scale) + zero point)

Each step rounds to float32 as dequantisation, addition and quantisation do one after another, so the bits are theirs.
The last two lines are `own * A + (residual * B + C)`, rounded, where numbers A, B, C are known with which all pairs of
bytes have these bits (`ops/quantization/byte_sum.py`): two multiply-adds in place of six instructions, of which a
division. 16 layers of ResNet-50 on one thread of a Xeon with AVX-512: 4.1 to 3.5 ms, of 14.6.
"""

from __future__ import annotations

from typing import NamedTuple

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, Value
from cenote.kernels.base import Argument

_OWN = ("own_low", "own_high")
_STEPS = ("own_scale", "residual_zero", "residual_scale", "sum_scale")
_FACTORS = ("own_factor", "residual_factor", "constant")
# Numbers around it are one apart in float32, and the lowest 22 bits of its own are zeros.
ROUNDING = 1.5 * 2.0**23


class Residual(NamedTuple):
    """Numbers by which a convolution's bytes and a residual's are added: the bounds of its own from their zero point,
    their scale, the residual's zero point and scale, the scale of the sum; A, B and C, where they are known."""

    own_low: int
    own_high: int
    own_scale: float
    residual_zero: int
    residual_scale: float
    sum_scale: float
    factors: tuple[float, float, float] | None = None

    @property
    def words(self) -> dict[str, Argument]:
        """The words of a kernel."""
        if self.factors is None:
            return {name: float(getattr(self, name)) for name in (*_OWN, *_STEPS)}
        own = {name: float(getattr(self, name)) for name in _OWN}
        return {**own, **dict(zip(_FACTORS, self.factors, strict=True))}


def residual_words(is_short: bool) -> tuple[Parameter, ...]:
    """Return the parameters of a kernel."""
    return tuple(Parameter(name, F32) for name in (*_OWN, *(_FACTORS if is_short else _STEPS)))


def with_residual(k: Kernel, is_short: bool, scaled: Value, residual: Value) -> Value:
    """Return the sum at its scale, from a convolution's numbers at their own scale and a residual's bytes."""
    low, high, *numbers = (k.splat(k.number(each.name), scaled.lanes) for each in residual_words(is_short))
    own = (k.min_drop_nan(k.max_drop_nan(scaled, low), high) + ROUNDING) - ROUNDING
    if is_short:
        own_factor, residual_factor, constant = numbers
        return k.fma(own, own_factor, k.fma(residual.to(F32), residual_factor, constant))
    own_scale, zero, residual_scale, sum_scale = numbers
    return (own * own_scale + (residual.to(F32) - zero) * residual_scale) / sum_scale
