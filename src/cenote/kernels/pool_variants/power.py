"""Powers of all elements of a tensor, on the way to and from the sums of norms and generalised means.

    for item in begin .. end:                         a run of elements
        y = base(x)^exponent                          in float64; small multiples of 1/2 by multiplication

`base` is "absolute" (|x|), "above" (the larger of x and `floor`) or "plain" (x itself). With `times` the result is g
* base(x)^exponent: a window's gradient times the slope; it is 0 where x or the power is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cenote.codegen import math
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F64, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View
from cenote.kernels.plane_items import vectors

RUN = 1 << 12  # elements of an item
MOST_WHOLE = 16  # exponents up to here, halves too, are products


TENSORS = ("y", "x", "g")


@dataclass(frozen=True)
class PowerSpec(KernelSpec):
    """Kernel of powers. `dtypes` of y, x and g; `twice` is twice the exponent if that is small and whole, else 0."""

    dtypes: tuple[np.dtype[Any], ...]
    base: str
    twice: int
    times: bool

    @property
    def words(self) -> tuple[Parameter, ...]:
        types = zip(TENSORS, self.dtypes, strict=True)
        pointers = [Parameter(name, Scalar.of(dtype), pointer=True) for name, dtype in types]
        return (*pointers, Parameter("size"), Parameter("exponent", F64), Parameter("floor", F64))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        widest = target.vector_bytes // 8
        for item in k.range(k.begin, k.end):
            start = item * RUN
            count = k.minimum(k.number("size") - start, k.integer(RUN))
            y, x, g = (k.pointer(name) + start for name in TENSORS)
            for begin, end, lanes in vectors(k, count, widest):
                for at in k.range(begin, end, lanes):
                    value = x.load(at, lanes).to(F64)
                    power = self._power(k, value)
                    if self.times:
                        zero = k.constant(F64, 0.0, lanes)
                        power = k.select(value.equals(0.0), zero, power)
                        power = k.select(power.equals(0.0), zero, g.load(at, lanes).to(F64) * power)
                    y.store(power.to(y.element), at)
        return k

    def _power(self, k: Kernel, x: Value) -> Value:
        if self.base == "absolute":
            x = k.absolute(x)
        elif self.base == "above":
            x = k.maximum(x, k.splat(k.number("floor"), x.lanes))
        if self.twice:
            return product(k, x, self.twice)
        exponent = k.splat(k.number("exponent"), x.lanes)
        result = real_power(k, x, exponent)
        infinity = k.constant(F64, float("inf"), x.lanes)
        endless = x.equals(float("-inf")) & (exponent > 0.0)
        return k.select(endless, infinity, result) if self.base == "plain" else result


def doubled(exponent: float) -> int:
    """Return twice the exponent if `product` may be used for it, else 0."""
    return int(2 * exponent) if 0 < exponent <= MOST_WHOLE and 2 * exponent == int(2 * exponent) else 0


def product(k: Kernel, x: Value, twice: int) -> Value:
    """Compute x^(twice / 2), by squaring; the half is a square root."""
    if twice == 1:
        return k.square_root(x)
    if twice == 2:
        return x
    if twice % 2:
        return product(k, x, twice - 1) * k.square_root(x)
    half = product(k, x, twice // 4 * 2)
    square = half * half
    return square * x if twice // 2 % 2 else square


def real_power(k: Kernel, x: Value, exponent: Value) -> Value:
    """Compute x^exponent for float64 x >= 0 (NaN below) and finite exponents."""
    logarithm = math.log(k, x)
    zero = k.constant(F64, 0.0, x.lanes)
    scaled = k.select(logarithm.equals(0.0) | exponent.equals(0.0), zero, exponent * logarithm)
    return math.exp(k, scaled)


def power_call(
    x: View, y: View, exponent: float, *, base: str = "plain", floor: float = 0.0, times: View | None = None
) -> Call:
    """Return the launch for plain views of equal size."""
    g = y if times is None else times
    spec = PowerSpec((y.type.dtype, x.type.dtype, g.type.dtype), base, doubled(exponent), times is not None)
    items = -(-x.type.size // RUN)
    words: dict[str, Argument] = {
        "y": y,
        "x": x,
        "g": times,
        "size": x.type.size,
        "exponent": float(exponent),
        "floor": float(floor),
    }
    return Call.named(spec, words, items, grain=4)
