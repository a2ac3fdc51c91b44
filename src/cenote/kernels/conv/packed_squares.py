"""Weights of a run that are packed by squares: vectors of as many filters as there are lanes, in any order.

    item = block of filters, chunk of their weights                    emitted
      for square of the chunk:                                         emitted
        load a vector of each filter's weights, transpose              unrolled
        store each vector, of one weight of every filter, at its place from a table

This is the way of most convolutions: a vector of packed weights has the same weight of neighbouring filters. 590,000
weights of 256 filters take 0.14 ms, picked one by one 0.65 (Zen 4, AVX-512).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, I32, I64, Pointer, Value
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.types import Array
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.lanes import transposed

_CHUNK = 1024  # weights of a filter that a thread takes at a time


@dataclass(frozen=True)
class PackSquaresSpec(KernelSpec):
    """Kernel of y[place[block, weight] + lane] = x[first[block] + lane, weight], and 0 past a block's filters. The
    table has the places, then the first filter and the number of filters of each block."""

    @property
    def words(self) -> tuple[Parameter, ...]:
        table = Parameter("table", I32, pointer=True)
        return (*pointers_to(F32, "x", "y"), table, *numbers_named(("blocks", "depth")))

    def emit(self, target: Target) -> Kernel:
        k, lanes = self.kernel(target), target.lanes()
        table, depth = k.pointer("table"), k.number("depth")
        ends = table + k.number("blocks") * depth
        chunks = (depth + _CHUNK - 1) // _CHUNK
        for item in k.range(k.begin, k.end):
            block, begin = item // chunks, item % chunks * _CHUNK
            end = k.minimum(begin + _CHUNK, depth)
            first, count = (ends.load(block * 2 + word).to(I64) for word in (0, 1))
            x, places = k.pointer("x") + first * depth, table + block * depth
            is_whole = count >= lanes
            with k.when(is_whole):
                self._squares(k, x, places, (begin, end), [None] * lanes)
            with k.unless(is_whole):
                masks = [k.tail_mask((count - lane) * lanes, lanes) for lane in range(lanes)]
                self._squares(k, x, places, (begin, end), masks)
        return k

    def _squares(
        self,
        k: Kernel,
        x: Pointer,
        places: Pointer,
        bounds: tuple[Value, Value],
        masks: Sequence[Value | None],
    ) -> None:
        """Pack the weights between two bounds of each filter; the last square overlaps the one before it."""
        lanes, depth = len(masks), k.number("depth")
        for at in k.range(*bounds, lanes):
            column = k.minimum(at, depth - lanes)
            rows = [(x + depth * row).load(column, lanes, mask) for row, mask in enumerate(masks)]
            for number, vector in enumerate(transposed(k, rows)):
                k.pointer("y").store(vector, places.load(column + number).to(I64))


def squares_call(numbers: Array, depth: int, lanes: int, x: View, y: View) -> Call | None:
    """Return the call that packs weights x, of `depth` a filter, into y, where `numbers` are packed so: 0 for a zero,
    n for the n-th weight. None where they are not in whole vectors of one weight of neighbouring filters."""
    if depth < lanes or not numbers.size or numbers.size % lanes:
        return None
    vectors = numbers.reshape(-1, lanes)
    filled = np.count_nonzero(vectors, axis=1)
    expected = vectors[:, :1] + np.arange(lanes, dtype=np.int32) * np.int32(depth)
    expected[np.arange(lanes) >= filled[:, None]] = 0
    if not filled.all() or not np.array_equal(vectors, expected):
        return None
    filters, weights = np.divmod(vectors[:, 0] - 1, depth)
    firsts, blocks = np.unique(filters, return_inverse=True)
    places = np.full((len(firsts), depth), -1, np.int32)
    places[blocks, weights] = np.arange(len(vectors), dtype=np.int32) * lanes
    counts = np.zeros_like(firsts)
    counts[blocks] = filled
    if len(vectors) != places.size or (places < 0).any() or not np.array_equal(counts[blocks], filled):
        return None
    ends = np.stack((firsts, counts), axis=1).astype(np.int32)
    table = np.concatenate((places.ravel(), ends.ravel()))
    words: dict[str, Argument] = {"x": x, "y": y, "table": table, "blocks": len(firsts), "depth": depth}
    return Call.named(PackSquaresSpec(), words, len(firsts) * -(-depth // _CHUNK))
