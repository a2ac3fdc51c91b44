"""Pools: sliding, adaptive and global windows over planes that do not mix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, UnsupportedError, shown
from cenote.core.types import Array, TensorType, dtype_named
from cenote.ops.base import Box, Op
from cenote.ops.pool.adaptive import AdaptiveAveragePool, AdaptiveMaxPool, AdaptivePool
from cenote.ops.pool.average import AveragePool
from cenote.ops.pool.lp import GlobalLpPool, LpPool
from cenote.ops.pool.whole_map import GlobalAveragePool, GlobalMaxPool, GlobalPool
from cenote.ops.pool.window import ExtremePool, MaxPool, MinPool, WindowPool, convert_indices
from cenote.tiling.axis import Axis, range_axis, window_axis
from cenote.tiling.kinds.arguments import LayerArguments, LayerFamily
from cenote.tiling.kinds.computation import Computation, TileData
from cenote.tiling.layer import Layer, check_outputs, three_axes, work_of

SLIDING: dict[str, Any] = {"maxpool": MaxPool, "minpool": MinPool, "avgpool": AveragePool, "lppool": LpPool}
ADAPTIVE: dict[str, Any] = {"adaptivemaxpool": AdaptiveMaxPool, "adaptiveavgpool": AdaptiveAveragePool}
GLOBAL: dict[str, Any] = {
    "globalmaxpool": GlobalMaxPool,
    "globalavgpool": GlobalAveragePool,
    "globallppool": GlobalLpPool,
}
WINDOW = ("kernel", "stride", "padding", "dilation", "ceil_mode", "auto_pad")
_INDEXED = ("maxpool", "minpool", "adaptivemaxpool")
_EXTRA = {"avgpool": ("count_include_pad", "divisor_override"), "lppool": ("p",), "globallppool": ("p",)}


@dataclass(frozen=True)
class PoolTiles(Computation):
    """A pool. `sums`: the type it computes in, where its outputs are not of its input's type; `indices`: the type of
    its second output."""

    sums: np.dtype[Any] | None = None
    result: np.dtype[Any] | None = None
    indices: np.dtype[Any] | None = None

    def reference(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        y, *places = self._pooled(self.op, arrays[0])
        return (y, *(each.astype(self.indices) for each in places))

    def sources(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        (x,) = arrays
        return (x.reshape(1, -1, *x.shape[2:]),)

    def values(self, arrays: Sequence[Array], data: TileData) -> tuple[Array, ...]:
        x = self.given[0]
        types = (TensorType(x.dtype, (1, math.prod(x.shape[:2]), *x.shape[2:])),)
        box = Box(((0, 1), data.planes, *data.spatial))
        (region,) = self.op.region(box, types)
        assert region is not None
        values, *places = self._pooled(self.op.part(box, types), data.read(0, region.ranges[1:])[None])
        if not places:
            return (values[0],)
        inside = tuple(stop - start for start, stop in region.ranges[2:])
        at = np.unravel_index(places[0][0], inside)
        shifted = [each + start for each, (start, _) in zip(at, region.ranges[2:], strict=True)]
        return values[0], np.ravel_multi_index(shifted, x.shape[2:])

    def delivered(self, outputs: tuple[Array, ...]) -> tuple[Array, ...]:
        if len(outputs) == 1:
            return outputs
        assert isinstance(self.op, ExtremePool)  # no other has indices
        places = convert_indices(outputs[1], self.given[0].shape, self.op.index)
        return outputs[0], places.astype(outputs[1].dtype)

    def _pooled(self, op: Op, x: Array) -> Sequence[Array]:
        y, *places = op.reference(x if self.sums is None else x.astype(self.sums))
        return y if self.result is None else y.astype(self.result), *places


def pool_layer(
    op: Op,
    x: TensorType,
    title: str = "",
    fused: tuple[Op, ...] = (),
    indices: np.dtype[Any] | None = None,
    result: np.dtype[Any] | None = None,
) -> Layer:
    """Return the layer of a pool on x. `result`: the type of its outputs where it is not that of x; sums are taken in
    the wider of both then. Raises the errors of the operator's `infer`."""
    y, *places = op.infer(x)
    planes = math.prod(y.shape[:2])
    y = TensorType(result or y.dtype, y.shape)
    check_outputs(op, y, planes, fused)
    sums = max((x.dtype, y.dtype), key=lambda dtype: dtype.itemsize) if result else None
    kind = (indices or places[0].dtype) if places else None
    return Layer(
        title or op.name,
        PoolTiles(op, (x,), sums, result, kind),
        (x,),
        (y, *places),
        y.shape[0],
        planes,
        three_axes(pool_axes(op, x), op),
        work_of(op, (x,), y, fused),
        reads=(x.dtype,),
        writes=(y.dtype, kind) if kind else (y.dtype,),
        fused=fused,
    )


def pool_axes(op: Op, x: TensorType) -> list[Axis]:
    """Return a pool's spatial axes."""
    if isinstance(op, WindowPool):
        return [window_axis(windows) for windows in op.geometry(x.shape)]
    if isinstance(op, AdaptivePool):
        pairs = zip(x.shape[2:], op.bounds(x.shape), strict=True)
        return [range_axis(size, ranges) for size, ranges in pairs]
    return [range_axis(size, ((0, size),)) for size in x.shape[2:]]


def pool_of(kind: str, given: LayerArguments) -> Op:
    """Return the pool that a caller's arguments describe."""
    chosen: dict[str, Any] = {name: given[name] for name in _EXTRA.get(kind, ())}
    if given["indices"] is not None:
        if kind not in _INDEXED or given["indices"] not in ("int64", "int32"):
            raise ArgumentError(
                "tiling.plan: indices must be int64, int32 or None, of a maximum or minimum, got "
                f"{shown(given['indices'])}"
            )
        chosen["return_indices"] = True
    if kind in GLOBAL:
        return cast(Op, GLOBAL[kind](**chosen))
    if kind in ADAPTIVE:
        given.required("output", "its output extents")
        return cast(Op, ADAPTIVE[kind](given.numbers("output"), **chosen))
    given.required("kernel", "its window")
    window = given.numbers("kernel")
    return cast(
        Op,
        SLIDING[kind](
            window,
            given.numbers("stride", window),
            given.pads(),
            given.numbers("dilation"),
            auto_pad=given["auto_pad"],
            ceil_mode=bool(given["ceil_mode"]),
            **chosen,
        ),
    )


def _build(given: LayerArguments) -> Layer:
    kind = dtype_named(given["indices"]) if given["indices"] in ("int64", "int32") else None
    return pool_layer(pool_of(given.kind, given), given.x, given.kind, given.fused, kind)


def _match(op: Op, inputs: tuple[TensorType | None, ...], title: str, fused: tuple[Op, ...]) -> Layer | None:
    if not isinstance(op, MaxPool | AveragePool | LpPool | AdaptivePool | GlobalPool) or op.channels_last:
        return None
    x = inputs[0]
    assert x is not None
    if x.rank > 5:
        raise UnsupportedError(f"tiling: {op.name} over {x.rank - 2} spatial axes; 1 to 3 are supported")
    return pool_layer(op, x, title, fused)


def _names() -> dict[str, tuple[str, ...]]:
    own = {
        **dict.fromkeys(SLIDING, WINDOW),
        **dict.fromkeys(ADAPTIVE, ("output",)),
        **dict.fromkeys(GLOBAL, ()),
    }
    indexed = dict.fromkeys(_INDEXED, ("indices",))
    return {kind: (*names, *_EXTRA.get(kind, ()), *indexed.get(kind, ())) for kind, names in own.items()}


POOLS = LayerFamily(_names(), _build, _match)
