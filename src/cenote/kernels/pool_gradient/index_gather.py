"""Gather of the values at the places that indices name: the gradient of max unpooling.

    for item in begin .. end:                       a plane, or the planes of a group of channels side by side
        for place in the planes of the indices:     writer[index] = place      (the last of equal indices stays)
        for place in the planes of the indices:     y[place] = g[index] where writer[index] is this place, else 0

`found` as in `index_scatter`; a wrong index reads 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import I32, I64, Scalar
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.plane_items import (
    channels_of,
    group_width,
    groups_of,
    item_of,
    named,
    planes_of,
    start_of,
    stride_names,
    stride_words,
)
from cenote.kernels.pool_gradient.index_scatter import WORK, ScatterWalk, places


@dataclass(frozen=True)
class PoolIndexGather(KernelSpec):
    """Kernel of `width` channels per item; `rule` says what indices count (MaxPool's rules)."""

    dtype: np.dtype[Any]
    width: int
    rule: str

    @property
    def words(self) -> tuple[Parameter, ...]:
        element = Scalar.of(np.dtype(f"u{self.dtype.itemsize}"))
        numbers = ["channels", "groups", "planes", "rows", "columns", "depth", "height", "breadth"]
        numbers += stride_names("y", "g", "index")
        return (*pointers_to(element, "y", "g"), *pointers_to(I64, "index", "found"), *numbers_named(numbers))

    def emit(self, target: Target) -> Kernel:
        element = Scalar.of(np.dtype(f"u{self.dtype.itemsize}"))
        k = self.kernel(target)
        writer = k.scratch.cast(I32)
        for number in k.range(k.begin, k.end):
            item = item_of(k, number, self.width)
            y, g, index = (start_of(k, name, item) for name in ("y", "g", "index"))
            walk = ScatterWalk(k, self.rule, self.width, item, k.pointer("found") + number * 2)
            for writes in (True, False):
                for place, at_y, at_index in places(k, "y", "index"):
                    for lane in k.range(0, item.count) if self.width > 1 else [k.integer(0)]:
                        wanted = (index + at_index).load(lane)
                        position, valid = walk.position(wanted, lane)
                        at = position * self.width + lane
                        if writes:
                            with k.when(valid):
                                writer.store(place.to(I32), at)
                            walk.note(valid, wanted, place, lane)
                            continue
                        held = k.select(valid, position, k.integer(0))
                        mine = writer.load(held * self.width + lane).equals(place.to(I32)) & valid
                        value = g.load(held * k.number("g_column") + lane)
                        (y + at_y).store(k.select(mine, value, k.constant(element, 0)), lane)
        return k


def gather_call(
    g: View, index: View, y: View, found: View, counted: Sequence[int], rule: str, *, channels_last: bool
) -> Call:
    """Return the launch for plain views: g holds the map of extents `counted`, dense; y and the indices are of one
    shape."""
    width = group_width(y, channels_last)
    to, source, where = (planes_of(view, channels_last) for view in (y, g, index))
    extents = ((1,) * (3 - len(counted)) + tuple(counted))[-3:]
    spec = PoolIndexGather(g.type.dtype, width, rule)
    groups = groups_of(y, channels_last)
    words: dict[str, Argument] = {
        "y": y,
        "g": g,
        "index": index,
        "found": found,
        "channels": channels_of(y, channels_last),
        "groups": groups,
        **named(("planes", "rows", "columns"), to.extents),
        **named(("depth", "height", "breadth"), extents),
        **stride_words("y", to),
        **stride_words("g", source),
        **stride_words("index", where),
    }
    work = max(1, 8 * to.size * width)
    return Call.named(
        spec,
        words,
        y.shape[0] * groups,
        max(1, WORK // work),
        (source.size * width + 16) * 4,
    )
