"""A plan's geometry as tables of plain numbers, for emitted programs: axes, and blocks of planes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cenote.core.deferred import dataclass
from cenote.core.errors import UnsupportedError
from cenote.core.pool_geometry import AxisWindow
from cenote.ops.conv.conv import Conv
from cenote.ops.pool.average import AveragePool
from cenote.ops.pool.window import ExtremePool, WindowPool
from cenote.tiling.axis import Axis
from cenote.tiling.kinds.convolutions import ConvolutionTiles
from cenote.tiling.kinds.pools import PoolTiles
from cenote.tiling.layer import Layer
from cenote.tiling.problem import TilingPlan
from cenote.tiling.reduction import ReductionPlan

MAXIMUM, AVERAGE, PRODUCT = "maximum", "average", "product"  # what a tile's cell is


@dataclass(frozen=True)
class AxisTable:
    """An axis of `size` inputs and `out` outputs. Of each output: `low` and `high`, the inputs that its tile must have;
    `first`, `count` and `tap`: its first tap on a real element, how many follow it `step` apart, and the number of that
    tap in the window; `divisor`: the axis's factor of an average's divisor."""

    size: int
    out: int
    step: int
    low: tuple[int, ...]
    high: tuple[int, ...]
    first: tuple[int, ...]
    count: tuple[int, ...]
    tap: tuple[int, ...]
    divisor: tuple[int, ...]


def kind_of(layer: Layer) -> str:
    """Return what a cell of the layer is. Raises UnsupportedError for a layer that no program is emitted for."""
    op = layer.op
    where = f"tiling: no program is emitted for {op.name}"
    if layer.dtype.name not in ("float32", "float64"):
        raise UnsupportedError(f"{where} of {layer.dtype.name}; float32 and float64 are supported")
    if any(each.name != "relu" for each in layer.fused):
        raise UnsupportedError(
            f"{where} with {', '.join(each.name for each in layer.fused)}; relu is supported"
        )
    if isinstance(op, Conv):
        return PRODUCT
    if getattr(op, "nan", "propagate") != "propagate" or getattr(op, "accumulate", None) is not None:
        raise UnsupportedError(f"{where} with nan= or accumulate=")
    if layer.indices is not None and getattr(op, "index", "plane") != "plane":
        raise UnsupportedError(f"{where} with indices other than those within a plane")
    if isinstance(op, ExtremePool):
        return MAXIMUM
    if op.name in ("average_pool", "global_average_pool", "adaptive_average_pool"):
        return AVERAGE
    raise UnsupportedError(f"{where}; pools of maxima and averages, and convolutions are supported")


def check_emitted(plan: TilingPlan) -> None:
    """Refuse layers other than pools and convolutions, by name, and plans in several passes."""
    if isinstance(plan, ReductionPlan):
        raise UnsupportedError(
            f"tiling: {plan.layer.title} is computed in {len(plan.passes)} passes, a program each; emit "
            "them one by one: plan.passes[0], ..."
        )
    layer = plan.layer
    plain = len(set(map(str, (*layer.reads, layer.dtype)))) == 1
    if not isinstance(layer.computation, PoolTiles | ConvolutionTiles) or not plain:
        raise UnsupportedError(
            f"tiling: no program is emitted for {layer.title}; pools and convolutions of one type are supported"
        )


def axis_tables(plan: TilingPlan) -> tuple[AxisTable, AxisTable, AxisTable]:
    """Return the tables of D, H and W."""
    layer = plan.layer
    windows, divisors = _windows(layer), _divisors(layer)
    missing = 3 - len(windows)
    tables = []
    for number, axis in enumerate(layer.axes):
        at = number - missing
        window = windows[at] if at >= 0 else None
        tables.append(_table(axis, window, divisors[at] if divisors and at >= 0 else None))
    deep, high, wide = tables
    return deep, high, wide


def _windows(layer: Layer) -> Sequence[AxisWindow | None]:
    """Return the sliding windows of each spatial axis; None for one of given ranges."""
    x = layer.inputs[0]
    assert x is not None
    if layer.conv is not None:
        return layer.conv.axes
    if isinstance(layer.op, WindowPool):
        return layer.op.geometry(x.shape)
    return [None] * (x.rank - 2)


def _divisors(layer: Layer) -> Sequence[Sequence[int]]:
    x = layer.inputs[0]
    assert x is not None
    if isinstance(layer.op, AveragePool):
        return [tuple(int(each) for each in axis) for axis in layer.op.divisors(x.shape)]
    return ()


def _table(axis: Axis, window: AxisWindow | None, divisor: Sequence[int] | None) -> AxisTable:
    low, high = axis.low.tolist(), axis.high.tolist()
    first, count, tap, step = (
        low,
        [stop - start for start, stop in zip(low, high, strict=True)],
        [0] * axis.out,
        1,
    )
    if window is not None:
        taps = [window.taps(o) for o in range(axis.out)]
        step = window.dilation
        count = [stop - start for start, stop in taps]
        tap = [start if stop > start else 0 for start, stop in taps]
        # A window without a real element reads nothing; its place is inside all the same.
        first = [
            window.start(o) + start * step if stop > start else low[o] for o, (start, stop) in enumerate(taps)
        ]
    return AxisTable(
        size=axis.size,
        out=axis.out,
        step=step,
        low=tuple(low),
        high=tuple(high),
        first=tuple(first),
        count=tuple(count),
        tap=tuple(tap),
        divisor=tuple(divisor or count),
    )


def blocks_of(plan: TilingPlan) -> list[tuple[int, int]]:
    """Return the output planes of each block."""
    found: Any = plan.layer.bounds(plan.tile.nc, plan.policy.batch == "apart").tolist()
    return [(int(first), int(last)) for first, last in found]
