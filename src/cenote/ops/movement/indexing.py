"""Elements read and written at places given by index: Gather, GatherElements, GatherND, and the scatters to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cenote.core.errors import ArgumentError, DTypeError, ShapeError
from cenote.core.types import Array, TensorType
from cenote.ops.base import Arrays, Op, Sample, Types
from cenote.ops.checks import (
    BOOL,
    checked_indices,
    int64s,
    normalize_axis,
    one_of,
    read,
    require_index,
    require_same_dtype,
)
from cenote.ops.values import narrow, seeded, wide


@dataclass(frozen=True)
class Gather(Op):
    """Slices of the data along one axis, as `numpy.take`: the axis is replaced by the axes of the indices.

    Negative indices count from the end; one outside the axis raises ArgumentError when it runs.
    """

    axis: int = 0

    name = "gather"
    operands = ("data", "indices")
    from_onnx = {"Gather": lambda node: read(Gather, node, "axis")}

    def types(self, data: TensorType, indices: TensorType) -> Types:
        axis = normalize_axis("gather", self.axis, data.rank)
        require_index("gather", indices)
        return (TensorType(data.dtype, (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])),)

    def compute(self, data: Array, indices: Array) -> Arrays:
        picked = checked_indices("gather", indices, data.shape[self.axis])
        return (np.asarray(np.take(data, picked, self.axis)),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(Gather(), (seeded((5, 4)), int64s((0, 4, -5, -1, 2))))
        yield Sample(Gather(1), (seeded((5, 4, 3)), np.array([[0, -1], [3, 1]], np.int32)))
        yield Sample(Gather(-1), (seeded((5, 4)), np.array(2, np.int64)), "scalar index")
        yield Sample(Gather(), (seeded((3,), dtype=np.int64), np.array(-1, np.int64)), "element")
        yield Sample(Gather(), (seeded((3, 2)), np.zeros((0,), np.int64)), "no indices")
        yield Sample(Gather(1), (seeded((0, 2)), int64s((1, 1))), "empty data")


@dataclass(frozen=True)
class GatherElements(Op):
    """One element per index: the index replaces the coordinate along the axis, the others are its own place."""

    axis: int = 0

    name = "gather_elements"
    operands = ("data", "indices")
    from_onnx = {"GatherElements": lambda node: read(GatherElements, node, "axis")}

    def types(self, data: TensorType, indices: TensorType) -> Types:
        axis = normalize_axis(self.name, self.axis, data.rank)
        check_element_indices(self.name, axis, data, require_index(self.name, indices))
        return (TensorType(data.dtype, indices.shape),)

    def compute(self, data: Array, indices: Array) -> Arrays:
        return (data[element_places(self.name, self.axis, data, indices)],)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(GatherElements(), (seeded((3, 3)), np.array([[1, 2, 0], [-1, 0, 0]], np.int64)))
        yield Sample(GatherElements(1), (seeded((2, 5)), np.array([[0, -5, 4]], np.int32)), "fewer rows")
        yield Sample(GatherElements(-1), (seeded((4,)), int64s((3, 3, 3, 0, 1))), "more than the axis")
        yield Sample(GatherElements(), (seeded((3, 2)), np.zeros((0, 2), np.int64)), "no indices")


@dataclass(frozen=True)
class GatherND(Op):
    """Slices of the data whose leading coordinates are the rows of the indices, after `batch_axes` shared axes."""

    batch_axes: int = 0

    name = "gather_nd"
    operands = ("data", "indices")
    from_onnx = {"GatherND": lambda node: read(GatherND, node, batch_axes="batch_dims")}

    def types(self, data: TensorType, indices: TensorType) -> Types:
        require_index(self.name, indices)
        shared = self.batch_axes
        if data.rank < 1 or indices.rank < 1 or not 0 <= shared < min(data.rank, indices.rank):
            raise ShapeError(f"{self.name}: {shared} batch axes do not fit data {data} and indices {indices}")
        if data.shape[:shared] != indices.shape[:shared]:
            raise ShapeError(f"{self.name}: batch axes of data {data} and indices {indices} differ")
        depth = indices.shape[-1]
        if not 1 <= depth <= data.rank - shared:
            raise ShapeError(
                f"{self.name}: indices {indices} have {depth} coordinates, data {data} takes 1 to {data.rank - shared}"
            )
        return (TensorType(data.dtype, (*indices.shape[:-1], *data.shape[shared + depth :])),)

    def compute(self, data: Array, indices: Array) -> Arrays:
        (result,) = self.declared(data, indices)
        shared, depth = self.batch_axes, indices.shape[-1]
        y = np.empty(result.shape, data.dtype)
        for batch in np.ndindex(*indices.shape[:shared]):
            y[batch] = data[batch][
                tuple_places(self.name, data.shape[shared : shared + depth], indices[batch])
            ]
        return (y,)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(GatherND(), (seeded((2, 3)), np.array([[0, -1], [1, 2]], np.int64)), "elements")
        yield Sample(GatherND(), (seeded((2, 3, 4)), np.array([[[1]], [[-2]]], np.int64)), "slices")
        yield Sample(GatherND(1), (seeded((2, 3, 4)), np.array([[[1, 0]], [[2, -1]]], np.int64)), "batch")
        yield Sample(GatherND(), (seeded((2, 3)), np.zeros((0, 2), np.int64)), "no indices")


def check_element_indices(op: str, axis: int, data: TensorType, indices: TensorType) -> None:
    """Indices of the elements operators have the data's rank and reach no further off the axis."""
    fits = data.rank == indices.rank and all(
        n <= extent for a, (n, extent) in enumerate(zip(indices.shape, data.shape, strict=True)) if a != axis
    )
    if not fits:
        raise ShapeError(f"{op}: indices {indices} must lie within data {data} on every axis but {axis}")


def element_places(op: str, axis: int, data: Array, indices: Array) -> tuple[Array, ...]:
    """The coordinates each index of an elements operator means, one array per axis."""
    places: list[Array] = list(np.indices(indices.shape, sparse=True))
    places[axis] = checked_indices(op, indices, data.shape[axis])
    return tuple(places)


def tuple_places(op: str, extents: tuple[int, ...], indices: Array) -> tuple[Array, ...]:
    """The last axis of the indices as one array of coordinates per leading axis of the data."""
    if indices.shape[-1] > len(extents):
        raise ArgumentError(f"{op}: {indices.shape[-1]} coordinates for {len(extents)} axes")
    return tuple(checked_indices(op, indices[..., axis], extent) for axis, extent in enumerate(extents))


_REDUCTIONS: Mapping[str, Any] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
REDUCTIONS = ("none", *_REDUCTIONS)


@dataclass(frozen=True)
class ScatterElements(Op):
    """A copy of the data with one element written per update: the index replaces the coordinate along `axis`.

    `reduction` combines the update with what is there (add, mul, max, min); with "none" the last update in
    row-major order stays where two hit one place, which ONNX leaves undefined.
    """

    axis: int = 0
    reduction: str = "none"

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
        return (_checked(self.name, self.reduction, data, updates),)

    def compute(self, data: Array, indices: Array, updates: Array) -> Arrays:
        places = element_places(self.name, self.axis, data, indices)
        return (_written(self.reduction, data, places, updates),)

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
    if reduction != "none" and (data.dtype == BOOL or data.dtype.kind in "OV"):
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
