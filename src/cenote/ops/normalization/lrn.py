"""Local response normalisation across neighbouring channels (AlexNet's, GoogLeNet's)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.target import Target
from cenote.core.types import FLOAT64, PLAIN, Array, Layout, TensorType
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.elementwise.lrn import ROOTS, Normalized, lrn_call
from cenote.ops.base import Arrays, Box, Lowering, Op, Sample, Types
from cenote.ops.checks import read, require, require_float
from cenote.ops.elementwise.pointwise import error_of
from cenote.ops.values import narrow, seeded, wide


@dataclass(frozen=True)
class LRN(Op):
    """x / (bias + alpha / size * s)^beta, s the sum of x² over `size` channels around each.

    The window runs from c - (size - 1) // 2 to c + size // 2, cut at the ends; alpha is divided by `size`
    there too. Caffe and PyTorch agree for odd sizes; for even ones PyTorch's window leans the other way (`backward`).
    """

    name = "lrn"
    from_onnx = {"LRN": lambda node: read(LRN, node, "size", "alpha", "beta", "bias")}
    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    bias: float = 1.0
    backward: bool = False

    operands = ("x",)

    def types(self, x: TensorType) -> Types:
        require_float(self.name, x.dtype)
        if x.rank < 2:
            raise ShapeError(f"{self.name}: the input needs axes (N, C, ...), got {x}")
        if self.size < 1:
            raise ArgumentError(f"{self.name}: size {self.size} is not 1 or more")
        return (TensorType(x.dtype, x.shape),)

    @property
    def reach(self) -> tuple[int, int]:
        """Channels of the window before and after its own."""
        less, more = (self.size - 1) // 2, self.size // 2
        return (more, less) if self.backward else (less, more)

    def compute(self, x: Array) -> Arrays:
        before, after = self.reach
        data = wide(x)
        square, total = np.square(data), np.zeros_like(data)
        for channel in range(x.shape[1]):
            first, last = max(channel - before, 0), channel + after
            total[:, channel] = square[:, first : last + 1].sum(axis=1)
        return (narrow(data / (self.bias + self.alpha / self.size * total) ** self.beta, x.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x = require(self.name, inputs[0], "X")
        if not x.size or (x.dtype == FLOAT64 and self.beta not in ROOTS):
            return
        before, after = self.reach
        formula = Normalized(before, after, self.alpha / self.size, self.beta, self.bias)

        call = partial(lrn_call, formula)
        error = error_of(2e-6, x.dtype)
        seconds = pass_seconds(2 * x.nbytes, 4 * self.size * x.size)
        yield Lowering.of_call("windows", (PLAIN,), (PLAIN,), call, seconds, error)
        blocked = Layout(target.lanes(x.dtype))
        if 3 <= x.rank <= 5 and max(before, after) <= blocked.lanes:
            seconds = pass_seconds(2 * x.nbytes, (2 * self.size + 20) * x.size)
            yield Lowering.of_call("windows_blocked", (blocked,), (blocked,), call, seconds, error)

    def operations(self, outputs: Types, x: TensorType) -> int:
        return (2 * self.size + 30) * x.size

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        x = require(self.name, inputs[0], "X")
        begin, end = box.ranges[1]
        before, after = self.reach
        around = (max(begin - before, 0), min(end + after, x.shape[1]))
        return (Box((box.ranges[0], around, *box.ranges[2:])),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for size in (1, 2, 3, 5, 11):
            yield Sample(cls(size), (seeded((2, 11, 5, 7)) * np.float32(20),))
        yield Sample(cls(4, backward=True), (seeded((2, 11, 5, 7)) * np.float32(20),))
        yield Sample(cls(4), (seeded((2, 11, 37), 1, np.float16),))
        yield Sample(cls(5, 1.0, 0.5, 2.0), (seeded((1, 19, 3, 3)),))
        yield Sample(cls(3, 0.5, 1.3, 1.0), (seeded((2, 8, 9)),))
        yield Sample(cls(5), (seeded((1, 1, 1, 1)),))
        yield Sample(cls(3), (seeded((0, 3, 2)),))
        yield Sample(cls(3), (seeded((2, 9, 4), 1, np.float64),))
