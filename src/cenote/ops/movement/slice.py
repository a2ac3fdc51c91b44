"""Slice: every step-th element between a start and an end, per axis."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.types import Array, TensorType
from cenote.kernels.base import present
from cenote.ops.base import Arrays, Imported, Op, Rewired, Sample, Types
from cenote.ops.checks import as_ints, int64s, known_ints, unique_axes
from cenote.ops.values import seeded


def _decode_slice(node: Imported) -> Op | Rewired:
    """Starts, ends and axes are attributes before opset 10, inputs (with steps) after."""
    if node.opset >= 10:
        node.expect()
        return Slice()
    node.expect("axes", "ends", "starts")
    starts, ends = (int64s(as_ints("slice", key, node.get(key))) for key in ("starts", "ends"))
    axes = node.get("axes")
    return Rewired(
        Slice(), (0, starts, ends, None if axes is None else int64s(as_ints("slice", "axes", axes)))
    )


@dataclass(frozen=True)
class Slice(Op):
    """Along each listed axis the elements start, start + step, ... before `ends`; all axes without a list.

    Negative starts and ends count from the axis's end; those outside are moved to the nearest place inside.
    With a negative step a start before the axis means its first element (ONNX); NumPy would give nothing.
    """

    name = "slice"
    operands = ("data", "starts", "ends", "axes?", "steps?")
    from_onnx = {"Slice": _decode_slice}

    def ranges(
        self,
        data: TensorType,
        starts: TensorType,
        ends: TensorType,
        axes: TensorType | None = None,
        steps: TensorType | None = None,
    ) -> tuple[range, ...]:
        """The indices taken, per axis of the data."""
        first, last = known_ints("slice", starts, 1, "starts"), known_ints("slice", ends, 2, "ends")
        places = tuple(range(len(first))) if axes is None else known_ints("slice", axes, 3, "axes")
        strides = (1,) * len(first) if steps is None else known_ints("slice", steps, 4, "steps")
        if not len(first) == len(last) == len(places) == len(strides):
            counts = f"{len(first)}, {len(last)}, {len(places)}, {len(strides)}"
            raise ShapeError(f"slice: starts, ends, axes and steps differ in length ({counts})")
        if 0 in strides:
            raise ArgumentError("slice: a step of 0 never ends; steps are positive or negative")
        taken = [range(extent) for extent in data.shape]
        for axis, start, end, step in zip(
            unique_axes("slice", places, data.rank), first, last, strides, strict=True
        ):
            taken[axis] = _clamped(start, end, step, data.shape[axis])
        return tuple(taken)

    def types(
        self,
        data: TensorType,
        starts: TensorType,
        ends: TensorType,
        axes: TensorType | None,
        steps: TensorType | None,
    ) -> Types:
        taken = self.ranges(data, starts, ends, axes, steps)
        return (TensorType(data.dtype, tuple(len(indices) for indices in taken)),)

    def compute(self, data: Array, *bounds: Array | None) -> Arrays:
        starts, ends, axes, steps = (None if x is None else TensorType.known(x) for x in bounds)
        taken = self.ranges(TensorType.known(data), present(starts), present(ends), axes, steps)
        places = tuple(
            slice(r.start, r.stop if r.stop >= 0 else None, r.step) if r else slice(0) for r in taken
        )
        return (data[places].copy(),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        big = np.iinfo(np.int64).max
        x = seeded((5, 6, 7))
        yield Sample(Slice(), (x, int64s((1, 2)), int64s((4, 6))), "leading axes")
        yield Sample(Slice(), (x, int64s((0, -3)), int64s((big, -1)), int64s((0, -1)), int64s((2, 1))))
        yield Sample(Slice(), (x, int64s((-1,)), int64s((-big,)), int64s((1,)), int64s((-1,))), "reversed")
        yield Sample(Slice(), (x, int64s((20,)), int64s((0,)), int64s((2,)), int64s((-2,))), "clamped")
        yield Sample(
            Slice(), (x, int64s((-20,)), int64s((-big,)), int64s((0,)), int64s((-1,))), "before the axis"
        )
        yield Sample(Slice(), (x, int64s((3,)), int64s((3,)), int64s((1,))), "nothing")
        empty = (seeded((0, 3)), int64s((0, -1)), int64s((5, -9)), int64s((0, 1)), int64s((-1, -1)))
        yield Sample(Slice(), empty, "empty axis")
        yield Sample(Slice(), (seeded(()), int64s(()), int64s(())), "scalar")


def _clamped(start: int, end: int, step: int, extent: int) -> range:
    """ONNX's rule for bounds outside an axis."""
    start, end = (bound + extent if bound < 0 else bound for bound in (start, end))
    if step > 0:
        return range(min(max(start, 0), extent), min(max(end, 0), extent), step)
    if extent == 0:
        return range(0)
    return range(min(max(start, 0), extent - 1), min(max(end, -1), extent - 1), step)
