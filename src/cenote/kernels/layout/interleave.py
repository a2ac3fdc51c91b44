"""Copies of which one side is dense along an axis whose neighbours lie 2 to 4 elements apart on the other side.

weave     y[…, i, j] = x[…, j, i], j < count: pixels of planes, DepthToSpace
deal      y[…, j, i] = x[…, i, j], j < count: planes of pixels, SpaceToDepth, every second element

for item in begin .. end:                    emitted; a piece of one run
    for place in steps of lanes:             emitted
        weave: load a vector of each of `count` rows, shuffle them into one run, store
        deal: load a run of `count` vectors, shuffle each row's elements together, store
    what is left of the run                  element by element
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size, maximum
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.strided_axes import Axis, axis_names, axis_pointers, axis_words, position_count

PIECE = 4096  # places of an item
MOST = 4


@dataclass(frozen=True)
class InterleaveSpec(KernelSpec):
    """Kernel of `count` rows of elements of `nbytes`, which in the run lie `step` apart; `weaves` rows into a run, or
    deals."""

    weaves: bool
    nbytes: int
    count: int
    step: int
    lanes: int
    outer: int

    @property
    def words(self) -> tuple[Parameter, ...]:
        element = Scalar.of(np.dtype(f"u{self.nbytes}"))
        return (
            *pointers_to(element, "y", "x"),
            *numbers_named(["places", "row", *axis_names(self.outer, ("y", "x"))]),
        )

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        places, lanes = k.number("places"), self.lanes
        pieces = (places + PIECE - 1) // PIECE
        for item in k.range(k.begin, k.end):
            y, x = axis_pointers(k, self.outer, ("y", "x"), item // pieces)
            begin = item % pieces * PIECE
            end = k.minimum(begin + PIECE, places)
            # A run's last elements may be missing: a vector of it needs one place more than it has.
            inside = k.minimum(end, places - (0 if self.step == self.count else 1))
            whole = begin + k.maximum(inside - begin, k.integer(0)) // lanes * lanes
            for place in k.range(begin, whole, lanes):
                (self._weave if self.weaves else self._deal)(k, y, x, place)
            for place in k.range(whole, end):
                for row in range(self.count):
                    run, apart = place * self.step + row, place + k.number("row") * row
                    y.store(x.load(apart if self.weaves else run), run if self.weaves else apart)
        return k

    def _weave(self, k: Kernel, y: Pointer, x: Pointer, place: Value) -> None:
        rows = [x.load(place + k.number("row") * row, self.lanes) for row in range(self.count)]
        wide = _joined(k, rows)
        for part in range(self.count):
            taken = [at % self.count * self.lanes + at // self.count for at in _run(part, self.lanes)]
            y.store(k.shuffle(wide, wide, taken), place * self.step + part * self.lanes)

    def _deal(self, k: Kernel, y: Pointer, x: Pointer, place: Value) -> None:
        wide = _joined(
            k, [x.load(place * self.step + part * self.lanes, self.lanes) for part in range(self.step)]
        )
        for row in range(self.count):
            taken = [at * self.step + row for at in range(self.lanes)]
            y.store(k.shuffle(wide, wide, taken), place + k.number("row") * row)


def _run(part: int, lanes: int) -> range:
    return range(part * lanes, (part + 1) * lanes)


def _joined(k: Kernel, vectors: Sequence[Value]) -> Value:
    """Join vectors one behind the other; three are joined with a fourth of anything."""
    while len(vectors) > 1:
        lanes = vectors[0].lanes
        pairs = [
            (vectors[i], vectors[i + 1] if i + 1 < len(vectors) else None) for i in range(0, len(vectors), 2)
        ]
        vectors = [
            k.shuffle(a, a, [*range(lanes), *[-1] * lanes])
            if b is None
            else k.shuffle(a, b, range(2 * lanes))
            for a, b in pairs
        ]
    return vectors[0]


def interleave_call(x: View, axes: Sequence[Axis], y: View, target: Target) -> Call | None:
    """Return the call for axes (extent, [step in y, step in x]) that no other kernel copies in vectors, or None."""
    arrangement = _weave(axes) or _deal(axes)
    if arrangement is None:
        return None
    weaves, count, step, places, row, outer = arrangement
    nbytes = y.type.dtype.itemsize
    lanes = min(target.vector_bytes // nbytes, 16)
    spec = InterleaveSpec(weaves, nbytes, count, step, lanes, len(outer))
    words: dict[str, Argument] = {
        "y": y,
        "x": x,
        "places": places,
        "row": row,
        **axis_words(outer, ("y", "x")),
    }
    items = position_count(outer) * -(-places // PIECE)
    return Call.named(spec, words, items, grain=maximum(1, 16384 // (places * count)))


Found = tuple[bool, int, int, int, int, Sequence[Axis]]


def _weave(axes: Sequence[Axis]) -> Found | None:
    """Match a short last axis of y behind an axis that is dense in x."""
    if len(axes) < 2 or is_size(axes[-1][0]) or not 2 <= axes[-1][0] <= MOST:
        return None
    count, (_, row) = axes[-1]
    places, moves = axes[-2]
    return (True, count, count, places, row, axes[:-2]) if moves[0] == count and moves[1] == 1 else None


def _deal(axes: Sequence[Axis]) -> Found | None:
    """Match a last axis of y that lies in steps of 2 to 4 in x; an axis of as many elements or fewer may fill the
    steps."""
    places, (_, step) = axes[-1]
    if is_size(step) or not 2 <= step <= MOST:
        return None
    for index, (extent, moves) in enumerate(axes[:-1]):
        if moves[1] == 1 and not is_size(extent) and extent <= step:
            return False, extent, step, places, moves[0], [*axes[:index], *axes[index + 1 : -1]]
    return False, 1, step, places, 0, axes[:-1]
