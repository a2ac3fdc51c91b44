"""Operators that keep the elements and change the shape: Reshape, Flatten, Squeeze, Unsqueeze, Expand, Identity."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ShapeError
from cenote.core.formulas.certain import is_broadcast
from cenote.core.target import Target
from cenote.core.types import Array, TensorType
from cenote.kernels.base import present
from cenote.ops.base import Arrays, Imported, Lowering, Op, Rewired, Sample, Types
from cenote.ops.checks import (
    as_ints,
    broadcast_shapes,
    int64s,
    known_ints,
    normalize_axis,
    read,
    unique_axes,
)
from cenote.ops.movement.transpose import strided_lowerings
from cenote.ops.values import seeded


def _decode_squeeze(node: Imported) -> Op | Rewired:
    """Axes are an attribute before opset 13, an optional input after."""
    node.expect(*(() if node.opset >= 13 else ("axes",)))
    axes = node.get("axes")
    return Squeeze() if axes is None else Rewired(Squeeze(), (0, int64s(as_ints("squeeze", "axes", axes))))


def _decode_unsqueeze(node: Imported) -> Op | Rewired:
    """Axes are an attribute before opset 13, an input after."""
    node.expect(*(() if node.opset >= 13 else ("axes",)))
    if node.opset >= 13:
        return Unsqueeze()
    return Rewired(Unsqueeze(), (0, int64s(as_ints("unsqueeze", "axes", node.get("axes")))))


class _View(Op):
    """Base: the data's elements in another shape."""

    view = True

    def compute(self, data: Array, *rest: Array | None) -> Arrays:
        return (data.reshape(self.declared(data, *rest)[0].shape),)


@dataclass(frozen=True)
class Reshape(_View):
    """The same elements in another shape. An extent of -1 takes what is left, 0 copies the input's extent
    at that place (with `allow_zero`: means 0).
    """

    allow_zero: bool = False

    name = "reshape"
    operands = ("data", "shape")
    from_onnx = {"Reshape": lambda node: read(Reshape, node, allow_zero="allowzero")}

    def resolved(self, shape: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...]:
        """The output's shape without -1 and copied extents."""
        shown = f"reshape: {list(shape)} to {list(wanted)}"
        if any(extent < -1 for extent in wanted) or wanted.count(-1) > 1:
            raise ShapeError(f"{shown}: extents must be positive, with at most one -1")
        if self.allow_zero and 0 in wanted and -1 in wanted:
            raise ShapeError(f"{shown}: -1 beside 0 is ambiguous with allowzero")
        extents = list(wanted)
        for axis, extent in enumerate(wanted):
            if extent == 0 and not self.allow_zero:
                if axis >= len(shape):
                    raise ShapeError(
                        f"{shown}: 0 at place {axis} copies an axis that the input does not have"
                    )
                extents[axis] = shape[axis]
        if -1 in extents:
            rest = math.prod(extent for extent in extents if extent != -1)
            if rest == 0:
                raise ShapeError(f"{shown}: -1 beside an extent of 0 is ambiguous; give all extents")
            extents[extents.index(-1)] = math.prod(shape) // rest
        if math.prod(extents) != math.prod(shape):
            raise ShapeError(f"{shown}: {math.prod(shape)} elements do not fit; change the shape")
        return tuple(extents)

    def types(self, data: TensorType, shape: TensorType) -> Types:
        return (TensorType(data.dtype, self.resolved(data.shape, known_ints("reshape", shape, 1, "shape"))),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for shape, wanted in [
            ((2, 3, 4), (4, 6)),
            ((2, 3, 4), (0, -1)),
            ((2, 3, 4), (0, 0, 2, -1)),
            ((6,), (1, 2, 3, 1)),
            ((1,), ()),
            ((), (1, 1)),
            ((0, 3), (0, 3)),
            ((2, 0, 3), (-1, 3)),
        ]:
            yield Sample(Reshape(), (seeded(shape), int64s(wanted)))
        yield Sample(Reshape(allow_zero=True), (seeded((3, 0, 4)), int64s((0, 7))), "allowzero")
        yield Sample(Reshape(), (seeded((2, 3), dtype=np.int8), int64s((-1,))), "int8")


@dataclass(frozen=True)
class AxesFrom(_View):
    """The first input with axes of 1 behind its own, so that in broadcasting they meet those of the second input from
    `axis` on: what opset 6 of ONNX did where a node said so.
    """

    axis: int

    name = "axes_from"
    operands = ("data", "like")

    def types(self, data: TensorType, like: TensorType) -> Types:
        behind = max(0, like.rank - normalize_axis(self.name, self.axis, like.rank + 1) - data.rank)
        shape = (*data.shape, *(1,) * behind)
        return (TensorType(data.dtype, shape, None if data.value is None else data.value.reshape(shape)),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(cls(1), (seeded((3,)), seeded((2, 3, 4, 5))))
        yield Sample(cls(0), (seeded((2, 3)), seeded((2, 3, 4))))


@dataclass(frozen=True)
class Flatten(_View):
    """A matrix: the axes before `axis` (-rank to rank) are its rows, the rest its columns."""

    axis: int = 1

    name = "flatten"
    operands = ("data",)
    from_onnx = {"Flatten": lambda node: read(Flatten, node, "axis")}

    def types(self, data: TensorType) -> Types:
        if not -data.rank <= self.axis <= data.rank:
            raise ShapeError(
                f"flatten: axis {self.axis} is out of range for {data} (allowed: {-data.rank} to {data.rank})"
            )
        axis = self.axis + data.rank if self.axis < 0 else self.axis
        return (TensorType(data.dtype, (math.prod(data.shape[:axis]), math.prod(data.shape[axis:]))),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for axis in (0, 1, 3, 4, -1, -4):
            yield Sample(Flatten(axis), (seeded((2, 3, 1, 5)),))
        yield Sample(Flatten(), (seeded((0, 3, 4)),))
        yield Sample(Flatten(0), (seeded(()),))
        yield Sample(Flatten(), (seeded((5,)),))


@dataclass(frozen=True)
class Squeeze(_View):
    """Removes axes of extent 1: those listed, or all without a list."""

    name = "squeeze"
    operands = ("data", "axes?")
    from_onnx = {"Squeeze": _decode_squeeze}

    def types(self, data: TensorType, axes: TensorType | None) -> Types:
        if axes is None:
            return (TensorType(data.dtype, tuple(extent for extent in data.shape if extent != 1)),)
        removed = {
            normalize_axis("squeeze", axis, data.rank) for axis in known_ints("squeeze", axes, 1, "axes")
        }
        for axis in removed:
            if data.shape[axis] != 1:
                raise ShapeError(
                    f"squeeze: axis {axis} of {data} has extent {data.shape[axis]}; only 1 can be removed"
                )
        return (TensorType(data.dtype, tuple(e for axis, e in enumerate(data.shape) if axis not in removed)),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(Squeeze(), (seeded((1, 3, 1, 5)), None))
        yield Sample(Squeeze(), (seeded((1, 3, 1, 5)), int64s((-2,))))
        yield Sample(Squeeze(), (seeded((1, 3, 1, 5)), int64s((0, 2))))
        yield Sample(Squeeze(), (seeded((1, 1)),), "to a scalar")
        yield Sample(Squeeze(), (seeded((1, 0, 3)), int64s((0,))))
        yield Sample(Squeeze(), (seeded((1, 2)), int64s(())), "no axes")


@dataclass(frozen=True)
class Unsqueeze(_View):
    """Inserts axes of extent 1 at the listed places of the output (any order, none twice)."""

    name = "unsqueeze"
    operands = ("data", "axes")
    from_onnx = {"Unsqueeze": _decode_unsqueeze}

    def types(self, data: TensorType, axes: TensorType) -> Types:
        places = known_ints("unsqueeze", axes, 1, "axes")
        rank = data.rank + len(places)
        inserted = set(unique_axes("unsqueeze", places, rank))
        extents = iter(data.shape)
        return (
            TensorType(data.dtype, tuple(1 if axis in inserted else next(extents) for axis in range(rank))),
        )

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for shape, axes in [
            ((3, 4), (0,)),
            ((3, 4), (-1,)),
            ((3, 4), (4, 0, 2)),
            ((), (0, 1)),
            ((0,), (-2,)),
            ((2,), ()),
        ]:
            yield Sample(Unsqueeze(), (seeded(shape), int64s(axes)))


@dataclass(frozen=True)
class Expand(Op):
    """Repeats axes of extent 1 by broadcasting the data against a shape, both ways: the shape may hold ones too."""

    name = "expand"
    unmoved = True
    operands = ("data", "shape")
    from_onnx = {"Expand": lambda node: read(Expand, node)}

    def types(self, data: TensorType, shape: TensorType) -> Types:
        wanted = known_ints("expand", shape, 1, "shape")
        if any(extent < 0 for extent in wanted):
            raise ShapeError(f"expand: shape {list(wanted)} has a negative extent")
        return (TensorType(data.dtype, broadcast_shapes("expand", data.shape, wanted)),)

    def compute(self, data: Array, shape: Array) -> Arrays:
        return (np.broadcast_to(data, self.declared(data, shape)[0].shape).copy(),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        data = present(inputs[0])
        (output,) = self.infer(*inputs)
        missing = [0] * (output.rank - data.rank)

        def walk(strides: tuple[int, ...]) -> tuple[int, list[int]]:
            axes = zip(data.shape, output.shape[len(missing) :], strides, strict=True)
            moves = [0 if is_broadcast(extent, wanted) else stride for extent, wanted, stride in axes]
            return 0, [*missing, *moves]

        yield from strided_lowerings(inputs, output, walk, target)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for shape, wanted in [
            ((3, 1), (2, 1, 6)),
            ((3, 1), (3, 4)),
            ((), (2, 2)),
            ((1,), (0,)),
            ((2, 3), ()),
            ((5,), (1,)),
        ]:
            yield Sample(Expand(), (seeded(shape), int64s(wanted)))


@dataclass(frozen=True)
class Identity(Op):
    """The input, unchanged."""

    name = "identity"
    view = True
    operands = ("data",)
    from_onnx = {"Identity": lambda node: read(Identity, node)}

    def types(self, data: TensorType) -> Types:
        return (data,)

    def compute(self, data: Array) -> Arrays:
        return (data.copy(),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(Identity(), (seeded((2, 3)),))
        yield Sample(Identity(), (seeded((), dtype=np.int64),))
        yield Sample(Identity(), (seeded((0, 4), dtype=np.bool_),))
