"""Random classes by their probabilities: for each row of logarithms of probabilities, some draws.

for row in begin .. end:                 emitted; an item is a row
    largest logarithm                    emitted
    running sums of probabilities: scratch     emitted, float64
    for draw:                            emitted
        y = number of sums that are not above u * total, found by bisection
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cenote.codegen import math
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, F64, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to

_WORK = 1 << 14  # numbers of a piece of work


@dataclass(frozen=True)
class DrawSpec(KernelSpec):
    """Logarithms of one type, classes as another."""

    dtype: np.dtype[Any]
    result: np.dtype[Any]

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (
            *pointers_to(Scalar.of(self.result), "y"),
            *pointers_to(Scalar.of(self.dtype), "x"),
            *pointers_to(F64, "u"),
            *numbers_named(["classes", "draws"]),
        )

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        classes, draws, sums = k.number("classes"), k.number("draws"), k.scratch.cast(F64)
        for row in k.range(k.begin, k.end):
            x = k.pointer("x") + row * classes
            largest = k.variable(k.constant(F64, float("-inf")))
            for place in k.range(0, classes):
                largest.value = k.maximum(largest.value, _wide(x.load(place)))
            total = k.variable(k.constant(F64, 0.0))
            for place in k.range(0, classes):
                total.value = total.value + math.exp(k, _wide(x.load(place)) - largest.value)
                sums.store(total.value, place)
            for draw in k.range(0, draws):
                at = row * draws + draw
                wanted = (k.pointer("u") + at).load() * total.value
                k.pointer("y").store(self._class(k, wanted).to(k.pointer("y").element), at)
        return k

    def _class(self, k: Kernel, wanted: Value) -> Value:
        """Find the number of sums that are not above, but at most the last class."""
        low, high = k.variable(k.integer(0)), k.variable(k.number("classes"))
        sums = k.scratch.cast(F64)
        for _ in k.range(0, 64):
            middle = (low.value + high.value) >> 1
            with k.when(low.value < high.value):
                below = sums.load(middle) <= wanted
                low.value, high.value = (
                    k.select(below, middle + 1, low.value),
                    k.select(below, high.value, middle),
                )
        return k.minimum(low.value, k.number("classes") - 1)


def _wide(value: Value) -> Value:
    return (value.to(F32) if value.type.nbytes == 2 else value).to(F64)


def draw_call(x: View, u: View, y: View) -> Call:
    """Return the launch for dense x (rows, classes), u and y (rows, draws)."""
    (rows, classes), draws = x.shape, y.shape[1]
    words: dict[str, Argument] = {"y": y, "x": x, "u": u, "classes": classes, "draws": draws}
    grain = maximum(1, _WORK // maximum(1, classes + draws))
    return Call.named(DrawSpec(x.type.dtype, y.type.dtype), words, rows, grain, scratch=8 * classes)
