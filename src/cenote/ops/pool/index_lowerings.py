"""Native ways to send values to the places that indices name, and the error for an index outside of its plane."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import InputError
from cenote.core.target import Target
from cenote.core.types import INT64, PLAIN, Array, Layout, TensorType
from cenote.kernels.base import Call, View
from cenote.kernels.cost_model import PLACED_VALUE, stream_seconds
from cenote.kernels.plane_items import GROUP
from cenote.kernels.pool_gradient.index_gather import gather_call
from cenote.kernels.pool_gradient.index_scatter import scatter_call
from cenote.ops.base import Check, Lowering
from cenote.ops.pool.algorithms import TOLERANCES, layouts

# Bytes of sums in float32 at most; larger planes of 16-bit floats are left to the reference.
SCRATCH = 1 << 28


@dataclass(frozen=True)
class PlaneIndexCheck(Check):
    """Error that names the first index outside of its plane. `shape` is that of the indices, (N, C, *in) whatever the
    layout; `counted` the map they count in; items hold `width` channels."""

    op: str
    shape: tuple[int, ...]
    counted: tuple[int, ...]
    rule: str
    width: int

    def raise_if_wrong(self, found: Array) -> None:
        items = found.reshape(-1, 2)
        number = int(np.argmax(items[:, 0] != 0))
        place, lane = divmod(int(items[number, 0]) - 1, self.width)
        image, group = divmod(number, -(-self.shape[1] // self.width))
        channel, value = group * self.width + lane, int(items[number, 1])
        where = [image, channel, *map(int, np.unravel_index(place, self.shape[2:]))]
        if self.rule == "nhwc" and value % self.shape[1] != channel:
            raise InputError(f"{self.op}: an index points into another channel than its value's")
        raise outside(self.op, value, where, self.counted, self.rule)


def outside(op: str, value: int, where: Sequence[int], counted: Sequence[int], rule: str) -> InputError:
    """The error for an index outside of its plane."""
    return InputError(
        f"{op}: index {value} at {list(where)} lies outside its plane of {math.prod(counted)} "
        f"elements (spatial extents {tuple(counted)}; index rule '{rule}')"
    )


def index_check(
    x: TensorType, layout: Layout, counted: Sequence[int], rule: str, channels_last: bool
) -> tuple[TensorType, PlaneIndexCheck]:
    """Type of the findings of a scatter with indices of x's shape, and the step that checks them."""
    shape = (x.shape[0], x.shape[-1], *x.shape[1:-1]) if channels_last else x.shape
    width = layout.lanes or (GROUP if channels_last else 1)
    items = shape[0] * -(-shape[1] // width)
    return TensorType(INT64, (items, 2)), PlaneIndexCheck("max_unpool", shape, tuple(counted), rule, width)


def scatter_lowerings(
    inputs: Sequence[TensorType | None],
    y: TensorType,
    counted: Sequence[int],
    rule: str,
    target: Target,
    *,
    adds: bool,
    channels_last: bool,
    rest: Layout | None,
) -> Iterator[Lowering]:
    """Yield lowerings that write x (input 0) at the indices (input 1); `rest`: the layout of a third input."""
    x, indices = inputs[:2]
    assert x is not None
    assert indices is not None
    if not x.size or not y.size or not 1 <= x.rank - 2 <= 3:
        return
    if adds and x.dtype.itemsize == 2 and math.prod(counted) * GROUP * 4 > SCRATCH:
        return
    for layout in layouts(channels_last, target):
        noted, check = index_check(x, layout, counted, rule, channels_last)

        def call(values: View, places: View, *others: View) -> Call:
            *_, y, found = others
            return scatter_call(
                values, places, y, found, counted, rule, adds=adds, channels_last=channels_last
            )

        seconds = stream_seconds(x.nbytes + indices.nbytes + y.nbytes) + x.size * PLACED_VALUE
        if rule == "nhwc" or layout != PLAIN:
            seconds += x.size * PLACED_VALUE
        given = (layout, layout, *[rest] * (len(inputs) - 2))
        error = TOLERANCES[x.dtype.name] if adds else 0.0
        yield Lowering.of_call("scatter", given, (layout,), call, seconds, error, (noted,), check=check)


def gather_lowerings(
    inputs: Sequence[TensorType | None],
    counted: Sequence[int],
    rule: str,
    target: Target,
    channels_last: bool,
) -> Iterator[Lowering]:
    """Yield lowerings that read input 0 at the index (input 2) of each value (input 1): gradients of unpooling."""
    g, x, _ = inputs
    assert g is not None
    assert x is not None
    if not x.size or not g.size or not 1 <= x.rank - 2 <= 3 or math.prod(counted) >= 1 << 31:
        return
    if math.prod(counted) * GROUP * 4 > SCRATCH:
        return
    noted, check = index_check(x, PLAIN, counted, rule, channels_last)

    seconds = stream_seconds(x.nbytes + g.nbytes) + 2 * x.size * PLACED_VALUE

    def call(grad: View, _: View, places: View, y: View, found: View) -> Call:
        return gather_call(grad, places, y, found, counted, rule, channels_last=channels_last)

    yield Lowering.of_call("gather", (PLAIN,) * 3, (PLAIN,), call, seconds, 0.0, (noted,), check=check)
