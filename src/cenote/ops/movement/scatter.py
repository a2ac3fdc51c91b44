"""Elements and slices written at places given by index: ScatterElements, ScatterND, TensorScatter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, DTypeError, ShapeError
from cenote.core.sizes import is_size
from cenote.core.target import Target
from cenote.core.types import Array, TensorType, is_float
from cenote.kernels.base import present
from cenote.kernels.selection.indices import IndexRule
from cenote.ops.base import Arrays, Lowering, Op, Sample, Types
from cenote.ops.checks import (
    int64s,
    normalize_axis,
    one_of,
    read,
    require_index,
    require_same_dtype,
)
from cenote.ops.movement.index_lowerings import rule_of, scatter_lowerings
from cenote.ops.movement.indexing import check_element_indices, element_places, tuple_places
from cenote.ops.values import narrow, seeded, wide

_REDUCTIONS: Mapping[str, Any] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
REDUCTIONS = ("none", *_REDUCTIONS)


@dataclass(frozen=True)
class ScatterElements(Op):
    """A copy of the data with one element written per update: the index replaces the coordinate along `axis`.

    `reduction` combines the update with what is there (add, mul, max, min); with "none" the last update in
    row-major order stays where two hit one place, which ONNX leaves undefined. `invalid`, `negative` as in
    Gather; with "zero" an update without a place is left out.
    """

    axis: int = 0
    reduction: str = "none"
    invalid: str = "raise"
    negative: bool = True

    name = "scatter_elements"
    operands = ("data", "indices", "updates")
    from_onnx = {
        "Scatter": lambda node: read(ScatterElements, node, "axis", "reduction"),
        "ScatterElements": lambda node: read(ScatterElements, node, "axis", "reduction"),
    }

    def types(self, data: TensorType, indices: TensorType, updates: TensorType) -> Types:
        axis = normalize_axis(self.name, self.axis, data.rank)
        check_element_indices(self.name, axis, data, require_index(self.name, indices))
        if updates.shape != indices.shape:
            raise ShapeError(f"{self.name}: updates {updates} and indices {indices} must have one shape")
        rule_of(self.name, self.invalid, self.negative)
        return (_checked(self.name, self.reduction, data, updates),)

    def compute(self, data: Array, indices: Array, updates: Array) -> Arrays:
        rule = rule_of(self.name, self.invalid, self.negative)
        places, valid = element_places(self.name, self.axis, data, indices, rule)
        if not valid.all():
            places, updates = tuple(np.broadcast_to(p, indices.shape)[valid] for p in places), updates[valid]
        return (_written(self.reduction, data, places, updates),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        axis, rule = (
            self.axis % max(present(inputs[0]).rank, 1),
            rule_of(self.name, self.invalid, self.negative),
        )
        yield from scatter_lowerings(self.name, inputs, axis, self.reduction, rule, target)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        indices = np.array([[1, 0, 2], [0, -2, 1]], np.int64)
        for reduction in REDUCTIONS:
            op = ScatterElements(reduction=reduction)
            yield Sample(op, (seeded((3, 3)), indices, seeded((2, 3), 1)), reduction)
        row = (seeded((1, 5)), np.array([[1, 1, -1]], np.int64), seeded((1, 3), 2))
        yield Sample(ScatterElements(axis=-1, reduction="add"), row, "duplicates")
        half = tuple(x.astype(np.float16) if x.dtype == np.float32 else x for x in row)
        yield Sample(ScatterElements(axis=1, reduction="mul"), half, "half")
        places = (seeded((3, 70)), np.array([[2, 0] * 35, [1, -1] * 35], np.int32), seeded((2, 70), 1))
        yield Sample(ScatterElements(0, "add"), places, "columns")
        outside = (seeded((1, 5)), np.array([[7, -1, 2]], np.int64), seeded((1, 3), 2))
        for mode in ("clip", "wrap", "zero"):
            yield Sample(ScatterElements(1, "add", mode, False), outside, mode)
        bools = (seeded((3, 70)) > 0, places[1], seeded((2, 70), 1) > 0)
        yield Sample(ScatterElements(0, "max"), bools, "bools")
        none = (seeded((3,), dtype=np.int8), int64s(()), seeded((0,), dtype=np.int8))
        yield Sample(ScatterElements(), none, "no updates")


@dataclass(frozen=True)
class ScatterND(Op):
    """A copy of the data with one slice written per row of the indices (its leading coordinates).

    `reduction` as in ScatterElements.
    """

    reduction: str = "none"

    name = "scatter_nd"
    operands = ("data", "indices", "updates")
    from_onnx = {"ScatterND": lambda node: read(ScatterND, node, "reduction")}

    def types(self, data: TensorType, indices: TensorType, updates: TensorType) -> Types:
        require_index(self.name, indices)
        if data.rank < 1 or indices.rank < 1 or indices.shape[-1] > data.rank:
            raise ShapeError(f"{self.name}: indices {indices} do not address data {data}")
        wanted = (*indices.shape[:-1], *data.shape[indices.shape[-1] :])
        if updates.shape != wanted:
            raise ShapeError(f"{self.name}: updates {updates} must have shape {list(wanted)}")
        return (_checked(self.name, self.reduction, data, updates),)

    def compute(self, data: Array, indices: Array, updates: Array) -> Arrays:
        places = tuple_places(self.name, data.shape[: indices.shape[-1]], indices)
        return (_written(self.reduction, data, places, updates),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        if not is_size(present(inputs[1]).shape[-1]) and present(inputs[1]).shape[-1]:
            yield from scatter_lowerings(self.name, inputs, None, self.reduction, IndexRule(), target)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        rows = np.array([[0], [-1], [0]], np.int64)
        for reduction in REDUCTIONS:
            yield Sample(ScatterND(reduction), (seeded((4, 3)), rows, seeded((3, 3), 1)), reduction)
        elements = np.array([[[0, 1]], [[1, -1]]], np.int64)
        yield Sample(ScatterND(), (seeded((2, 3)), elements, seeded((2, 1), 1)), "elements")
        yield Sample(ScatterND(), (seeded((2, 3)), np.zeros((0, 2), np.int64), seeded((0,))), "no updates")


@dataclass(frozen=True)
class TensorScatter(Op):
    """A cache (batch, ..., length, ...) with `update` written from a start per sample along `axis`.

    `mode` "circular" wraps around the end; "linear" refuses to write past it (ArgumentError).
    """

    axis: int = -2
    mode: str = "linear"

    name = "tensor_scatter"
    operands = ("past_cache", "update", "write_indices?")
    from_onnx = {"TensorScatter": lambda node: read(TensorScatter, node, "axis", "mode")}

    def types(self, cache: TensorType, update: TensorType, starts: TensorType | None) -> Types:
        one_of(self.name, "mode", self.mode, ("linear", "circular"))
        axis = normalize_axis(self.name, self.axis, cache.rank)
        require_same_dtype(self.name, cache, update)
        if axis == 0:
            raise ShapeError(f"{self.name}: axis 0 of {cache} is the batch and cannot be the sequence")
        fits = update.rank == cache.rank and update.shape[axis] <= cache.shape[axis]
        if not fits or (update.shape[:axis], update.shape[axis + 1 :]) != (
            cache.shape[:axis],
            cache.shape[axis + 1 :],
        ):
            raise ShapeError(f"{self.name}: update {update} does not fit the cache {cache} along axis {axis}")
        if starts is not None and require_index(self.name, starts, "write_indices").shape != cache.shape[:1]:
            raise ShapeError(f"{self.name}: write_indices {starts} must have shape [{cache.shape[0]}]")
        return (TensorType(cache.dtype, cache.shape),)

    def compute(self, cache: Array, update: Array, starts: Array | None) -> Arrays:
        axis, y = normalize_axis(self.name, self.axis, cache.ndim), cache.copy()
        length, count = cache.shape[axis], update.shape[axis]
        for sample in range(cache.shape[0]):
            places = (0 if starts is None else int(starts[sample])) + np.arange(count)
            if self.mode == "circular":
                places %= max(length, 1)
            elif count and not 0 <= places[0] <= length - count:
                raise ArgumentError(
                    f"{self.name}: writing {count} from {places[0]} leaves a cache of {length}"
                )
            np.moveaxis(y[sample], axis - 1, 0)[places] = np.moveaxis(update[sample], axis - 1, 0)
        return (y,)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(TensorScatter(), (seeded((2, 3, 5, 4)), seeded((2, 3, 2, 4), 1), int64s((3, 0))))
        yield Sample(
            TensorScatter(mode="circular"), (seeded((2, 5, 4)), seeded((2, 3, 4), 1), int64s((3, 4)))
        )
        yield Sample(TensorScatter(axis=1), (seeded((1, 4)), seeded((1, 0), 1), None), "nothing written")


def _checked(op: str, reduction: str, data: TensorType, updates: TensorType) -> TensorType:
    one_of(op, "reduction", reduction, REDUCTIONS)
    require_same_dtype(op, data, updates)
    bools = data.dtype.kind == "b" and reduction in ("max", "min")
    if not (reduction == "none" or bools or is_float(data.dtype) or data.dtype.kind in "iu"):
        raise DTypeError(f"{op}: reduction {reduction} is not defined for {data.dtype}")
    return TensorType(data.dtype, data.shape)


def _written(reduction: str, data: Array, places: tuple[Array, ...], updates: Array) -> Array:
    if reduction == "none":
        y = data.copy()
        y[places] = updates
        return y
    total = wide(data).copy()
    _REDUCTIONS[reduction].at(total, places, wide(updates))
    return narrow(total, data.dtype)
