"""Calls of a transposed Winograd convolution: those of its phases, each a plain one whose results lie apart in y."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import dataclass
from cenote.core.types import Array
from cenote.kernels.base import Call, View
from cenote.kernels.conv.transposed import transposed_parts
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.winograd.calls import WinogradTiling
from cenote.kernels.winograd.kernel import APART, WinogradSpec


@dataclass(frozen=True)
class WinogradSpreadTiling(WinogradTiling):
    """Tiling of a phase, whose results are `apart` columns apart in y."""

    apart: int = 1

    def _spec(self, phase: str, activation: Activation, residual: bool) -> WinogradSpec:
        return replace(super()._spec(phase, activation, residual), spread=True)

    def numbers(self, phase: str) -> dict[str, int]:
        return super().numbers(phase) | {APART: self.apart}


def spread_calls(
    shape: ConvShape,
    tilings: Sequence[WinogradSpreadTiling],
    weights: Array,
    bias: Array | None,
    activation: Activation,
    x: View,
    y: View,
    between: View | None,
) -> Iterator[Call]:
    """Yield the calls of all phases for weights (C, M, *window) over three axes."""
    parts = transposed_parts(shape, weights.swapaxes(0, 1), y)
    for index, (tiling, (_, part, view)) in enumerate(zip(tilings, parts, strict=True)):
        made = tiling.calls(tiling.pack(part[:, :, 0]), bias, activation, x, view, None, between)
        # Two calls have V between them.
        yield from (replace(call, independent=index > 0 and len(made) == 1) for call in made)
