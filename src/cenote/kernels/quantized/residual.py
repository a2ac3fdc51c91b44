"""Residuals of convolutions of bytes: a result is rounded to its own bytes, then added to another tensor's, and the sum
quantised.

    own = bounded(round((sum + bias) * scale))
    sum = own * own_scale + (residual - residual zero point) * residual_scale
    y   = saturate(round(sum / sum_scale) + zero point)

Each step rounds to float32 as dequantisation, addition and quantisation do one after another, so the bits are theirs.
"""

from __future__ import annotations

from typing import NamedTuple

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, Value
from cenote.kernels.base import Argument

_OWN = ("own_low", "own_high", "own_scale", "residual_zero", "residual_scale", "sum_scale")
RESIDUAL_WORDS = tuple(Parameter(name, F32) for name in _OWN)
# Numbers around it are one apart in float32, and the lowest 22 bits of its own are zeros.
ROUNDING = 1.5 * 2.0**23


class Residual(NamedTuple):
    """Numbers by which a convolution's bytes and a residual's are added: the bounds of its own from their zero point,
    their scale, the residual's zero point and scale, the scale of the sum."""

    own_low: int
    own_high: int
    own_scale: float
    residual_zero: int
    residual_scale: float
    sum_scale: float

    @property
    def words(self) -> dict[str, Argument]:
        """The words of a kernel."""
        return {name: float(value) for name, value in self._asdict().items()}


def with_residual(k: Kernel, scaled: Value, residual: Value) -> Value:
    """Return the sum at its scale, from a convolution's numbers at their own scale and a residual's bytes."""
    low, high, own_scale, zero, residual_scale, sum_scale = (
        k.splat(k.number(name), scaled.lanes) for name in _OWN
    )
    own = (k.min_drop_nan(k.max_drop_nan(scaled, low), high) + ROUNDING) - ROUNDING
    return (own * own_scale + (residual.to(F32) - zero) * residual_scale) / sum_scale
