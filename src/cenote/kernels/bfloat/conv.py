"""Convolutions on bfloat16: the nest of `direct.py` with two channels at a time, and kernels of float32 on such memory.

x is bfloat16 in blocks, and so are the weights, two channels of a filter side by side; sums are float32. A last channel
without a partner has a zero for a weight beside it, and a zero takes the place of what lies beside it in x, which may
be NaN.
"""

from __future__ import annotations

from collections.abc import Sequence

from cenote.codegen.bfloat import PAIR, Bfloat
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import I32, I64, Pointer, Value
from cenote.codegen.variables import Cursor, Variable
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.kernels.base import numbers_named
from cenote.kernels.bfloat.memory import BfloatMemorySpec, Classes
from cenote.kernels.conv.depthwise import DepthwiseSpec
from cenote.kernels.conv.direct import ConvDirectSpec, DirectEmitter
from cenote.kernels.partial_sums import PartialSum
from cenote.kernels.winograd.kernel import WinogradSpec
from cenote.kernels.winograd.rows import WinogradRowsSpec
from cenote.kernels.winograd.volume import WinogradVolumeSpec

LAST_PAIR = "last_pair"  # mask of a ragged tap's last pair: of one channel, or of both


@dataclass(frozen=True)
class WinogradBfloatSpec(BfloatMemorySpec, WinogradSpec):
    """Winograd's algorithm in float32 on tensors of bfloat16."""


@dataclass(frozen=True)
class WinogradVolumeBfloatSpec(BfloatMemorySpec, WinogradVolumeSpec):
    """The same of volumes."""


@dataclass(frozen=True)
class WinogradRowsBfloatSpec(BfloatMemorySpec, WinogradRowsSpec):
    """The same of rows."""


@dataclass(frozen=True)
class DepthwiseBfloatSpec(BfloatMemorySpec, DepthwiseSpec):
    """Depthwise convolution in float32 on tensors of bfloat16."""


CLASSES: Classes = {
    WinogradSpec: WinogradBfloatSpec,
    WinogradVolumeSpec: WinogradVolumeBfloatSpec,
    WinogradRowsSpec: WinogradRowsBfloatSpec,
    DepthwiseSpec: DepthwiseBfloatSpec,
}


@dataclass(frozen=True)
class ConvBfloatSpec(BfloatMemorySpec, ConvDirectSpec):
    """Kernel of products of bfloat16; x and the weights are among `kept`."""

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (*super().words, *numbers_named((LAST_PAIR,)))

    def emit(self, target: Target) -> Kernel:
        kernel = self.kernel(target)
        kernel.moves_addresses = True
        _Emitter(self, kernel, target.lanes()).run()
        return kernel


class _Emitter(DirectEmitter):
    def __init__(self, spec: ConvBfloatSpec, k: Kernel, lanes: int) -> None:
        super().__init__(spec, k, lanes)
        self.bfloat = Bfloat(k, spec.way, lanes)

    def multiply_block(
        self,
        accumulators: Sequence[Sequence[Variable]],
        origins: Sequence[Pointer],
        offset: Value,
        weights: Pointer,
    ) -> None:
        for channel in range(0, self.spec.unroll, PAIR):
            places = [origin + offset + channel for origin in origins]
            self.multiply_pair(accumulators, places, weights + channel * self.row)

    def ragged_taps(
        self,
        accumulators: Sequence[Sequence[Variable]],
        origins: Sequence[Pointer],
        weights: Cursor,
        part: PartialSum,
    ) -> None:
        k, channels = self.k, self.k.number("rest_channels")
        for entry in k.range(k.max_drop_nan(part.begin, k.number("entries")), part.end):
            offset = k.pointer("table").load(entry).to(I64)
            for channel in k.range(0, channels, PAIR):
                is_last = (channel + PAIR).equals(channels)
                mask = k.select(is_last, k.number(LAST_PAIR), k.integer(-1)).to(I32)
                places = [origin + offset + channel for origin in origins]
                self.multiply_pair(accumulators, places, weights.at, mask)
                weights.move(PAIR * self.row)

    def multiply_pair(
        self,
        accumulators: Sequence[Sequence[Variable]],
        places: Sequence[Pointer],
        weights: Pointer,
        mask: Value | None = None,
    ) -> None:
        """Add the products of two channels of one tap; `mask`: of the bits of x that count."""
        step = PAIR * self.lanes
        vectors = [self.bfloat.weights(weights + o * step) for o in range(self.spec.blocks)]
        for place, row in zip(places, accumulators, strict=True):
            spread = self.bfloat.spread(place)
            if mask is not None:
                spread = spread & self.k.splat(mask, self.lanes)
            for vector, accumulator in zip(vectors, row, strict=True):
                accumulator.value = self.bfloat.added(accumulator.value, spread, vector)
