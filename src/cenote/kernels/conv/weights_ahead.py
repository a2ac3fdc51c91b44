"""Prefetches of the weights that a direct convolution reads next, where these come from the last cache or memory.

A chunk of weights stays in the first cache while all tiles of a band pass over it; but the first tile waits for each
line, longer than a core looks ahead. So the first `AHEAD` tiles prefetch the next chunk, which lies behind this one,
each a part, line by line in the innermost loop, into the second cache. Medians of processes in turns before and
after, Xeon with AVX-512 whose L3 is read at 16 GB/s, one and two threads, ms: ResNet-18 16.6 to 14.8, 8.6 to 7.7;
ResNet-50 47.8 to 43.9, 26.0 to 23.7; ResNet-50 in 8 bits 16.0 to 14.7, 8.5 to 8.0 (passes of `direct_calls` at 0.67
of the first cache, of which 1.5 %). With 2, 8 and 16 tiles the gain of ResNet-50 and ResNet-18 was a third, equal,
and a half of that with 4, into the first cache a half; MobileNet-v2, DenseNet-121 and VGG-16 stay within 2 %, the
scatter of processes of equal code. With AVX2 on that machine float32 does not change.

Where a vector of 64 bytes takes as long as two of half its size (Zen 4), the core waits less and prefetches cost up to
13 % (`docs/performance.md`): there no tile prefetches.
"""

from __future__ import annotations

from cenote.codegen.builder import Kernel
from cenote.codegen.values import Pointer, Value
from cenote.core.target import Target

AHEAD = 4
_ADDRESSES = 6
WORD = "ahead"


def prefetches(target: Target) -> int:
    """Return the word of a call: whether tiles prefetch, where kernels have prefetches."""
    return int(target.is_wide)


class WeightsAhead:
    """Emitter of the prefetches of one tile, whose number in its band is `tile`; the next chunk's weights begin
    `distance` elements behind `weights`. Kernels of short vectors have none, nor those whose innermost loop has more
    than `_ADDRESSES` addresses of pixels: general registers would not do, and LLVM would keep vectors on the stack."""

    def __init__(self, k: Kernel, weights: Pointer, distance: Value, tile: Value, addresses: int) -> None:
        self.k, self.line = k, k.target.line // weights.element.nbytes
        self.exists = k.target.vector_bytes == k.target.line and addresses <= _ADDRESSES
        if self.exists:
            # One comparison with a number of tiles takes 1.1 to 1.7 times as long, for code that looks the same.
            self.asks = (tile < AHEAD) & k.number(WORD).differs(0)
            # A tile that asks for nothing prefetches a line that it has.
            begin = k.select(self.asks, distance + tile * (distance // AHEAD), k.integer(0))
            self.asked = k.cursor(weights.offset_unchecked(begin))

    def ask(self, elements: int) -> None:
        """Prefetch this tile's part of the weights that lie a chunk behind these, a number of whole lines."""
        if not self.exists:
            return
        k = self.k
        for place in range(0, elements, AHEAD * self.line):
            k.prefetch(self.asked.at, place // AHEAD, level=2)
        self.asked.move(k.select(self.asks, k.integer(elements // AHEAD), k.integer(0)))
