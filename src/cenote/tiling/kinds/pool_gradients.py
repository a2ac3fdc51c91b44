"""Gradients of pools: tiles of the gradient of the input, which read the outputs whose windows reach them.

The gradient of a maximum reads the gradient of the output and the indices that the pool returned; that of an average
the gradient of the output alone. Each adds up in the order of the outputs, as the operator on the whole map does, so
that its sums have the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.types import INT64, Array, TensorType, dtype_named
from cenote.ops.base import Op
from cenote.ops.pool.adaptive import AdaptivePool
from cenote.ops.pool.average import AveragePool
from cenote.ops.pool.gradient import IndexGradient, PoolGradient
from cenote.ops.pool.window import WindowPool
from cenote.ops.values import narrow, seeded, wide
from cenote.tiling.axis import transposed_axis
from cenote.tiling.kinds.arguments import LayerArguments, LayerFamily
from cenote.tiling.kinds.computation import Computation, Range, Ranges, TileData
from cenote.tiling.kinds.pools import ADAPTIVE, GLOBAL, SLIDING, WINDOW, pool_axes, pool_of
from cenote.tiling.layer import Layer, check_outputs, three_axes, work_of

_ENDING = "backward"
_EXTREMES = ("maxpool", "minpool", "adaptivemaxpool")
_AVERAGES = ("avgpool", "adaptiveavgpool", "globalavgpool")


@dataclass(frozen=True)
class GradientTiles(Computation):
    """Base: `forward` is the pool, `x` the type of its input."""

    forward: Op
    x: TensorType

    def sources(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        return tuple(array.reshape(1, -1, *array.shape[2:]) for array in arrays)

    def windows(self) -> list[list[slice]]:
        """Return the elements of each window along each axis."""
        shape = self.x.shape
        if isinstance(self.forward, WindowPool):
            return [list(axis.slices()) for axis in self.forward.geometry(shape)]
        if isinstance(self.forward, AdaptivePool):
            return [[slice(*pair, 1) for pair in ranges] for ranges in self.forward.bounds(shape)]
        return [[slice(0, size, 1)] for size in shape[2:]]

    def reaching(self, data: TileData) -> Ranges:
        """Return, from the windows themselves, the range of outputs along each axis that reach a tile."""
        return tuple(
            _reaching(slices, *bounds) for slices, bounds in zip(self.windows(), data.spatial, strict=True)
        )


@dataclass(frozen=True)
class ExtremeGradientTiles(GradientTiles):
    """Gradient of a maximum or minimum by its indices."""

    def examples(self) -> tuple[Array, ...]:
        x = seeded(self.x.shape, 1, self.x.dtype)
        return (self.forward.reference(x)[1].astype(self.given[1].dtype),)

    def reference(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        grad, places = arrays
        return tuple(self.op.reference(grad, places.astype(INT64)))

    def values(self, arrays: Sequence[Array], data: TileData) -> tuple[Array, ...]:
        reaching = self.reaching(data)
        grad, places = (data.read(number, (data.planes, *reaching)) for number in range(2))
        below = np.zeros((len(grad), *(stop - start for start, stop in data.spatial)))
        at = np.unravel_index(places.astype(INT64), self.x.shape[2:])
        inside = np.ones(grad.shape, np.bool_)
        for each, (start, stop) in zip(at, data.spatial, strict=True):
            inside &= (each >= start) & (each < stop)
        local = [each[inside] - start for each, (start, _) in zip(at, data.spatial, strict=True)]
        np.add.at(below, (np.nonzero(inside)[0], *local), wide(grad)[inside])
        return (narrow(below, grad.dtype),)


@dataclass(frozen=True)
class AverageGradientTiles(GradientTiles):
    """Gradient of an average."""

    def reference(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        return tuple(self.op.reference(arrays[0], np.zeros(self.x.shape, self.x.dtype)))

    def values(self, arrays: Sequence[Array], data: TileData) -> tuple[Array, ...]:
        reaching, windows = self.reaching(data), self.windows()
        grad = data.read(0, (data.planes, *reaching))
        above = wide(grad)
        below = np.zeros((len(grad), *(stop - start for start, stop in data.spatial)))
        divisors = self._divisors(windows)
        for position in product(*(range(*bounds) for bounds in reaching)):
            slope = 1 / math.prod(column[o] for column, o in zip(divisors, position, strict=True))
            own = (column[o] for column, o in zip(windows, position, strict=True))
            box = tuple(_within(each, *bounds) for each, bounds in zip(own, data.spatial, strict=True))
            here: tuple[Any, ...] = tuple(o - start for o, (start, _) in zip(position, reaching, strict=True))
            below[(slice(None), *box)] += (above[(slice(None), *here)] * slope).reshape(-1, *(1,) * len(box))
        return (narrow(below, grad.dtype),)

    def _divisors(self, windows: list[list[slice]]) -> Sequence[Sequence[int]]:
        if isinstance(self.forward, AveragePool):
            return self.forward.divisors(self.x.shape)
        return [[len(range(each.start, each.stop)) for each in column] for column in windows]


def _reaching(slices: list[slice], start: int, stop: int) -> Range:
    """Return the range of the windows that have an element from `start` to `stop` - 1."""
    reach = [o for o, each in enumerate(slices) if any(start <= i < stop for i in _elements(each))]
    return (reach[0], reach[-1] + 1) if reach else (0, 0)


def _elements(each: slice) -> Iterator[int]:
    return iter(range(each.start, each.stop, each.step or 1))


def _within(each: slice, start: int, stop: int) -> slice:
    """Return the elements of a slice from `start` to `stop` - 1, counted from `start`."""
    step = each.step or 1
    first = each.start + max(0, -(-(start - each.start) // step)) * step
    last = min(each.stop, stop)
    return slice(first - start, max(first, last) - start, step)


def _build(given: LayerArguments) -> Layer:
    kind = given.kind.removesuffix(_ENDING)
    forward: Any = pool_of(kind, replace(given, kind=kind))
    axes = [
        transposed_axis(axis, extent)
        for axis, extent in zip(pool_axes(forward, given.x), given.x.shape[2:], strict=True)
    ]
    grad = forward.infer(given.x)[0]
    computation: GradientTiles
    if kind in _AVERAGES:
        op: Op = PoolGradient(forward)
        computation = AverageGradientTiles(op, (grad,), forward, given.x)
        types: tuple[TensorType, ...] = (grad, given.x)
    else:
        places = TensorType(dtype_named(given["indices"] or "int64"), grad.shape)
        forward = replace(forward, return_indices=True)
        op = IndexGradient(given.x.shape[2:])
        computation = ExtremeGradientTiles(op, (grad, places), forward, given.x)
        types = (grad, TensorType(INT64, grad.shape))
    (below,) = op.infer(*types)
    planes = math.prod(below.shape[:2])
    check_outputs(op, below, planes, given.fused)
    return Layer(
        given.kind,
        computation,
        computation.given,
        (below,),
        below.shape[0],
        planes,
        three_axes(axes, op),
        work_of(op, types, below, given.fused),
        reads=tuple(each.dtype for each in computation.given),
        writes=(below.dtype,),
        fused=given.fused,
    )


def _match(op: Op, inputs: tuple[TensorType | None, ...], title: str, fused: tuple[Op, ...]) -> Layer | None:
    return None  # models for inference have no gradients


def _names() -> dict[str, tuple[str, ...]]:
    extra = {"avgpool": ("count_include_pad", "divisor_override")}
    own = {
        kind: WINDOW if kind in SLIDING else ("output",) if kind in ADAPTIVE else ()
        for kind in (*SLIDING, *ADAPTIVE, *GLOBAL)
        if kind in (*_EXTREMES, *_AVERAGES)
    }
    indexed = dict.fromkeys(_EXTREMES, ("indices",))
    return {
        kind + _ENDING: (*names, *extra.get(kind, ()), *indexed.get(kind, ())) for kind, names in own.items()
    }


GRADIENTS = LayerFamily(_names(), _build, _match)
