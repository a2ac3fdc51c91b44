"""Non-maximum suppression: boxes in the order of their scores, each kept unless a kept one overlaps it too much.

for box in order:                            emitted
    for vector of the kept boxes:            emitted
        intersection / union > threshold?
    kept, if none was
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F64, I64, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, pointers_to
from cenote.kernels.selection.order import unsigned

PARTS = 5  # numbers of a kept box: corners and area
SPARE = 16  # boxes more than there are, so that the last vector is whole


@dataclass(frozen=True)
class Suppress(KernelSpec):
    """Kernel of one item: the order matters."""

    dtype: np.dtype[Any]

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (
            *pointers_to(I64, "y", "count"),
            *pointers_to(Scalar.of(self.dtype), "boxes"),
            *pointers_to(I64, "order"),
            *pointers_to(Scalar.of(self.dtype), "kept"),
            Parameter("size"),
            Parameter("most"),
            Parameter("threshold", F64),
        )

    def emit(self, target: Target) -> Kernel:
        k, lanes = self.kernel(target), target.lanes(self.dtype)
        size, kind = k.number("size"), Scalar.of(self.dtype)
        threshold = k.splat(k.number("threshold").to(kind), lanes)
        stride = size + SPARE
        for _ in k.range(k.begin, k.end):
            count = k.variable(k.integer(0))
            for number in k.range(0, size):
                place = k.pointer("order").load(number)
                corners = [k.pointer("boxes").load(place * 4 + part) for part in range(4)]
                box = [*corners, (corners[2] - corners[0]) * (corners[3] - corners[1])]
                hit = k.variable(count.value >= k.number("most"))
                begin = k.select(hit.value, count.value, k.integer(0))
                for at in k.range(begin, count.value, lanes):
                    with k.unless(hit.value):
                        over = self._overlaps(k, box, at, stride, lanes) > threshold
                        mask = over & k.tail_mask(count.value - at, lanes)
                        bits = k.assign(f"bitcast {mask.ir} {mask.text} to i{lanes}", unsigned(lanes), 1)
                        hit.value = bits.differs(0)
                with k.unless(hit.value):
                    for part, value in enumerate(box):
                        k.pointer("kept").store(value, stride * part + count.value)
                    k.pointer("y").store(place, count.value)
                    count.value = count.value + 1
            for rest in k.range(count.value, size):
                k.pointer("y").store(k.integer(-1), rest)
            k.pointer("count").store(count.value)
        return k

    def _overlaps(self, k: Kernel, box: list[Value], at: Value, stride: Value, lanes: int) -> Value:
        """Compute intersection over union with some kept boxes."""
        kept = [k.pointer("kept").load(stride * part + at, lanes) for part in range(PARTS)]
        mine = [k.splat(value, lanes) for value in box]
        zero = k.constant(mine[0].type, 0.0, lanes)
        sides = []
        for low, high in ((0, 2), (1, 3)):
            begin = k.max_drop_nan(mine[low], kept[low])
            end = k.min_drop_nan(mine[high], kept[high])
            sides.append(k.max_drop_nan(end - begin, zero))
        shared = sides[0] * sides[1]
        return shared / (mine[4] + kept[4] - shared)


def suppress_call(
    boxes: View, order: View, y: View, count: View, kept: View, most: int, threshold: float
) -> Call:
    """Return the launch for plain boxes (n, 4); `order` names them from the best score on. At most `most` are kept."""
    limit = boxes.type.dtype.type(threshold)
    if limit > threshold:  # so that no overlap lies between the threshold and its substitute
        limit = np.nextafter(limit, boxes.type.dtype.type(-np.inf))
    words: dict[str, Argument] = {
        "y": y,
        "count": count,
        "boxes": boxes,
        "order": order,
        "kept": kept,
        "size": boxes.shape[0],
        "most": most,
        "threshold": float(limit),
    }
    return Call.named(Suppress(boxes.type.dtype), words, 1)
