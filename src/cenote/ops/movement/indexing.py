"""Elements and slices read at places given by index: Gather, GatherElements, GatherND."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.sizes import is_size
from cenote.core.target import Target
from cenote.core.types import Array, TensorType
from cenote.kernels.base import present
from cenote.kernels.selection.gather import Rows
from cenote.kernels.selection.indices import IndexRule
from cenote.ops.base import Arrays, Lowering, Op, Sample, Types
from cenote.ops.checks import (
    int64s,
    normalize_axis,
    read,
    require_index,
)
from cenote.ops.movement.index_lowerings import (
    gather_elements_lowerings,
    gather_lowerings,
    places_of,
    rule_of,
)
from cenote.ops.values import seeded


@dataclass(frozen=True)
class Gather(Op):
    """Slices of the data along one axis, as `numpy.take`: the axis is replaced by the axes of the indices.

    Negative indices count from the end unless `negative` is False. `invalid` says what an index outside of the axis
    does: "raise" (InputError when it runs, naming the first), "clip" (to the nearest end; negative ones too), "wrap"
    (modulo the extent), "zero" (zeros in its place).
    """

    axis: int = 0
    invalid: str = "raise"
    negative: bool = True

    name = "gather"
    selects = True
    operands = ("data", "indices")
    from_onnx = {"Gather": lambda node: read(Gather, node, "axis")}

    def types(self, data: TensorType, indices: TensorType) -> Types:
        axis = normalize_axis("gather", self.axis, data.rank)
        require_index("gather", indices)
        rule_of("gather", self.invalid, self.negative)
        return (TensorType(data.dtype, (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])),)

    def compute(self, data: Array, indices: Array) -> Arrays:
        rule = rule_of("gather", self.invalid, self.negative)
        axis, (picked, valid) = (
            self.axis % data.ndim,
            places_of(self.name, indices, data.shape[self.axis], rule),
        )
        if not data.shape[axis]:  # nothing to take: indices that there are have raised an error
            return (np.zeros((*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :]), data.dtype),)
        y = np.asarray(np.take(data, picked, axis))
        if not valid.all():
            y[(slice(None),) * axis + (~valid,)] = 0
        return (y,)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        data, indices = (present(kind) for kind in inputs)
        axis, (y,) = normalize_axis(self.name, self.axis, data.rank), self.infer(data, indices)
        rows = Rows(
            prod(data.shape[:axis]), (data.shape[axis],), prod(data.shape[axis + 1 :]), indices.size, 0
        )
        rule = rule_of(self.name, self.invalid, self.negative)
        yield from gather_lowerings(self.name, data, indices, y, rows, rule)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(Gather(), (seeded((5, 4)), int64s((0, 4, -5, -1, 2))))
        yield Sample(Gather(1), (seeded((5, 4, 3)), np.array([[0, -1], [3, 1]], np.int32)))
        yield Sample(Gather(-1), (seeded((5, 4)), np.array(2, np.int64)), "scalar index")
        yield Sample(Gather(), (seeded((3,), dtype=np.int64), np.array(-1, np.int64)), "element")
        yield Sample(Gather(), (seeded((3, 2)), np.zeros((0,), np.int64)), "no indices")
        yield Sample(Gather(1), (seeded((0, 2)), int64s((1, 1))), "empty data")
        for dtype in (np.int8, np.float16, np.float64):
            yield Sample(Gather(1), (seeded((2, 5, 67), dtype=dtype), np.array([[3, -1], [0, 0]], np.int32)))
        outside = np.array([[7, -8, -1], [2, 5, -6]], np.int64)
        for mode in ("clip", "wrap", "zero"):
            yield Sample(Gather(1, mode, negative=mode == "zero"), (seeded((2, 5, 19)), outside), mode)
            yield Sample(Gather(0, mode, False), (seeded((5,), dtype=np.int16), outside), f"{mode}, elements")


@dataclass(frozen=True)
class GatherElements(Op):
    """One element per index: the index replaces the coordinate along the axis, the others are its own place.

    `invalid` and `negative` as in Gather.
    """

    axis: int = 0
    invalid: str = "raise"
    negative: bool = True

    name = "gather_elements"
    selects = True
    operands = ("data", "indices")
    from_onnx = {"GatherElements": lambda node: read(GatherElements, node, "axis")}

    def types(self, data: TensorType, indices: TensorType) -> Types:
        axis = normalize_axis(self.name, self.axis, data.rank)
        check_element_indices(self.name, axis, data, require_index(self.name, indices))
        rule_of(self.name, self.invalid, self.negative)
        return (TensorType(data.dtype, indices.shape),)

    def compute(self, data: Array, indices: Array) -> Arrays:
        rule = rule_of(self.name, self.invalid, self.negative)
        places, valid = element_places(self.name, self.axis, data, indices, rule)
        if not data.size:
            return (np.zeros(indices.shape, data.dtype),)
        return (np.where(valid, data[places], np.zeros((), data.dtype)),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        data, indices = (present(kind) for kind in inputs)
        axis, rule = self.axis % max(data.rank, 1), rule_of(self.name, self.invalid, self.negative)
        yield from gather_elements_lowerings(self.name, data, indices, axis, rule)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(GatherElements(), (seeded((3, 3)), np.array([[1, 2, 0], [-1, 0, 0]], np.int64)))
        yield Sample(GatherElements(1), (seeded((2, 5)), np.array([[0, -5, 4]], np.int32)), "fewer rows")
        yield Sample(GatherElements(-1), (seeded((4,)), int64s((3, 3, 3, 0, 1))), "more than the axis")
        yield Sample(GatherElements(), (seeded((3, 2)), np.zeros((0, 2), np.int64)), "no indices")
        outside = np.array([[[7], [-8]], [[2], [-1]]], np.int64)
        for mode in ("clip", "wrap", "zero"):
            yield Sample(GatherElements(1, mode, mode == "zero"), (seeded((2, 5, 1)), outside), mode)
        columns = np.array([[[1, 0, 1]], [[0, -1, -2]]], np.int64)
        yield Sample(GatherElements(1), (seeded((3, 2, 4), dtype=np.int8), columns), "middle axis")


@dataclass(frozen=True)
class GatherND(Op):
    """Slices of the data whose leading coordinates are the rows of the indices, after `batch_axes` shared axes."""

    batch_axes: int = 0

    name = "gather_nd"
    selects = True
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

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        data, indices = (present(kind) for kind in inputs)
        (y,), shared, depth = self.infer(data, indices), self.batch_axes, indices.shape[-1]
        if is_size(depth):
            return
        count, inner = prod(indices.shape[shared:-1]), prod(data.shape[shared + depth :])
        extents = data.shape[shared : shared + depth]
        rows = Rows(prod(data.shape[:shared]), extents, inner, count, count * depth)
        yield from gather_lowerings(self.name, data, indices, y, rows, IndexRule())

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


def element_places(
    op: str, axis: int, data: Array, indices: Array, rule: IndexRule
) -> tuple[tuple[Array, ...], Array]:
    """The coordinates each index of an elements operator means, one array per axis, and which there are."""
    places: list[Array] = list(np.indices(indices.shape, sparse=True))
    places[axis], valid = places_of(op, indices, data.shape[axis], rule)
    return tuple(places), valid


def tuple_places(op: str, extents: tuple[int, ...], indices: Array) -> tuple[Array, ...]:
    """The last axis of the indices as one array of coordinates per leading axis of the data."""
    if indices.shape[-1] > len(extents):
        raise ArgumentError(f"{op}: {indices.shape[-1]} coordinates for {len(extents)} axes")

    def where(axis: int) -> Callable[[int], object]:
        shape = indices.shape[:-1]
        return lambda number: [*(int(i) for i in np.unravel_index(number, shape)), axis]

    rule = IndexRule()
    return tuple(
        places_of(op, indices[..., axis], extent, rule, where(axis))[0] for axis, extent in enumerate(extents)
    )
