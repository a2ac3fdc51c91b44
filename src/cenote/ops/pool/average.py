"""Mean of each window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np

from cenote.core import limits
from cenote.core.computed import computed
from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError
from cenote.core.options import ACCUMULATIONS
from cenote.core.pool_geometry import repeated
from cenote.core.target import Target
from cenote.core.types import BFLOAT16, Array, TensorType, is_float
from cenote.kernels.pool.common import SUM
from cenote.ops.base import Decoder, Imported, Lowering, Op, Sample, Types
from cenote.ops.checks import check_accumulate
from cenote.ops.pool.algorithms import Pool, window_lowerings
from cenote.ops.pool.onnx_attributes import WINDOW_NAMES, window_attributes
from cenote.ops.pool.window import (
    NUMBERS,
    DType,
    WindowPool,
)
from cenote.ops.traits import SumOp
from cenote.ops.values import added, seeded

ROUNDINGS = ("zero", "even", "away")


def decode_average_pool(node: Imported) -> Op:
    """AveragePool of ai.onnx 1 (excludes padding), 7 (+ count_include_pad), 10 (+ ceil_mode), 11, 19 (+
    dilations), 22.

    The text of versions 10 to 18 leaves the divisor of windows that overhang open; all are read as version
    22 says: what ceil_mode adds beyond the padding is not counted.
    """
    known: tuple[str, ...] = WINDOW_NAMES
    if node.opset >= 7:
        known += ("count_include_pad",)
    if node.opset >= 10:
        known += ("ceil_mode",)
    if node.opset >= 19:
        known += ("dilations",)
    node.expect(*known)
    include = node.flag("count_include_pad")
    return AveragePool(**window_attributes("average_pool", node), count_include_pad=include)


@dataclass(frozen=True)
class AveragePool(SumOp, WindowPool):
    """Mean of each window of x (N, C, *spatial).

    The divisor is the number of taps on real elements; with `count_include_pad` also of those on the
    declared padding (never of those that ceil_mode adds beyond it); `divisor_override`, when not 0,
    replaces both (it may be negative, as in PyTorch).

    Floats are summed in at least float32 and rounded once. Integers (int8, uint8, int16, int32, int64) are
    summed in 64 bits, which only int64 can overflow (it wraps, as in PyTorch), divided exactly and rounded
    by `rounding`: "zero" truncates (PyTorch), "even" goes to the nearest and from a tie to the even one
    (ONNX's QLinearAveragePool, oneDNN), "away" goes from a tie away from zero (TensorFlow Lite). A result
    outside the type's range, which only divisor_override can cause, is clipped to it.

    `accumulate`, for floats: "float64" adds up in float64, so that no mean within the type's range overflows and
    float32 terms that cancel leave the others; "compensated" adds up in the type itself (16-bit floats: in float32)
    and keeps what each addition loses: sums may overflow.
    """

    count_include_pad: bool = False
    divisor_override: int = 0
    rounding: str = "even"
    accumulate: str | None = None

    name: ClassVar[str] = "average_pool"
    unmoved: ClassVar[bool] = True
    dtypes: ClassVar[frozenset[DType]] = NUMBERS
    from_onnx: ClassVar[Mapping[str, Decoder]] = {"AveragePool": decode_average_pool}

    def types(self, x: TensorType) -> Types:
        if self.rounding not in ROUNDINGS:
            raise ArgumentError(
                f"{self.name}: rounding '{self.rounding}' is not known (allowed: {', '.join(ROUNDINGS)})"
            )
        limits.within(self.name, "divisor_override", self.divisor_override)
        check_accumulate(self.name, self.accumulate, x.dtype)
        return (self.pooled(x),)

    def forwarded(self, inputs: Sequence[TensorType | None]) -> int | None:
        return super().forwarded(inputs) if self.divisor_override in (0, 1) else None

    def divisors(self, shape: tuple[int, ...]) -> list[Sequence[int]]:
        """Factor of the divisor per axis and output position (all ones but one under
        divisor_override).
        """
        axes = self.geometry(shape)
        if self.divisor_override:
            values = (self.divisor_override, *(1 for _ in axes[1:]))
            return [computed(repeated, value, axis.out) for value, axis in zip(values, axes, strict=True)]
        if self.count_include_pad:
            return [axis.padded_counts() for axis in axes]
        return [axis.counts() for axis in axes]

    def combined(self, taps: Array, divisor: int) -> Array:
        return mean(taps, divisor, self.rounding, self.accumulate)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        (x,), (y,) = self.arranged(inputs), self.infer(*inputs)
        if not self._divides_natively(x.dtype):
            return
        counts = tuple(self.divisors(x.shape))
        axes = self.geometry(x.shape)
        pool = Pool(SUM, axes, self.channels_last, counts, rounding=self.rounding, accumulate=self.accumulate)
        yield from window_lowerings(pool, x, y, target)

    def _divides_natively(self, dtype: DType) -> bool:
        """Whether the kernels' division of sums gives what `divide` does and cannot trap: the divisor fits the type of
        the sums (32 bits for 8-bit elements) and is not -1 where a sum may be the lowest number; only truncation is
        right for negative ones there. What is left over is for the reference."""
        divisor = self.divisor_override
        if is_float(dtype) or divisor == 0:
            return True
        if divisor < 0 and self.rounding != "zero":
            return False
        return not (dtype.itemsize == 1 and abs(divisor) >= 1 << 31) and not (
            divisor == -1 and dtype.itemsize == 8
        )

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from _samples(cls)


def divide(total: Array, divisor: int, rounding: str) -> Array:
    """Exact integer division of int64 sums by a divisor other than 0, rounded by "zero", "even" or "away"."""
    if divisor < 0 and (divisor == limits.LOWEST or (total == limits.LOWEST).any()):
        total = total.astype(object)  # Python's integers: the negative of the lowest number takes 65 bits
    if divisor < 0:
        total, divisor = -total, -divisor
    quotient, rest = total // divisor, total % divisor
    beyond = rest - (divisor - rest)  # sign of rest / divisor - 1/2, without overflow
    if rounding == "zero":
        up = (quotient < 0) & (rest != 0)
    elif rounding == "even":
        up = (beyond > 0) | ((beyond == 0) & (quotient & 1 == 1))
    else:
        up = (beyond > 0) | ((beyond == 0) & (total >= 0))
    rounded: Array = np.clip(quotient + up, limits.LOWEST, limits.LARGEST).astype(np.int64)
    return rounded


def mean(taps: Array, divisor: int, rounding: str, accumulate: str | None) -> Array:
    """Sums of the last axis, divided."""
    total = added(taps, (2,), accumulate)
    return total / divisor if is_float(taps.dtype) else divide(total, divisor, rounding)


def _samples(cls: type[AveragePool]) -> Iterator[Sample]:
    one, two = ((1, 1), (1, 1)), (2, 2)
    padded = partial(cls, count_include_pad=True)
    infinite = seeded((1, 3, 9, 21))
    infinite[..., ::5] = np.inf
    infinite[0, 1, ::4] = np.nan
    cases: list[tuple[str, AveragePool, Array]] = [
        ("2x2 s2", cls(two, two), seeded((1, 16, 14, 14))),
        ("3x3 s1 p1", cls((3, 3), (1, 1), one), seeded((1, 12, 9, 9))),
        ("3x3 s1 p1 include", padded((3, 3), (1, 1), one), seeded((2, 13, 8, 11))),
        ("3x3 s2 p1 ceil", cls((3, 3), two, one, ceil_mode=True), seeded((1, 9, 12, 14))),
        ("ceil include", padded((3, 3), two, one, ceil_mode=True), seeded((1, 9, 12, 14))),
        ("overhang", padded((3, 3), two, ceil_mode=True), seeded((1, 3, 4, 6))),
        ("31x17 s1", cls((31, 17), (1, 1), ((15, 15), (8, 8))), seeded((1, 2, 40, 33))),
        ("9x9 s2", cls((9, 9), two, ((4, 4), (4, 4))), seeded((1, 8, 19, 18))),
        ("divisor", cls((3, 3), two, one, divisor_override=7), seeded((1, 8, 9, 9))),
        ("divisor, include", padded((2, 3), two, divisor_override=2), seeded((1, 5, 9, 9))),
        ("stride > window", cls(two, (3, 4)), seeded((1, 8, 11, 13))),
        ("whole map", cls((7, 7)), seeded((2, 9, 7, 7))),
        ("dilated", cls((3, 2), two, ((2, 1), (1, 0)), (2, 3)), seeded((1, 7, 12, 11))),
        (
            "dilated include",
            padded((3, 2), two, ((2, 1), (1, 2)), (2, 3), ceil_mode=True),
            seeded((1, 7, 12, 11)),
        ),
        ("dilated by the stride", cls((2, 2), two, (), two), seeded((1, 5, 8, 11))),
        ("begin and end pads", padded((3, 4), (1, 2), ((0, 2), (3, 1))), seeded((1, 6, 9, 10))),
        ("same upper", cls((3, 2), two, auto_pad="SAME_UPPER"), seeded((1, 8, 9, 8))),
        ("same lower include", padded((5, 5), (1, 1), auto_pad="SAME_LOWER"), seeded((1, 8, 6, 6))),
        ("1-D", cls((3,), (2,), ((1, 1),)), seeded((2, 10, 17))),
        ("3-D", cls((3, 3, 3), (2, 2, 2), ((1, 1),) * 3), seeded((1, 9, 5, 8, 9))),
        ("3-D include", padded((2, 3, 3), (1, 2, 2), ((1, 0), (1, 1), (0, 1))), seeded((1, 3, 5, 8, 9))),
        ("channels last", cls((3, 3), two, one, channels_last=True), seeded((2, 11, 9, 13))),
        ("3-D, one apart", cls((3, 3, 3), (1, 1, 1), ((1, 1),) * 3), seeded((1, 3, 5, 8, 20))),
        ("empty batch", cls(two, two), seeded((0, 4, 6, 6))),
        ("infinities do not spread", cls((2, 2), (1, 1)), infinite),
        ("infinities, wide window", cls((1, 11), (1, 1), ((0, 0), (5, 5))), infinite),
    ]
    for dtype in (np.float64, np.float16, BFLOAT16, np.int8, np.uint8, np.int16, np.int32, np.int64):
        for rounding in ROUNDINGS if np.dtype(dtype).kind in "iu" else ("even",):
            op = cls((3, 2), two, ((1, 1), (0, 1)), rounding=rounding)
            cases.append((f"{np.dtype(dtype).name} {rounding}", op, seeded((1, 9, 13, 18), 0, dtype)))
    named = {label: (op, x) for label, op, x in cases}
    for accumulate in ACCUMULATIONS:
        for label in (
            "2x2 s2", "3x3 s2 p1 ceil", "31x17 s1", "stride > window", "dilated include", "3-D include",
            "channels last", "infinities, wide window", "float64 even", "float16 even", "same lower include",
        ):  # fmt: skip
            op, x = named[label]
            cases.append((f"{label}, {accumulate}", replace(op, accumulate=accumulate), x))
    for label, op, x in cases:
        yield Sample(op, (x,), f"{op.name} {label}")
