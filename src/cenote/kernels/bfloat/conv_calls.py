"""Calls of a convolution of bfloat16: those of the direct kernel, with weights in pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from cenote.codegen.bfloat import PAIR, rounded
from cenote.core.target import Target
from cenote.core.types import BFLOAT16, Array
from cenote.kernels.base import Argument, Call, Packed, View
from cenote.kernels.bfloat.conv import LAST_PAIR, ConvBfloatSpec
from cenote.kernels.conv.direct import ConvDirectSpec
from cenote.kernels.conv.direct_calls import DirectProblem, FilterGroups, block_runs

_BOTH, _FIRST = -1, 0xFFFF  # masks of a pair


def bfloat_calls(
    problem: DirectProblem,
    way: str,
    x: View,
    y: View,
    residual: View | None,
    target: Target,
    columns: int = 0,
) -> Iterator[Call]:
    """Yield the calls of one convolution, each of which writes blocks of its own. x lies in blocks of bfloat16, y and
    the residual in blocks of either type; the weights are rounded where they are float32. `way`: that of
    `codegen.bfloat`. `columns`: of y where it is a plain matrix, with nothing behind a row's last filter."""
    shape, weights = problem.shape, problem.weights
    if not shape.n:
        return
    if weights.shape[1] % PAIR:
        weights = np.pad(weights, ((0, 0), (0, 1), *((0, 0),) * (weights.ndim - 2)))
    even = replace(problem, weights=weights)
    blocks = -(-shape.group_filters // y.layout.lanes)
    for first, groups, each in block_runs(blocks, shape.pixels * shape.n, target.registers):
        call = _BfloatGroups(even, way, x, y, residual, target, first, groups, each, columns).call()
        yield replace(call, independent=first > 0)


class _BfloatGroups(FilterGroups):
    weight_bytes = 2

    def __init__(
        self,
        problem: DirectProblem,
        way: str,
        x: View,
        y: View,
        residual: View | None,
        target: Target,
        first: int,
        groups: int,
        each: int,
        columns: int,
    ) -> None:
        super().__init__(problem, x, y, residual, target, first, groups, each)
        self.way, self.columns = way, columns

    @property
    def terms(self) -> int:
        # Chains eight times as long as float32's: their error is still a thousandth of the operands'.
        return max(1, self.inner // 8)

    def _spec(self, width: int, ragged: bool) -> ConvDirectSpec:
        tensors = {"x": self.x, "residual": self.residual, "y": self.y}
        kept = [name for name, view in tensors.items() if view and view.type.dtype == BFLOAT16]
        plain = replace(super()._spec(width, ragged), clip=self.columns % self.lanes > 0)
        return ConvBfloatSpec(**vars(plain), kept=("weights", *kept), way=self.way)

    def _words(self, words: dict[str, Argument]) -> dict[str, Argument]:
        rest = self.shape.group_channels % self.unit
        return words | {
            "rest_channels": rest + rest % PAIR,
            "columns": max(0, self.columns - self.first * self.lanes),
            LAST_PAIR: _FIRST if rest % PAIR else _BOTH,
        }

    def _pack(self) -> Packed:
        packed = super()._pack()
        return Packed(packed.shape, self._packed, BFLOAT16)

    def _packed(self) -> Array:
        """Weights in the order of float32's kernel, but with each pair of channels side by side."""
        numbers = super()._packed()
        pairs = numbers.reshape(len(numbers), -1, PAIR, self.each * self.lanes).swapaxes(2, 3)
        return np.ascontiguousarray(rounded(pairs)).reshape(numbers.shape)
