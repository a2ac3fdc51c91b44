"""CumSum and CumProd: sums and products of all elements up to each place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import ClassVar

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ShapeError
from cenote.core.target import Target
from cenote.core.types import PLAIN, Array, TensorType, is_float
from cenote.kernels.base import present
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.elementwise.running import running_call
from cenote.ops.base import Arrays, Lowering, Op, Sample, Types
from cenote.ops.checks import normalize_axis, require_index, require_kind
from cenote.ops.elementwise.pointwise import error_of
from cenote.ops.family import operator
from cenote.ops.values import narrow, seeded, wide


@dataclass(frozen=True)
class _Cumulative(Op):
    exclusive: bool = False
    reverse: bool = False

    operands = ("x", "axis")
    start: ClassVar[int] = 0
    accumulated: ClassVar[Callable[..., Array]]  # the running result including each element

    def types(self, x: TensorType, axis: TensorType) -> Types:
        require_kind(self.name, x, "iuf", "x")
        if require_index(self.name, axis, "axis").size != 1:
            raise ShapeError(f"{self.name}: 'axis' must hold one integer, got {axis}")
        if axis.value is not None:
            normalize_axis(self.name, int(axis.value.item()), x.rank)
        return (TensorType(x.dtype, x.shape),)

    def compute(self, x: Array, axis: Array) -> Arrays:
        along = normalize_axis(self.name, int(axis.item()), x.ndim)
        values = np.flip(wide(x), along) if self.reverse else wide(x)
        if self.exclusive and x.shape[along]:
            first = np.full_like(values.take([0], along), self.start)
            values = np.concatenate((first, values.take(range(x.shape[along] - 1), along)), along)
        total = self.accumulated(values, along, dtype=values.dtype)
        return (narrow(np.flip(total, along) if self.reverse else total, x.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x, axis = map(present, inputs)
        if axis.value is None or not x.rank or not x.size:
            return
        along = normalize_axis(self.name, int(axis.value.item()), x.rank)

        seconds = pass_seconds(2 * x.nbytes) + x.size * 0.3e-9
        error = error_of(1e-6, x.dtype) if is_float(x.dtype) else 0.0
        call = partial(
            running_call,
            axis=along,
            product=self.start == 1,
            exclusive=self.exclusive,
            reverse=self.reverse,
            target=target,
        )
        yield Lowering.of_call("running", (PLAIN, None), (PLAIN,), call, seconds, error)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in (np.float32, np.float64, np.float16, "bfloat16", np.int8, np.uint16, np.int64):
            for axis in (0, 1, 2):
                x = seeded((3, 7, 19), dtype=np.dtype(dtype))
                yield Sample(cls(axis == 1, axis == 0), (x, np.array(axis, np.int64)))
        for exclusive in (False, True):
            for reverse in (False, True):
                op = cls(exclusive, reverse)
                yield Sample(op, (seeded((3, 4)), np.array(1, np.int64)))
                yield Sample(op, (seeded((2, 3, 2), dtype=np.int32), np.array(-2, np.int32)))
                yield Sample(op, (seeded((0, 3)), np.array(0, np.int64)))
        yield Sample(cls(), (np.full((9,), 100, np.uint64), np.array([0], np.int64)), "wraps around")
        yield Sample(cls(), (seeded((5,), dtype=np.float16), np.array(0, np.int64)), "half")


_ATTRIBUTES = {"exclusive": "exclusive", "reverse": "reverse"}
CumSum = operator(
    _Cumulative, "CumSum",
    "Sum of the elements up to each place along an axis; `exclusive` leaves the place itself out, `reverse` starts at "
    "the end.", attributes=_ATTRIBUTES, accumulated=staticmethod(np.cumsum),
)  # fmt: skip
CumProd = operator(
    _Cumulative, "CumProd", "Product of the elements up to each place along an axis; `exclusive` and `reverse` as in "
    "CumSum.", attributes=_ATTRIBUTES, accumulated=staticmethod(np.cumprod), start=1,
)  # fmt: skip
