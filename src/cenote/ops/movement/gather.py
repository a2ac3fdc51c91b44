"""Gather, GatherElements, GatherND: elements picked by index."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.types import Array, TensorType
from cenote.ops.base import Arrays, Op, Sample, Types
from cenote.ops.checks import checked_indices, int64s, normalize_axis, read, require_index
from cenote.ops.values import seeded


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
