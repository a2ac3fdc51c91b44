"""Parts of tensors along axes: Concat joins them, Split and Slice take them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.formulas.certain import always_equal
from cenote.core.sizes import maximum, minimum
from cenote.core.target import Target
from cenote.core.types import PLAIN, Array, Layout, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.cost_model import LAUNCH, pass_seconds
from cenote.kernels.layout.copy import box_of, can_copy, copy_call
from cenote.ops.base import Alias, Arrays, Box, Imported, Lowering, Op, Rewired, Sample, Types
from cenote.ops.checks import (
    as_ints,
    int64s,
    known_ints,
    normalize_axis,
    read,
    require_same_dtype,
    unique_axes,
)
from cenote.ops.elementwise.pointwise import block_lanes
from cenote.ops.movement.transpose import strided_lowerings
from cenote.ops.values import hostile, seeded


@dataclass(frozen=True)
class Concat(Op):
    """One or more tensors of one type one after another along `axis`; their other axes are equal."""

    name = "concat"
    unmoved = True
    operands = ("x*",)
    from_onnx = {"Concat": lambda node: read(Concat, node, "axis")}
    axis: int

    def types(self, *types: TensorType) -> Types:
        dtype, rank = require_same_dtype(self.name, *types), types[0].rank
        axis = normalize_axis(self.name, self.axis, rank)
        others = [(*x.shape[:axis], *x.shape[axis + 1 :]) for x in types]
        if any(x.rank != rank for x in types) or any(other != others[0] for other in others):
            shown = ", ".join(str(list(x.shape)) for x in types)
            raise ShapeError(f"{self.name}: shapes {shown} differ in more than axis {axis}")
        first = types[0].shape
        return (TensorType(dtype, (*first[:axis], sum(x.shape[axis] for x in types), *first[axis + 1 :])),)

    def compute(self, *inputs: Array) -> Arrays:
        return (np.concatenate(inputs, axis=self.axis),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        (output,) = self.infer(*inputs)
        types: list[TensorType] = self.arranged(inputs)
        if not can_copy(output.dtype):
            return
        seconds = pass_seconds(2 * output.nbytes) + LAUNCH * (len(types) - 1)
        axis = normalize_axis(self.name, self.axis, output.rank)

        def bind(views: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
            calls: list[Call] = []
            begins = [0] * output.rank
            for x in map(present, views):
                call = copy_call(x, box_of(outputs[0], begins, x.shape), target)
                calls.append(replace(call, independent=bool(calls)))
                begins[axis] += x.shape[axis]
            return calls

        yield Lowering("copies", (PLAIN,) * len(types), (PLAIN,), bind, seconds)
        lanes = block_lanes(output.dtype, target)
        if 3 <= output.rank <= 5 and lanes and (axis != 1 or _are_blocks(types[:-1], lanes)):
            blocked = Layout(lanes)
            yield Lowering("copies_blocked", (blocked,) * len(types), (blocked,), bind, seconds)

    def aliases(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        types: list[TensorType] = self.arranged(inputs)
        first, rank = types[0], types[0].rank
        if any(not x.size for x in types):
            return
        axis, lanes = self.axis % rank, target.lanes()
        aligned = axis == 1 and _are_blocks(types[:-1], lanes)
        if aligned and rank in (3, 4, 5) and _shares_blocks(first.dtype, target):
            yield Lowering.shared(Alias.JOINED, (Layout(lanes),) * len(types), (Layout(lanes),))
        if always_equal(math.prod(first.shape[:axis]), 1):
            yield Lowering.shared(Alias.JOINED, (PLAIN,) * len(types), (PLAIN,))

    def operations(self, outputs: Types, *inputs: TensorType) -> int:
        return 0

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        boxes, begin = [], 0
        for x in self.arranged(inputs):
            axis = normalize_axis(self.name, self.axis, x.rank)
            extent, ranges = x.shape[axis], list(box.ranges)
            low, high = (min(max(edge - begin, 0), extent) for edge in ranges[axis])
            ranges[axis] = (low, high)
            boxes.append(Box(tuple(ranges)))
            begin += extent
        return tuple(boxes)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for channels in ((8, 16), (11, 5), (16, 3, 8), (7,), (0, 9, 8), (8, 8, 8, 8)):
            yield Sample(cls(1), tuple(seeded((2, c, 3, 5), i) for i, c in enumerate(channels)))
        yield Sample(cls(0), (seeded((2, 3)), seeded((5, 3))))
        yield Sample(cls(-1), (seeded((2, 9, 3)), seeded((2, 9, 1)), seeded((2, 9, 40))))
        yield Sample(cls(2), (seeded((1, 9, 2, 5)), seeded((1, 9, 7, 5))))
        yield Sample(cls(1), (hostile((2, 8, 5)), hostile((2, 4, 5))), "concat special")
        for dtype in (np.float64, np.float16, np.int64, np.uint8, np.bool_, "bfloat16"):
            yield Sample(
                cls(1), (seeded((2, 9, 3), 1, np.dtype(dtype)), seeded((2, 2, 3), 2, np.dtype(dtype)))
            )


def _are_blocks(parts: Sequence[TensorType], lanes: int) -> bool:
    """Whether the channels of these fill blocks. An open extent in their place is not asked."""
    return all(always_equal(part.shape[1] % lanes, 0) for part in parts)


def _shares_blocks(dtype: np.dtype[Any], target: Target) -> bool:
    """Whether elements lie in blocks of as many channels as float32's: parts may lie in a map of such blocks."""
    return dtype.itemsize == 4 or block_lanes(dtype, target) == target.lanes()


def _decode_split(node: Imported) -> Op | Rewired:
    """Sizes are an attribute before opset 13, an input after; `num_outputs` came with opset 18."""
    if node.opset < 13:
        node.expect("axis", "split")
    else:
        node.expect("axis", *(("num_outputs",) if node.opset >= 18 else ()))
    listed = node.listed or node.outputs
    wanted = int(node.get("num_outputs", listed))
    if wanted != listed:
        raise ArgumentError(f"split: num_outputs is {wanted}, but the node has {listed} outputs")
    uneven = node.opset >= 18 and "num_outputs" in node.attributes
    op = Split(count=wanted, axis=int(node.get("axis", 0)), uneven=uneven)
    sizes = node.get("split")
    return op if sizes is None else Rewired(op, (0, int64s(as_ints("split", "split", sizes))))


@dataclass(frozen=True)
class Split(Op):
    """`count` consecutive parts along an axis: of the given sizes, or of equal size without them.

    With `uneven` equal parts are rounded up and the last one is smaller where the axis does not divide (ONNX's
    num_outputs); otherwise that is a ShapeError.
    """

    count: int
    axis: int = 0
    uneven: bool = False

    name = "split"
    unmoved = True
    selects = True
    operands = ("data", "sizes?")
    from_onnx = {"Split": _decode_split}

    def sizes(self, extent: int, given: TensorType | None) -> tuple[int, ...]:
        """Extents of the parts."""
        if given is not None:
            sizes = known_ints("split", given, 1, "split")
            if len(sizes) != self.count or min(sizes, default=0) < 0 or sum(sizes) != extent:
                raise ShapeError(
                    f"split: sizes {list(sizes)} are not {self.count} parts of an axis of {extent}"
                )
            return sizes
        part = -(-extent // self.count)
        if part * self.count != extent and not self.uneven:
            raise ShapeError(f"split: an axis of {extent} is not {self.count} equal parts; give the sizes")
        if part * (self.count - 1) > extent:
            raise ShapeError(
                f"split: an axis of {extent} is too short for {self.count} parts; give the sizes"
            )
        return (part,) * (self.count - 1) + (extent - part * (self.count - 1),)

    def aliases(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x, parts = present(inputs[0]), self.infer(*inputs)
        if not x.size:
            return
        axis, absent, lanes = self.axis % x.rank, (None,) * (len(inputs) - 1), target.lanes()
        aligned = axis == 1 and _are_blocks(parts[:-1], lanes)
        if aligned and x.rank in (3, 4, 5) and _shares_blocks(x.dtype, target):
            yield Lowering.shared(Alias.PARTS, (Layout(lanes), *absent), (Layout(lanes),) * len(parts))
        if always_equal(math.prod(x.shape[:axis]), 1):
            yield Lowering.shared(Alias.PARTS, (PLAIN, *absent), (PLAIN,) * len(parts))

    def types(self, data: TensorType, sizes: TensorType | None) -> Types:
        axis = normalize_axis("split", self.axis, data.rank)
        parts = self.sizes(data.shape[axis], sizes)
        return tuple(TensorType(data.dtype, (*data.shape[:axis], n, *data.shape[axis + 1 :])) for n in parts)

    def compute(self, data: Array, sizes: Array | None) -> Arrays:
        parts = self.sizes(data.shape[self.axis], None if sizes is None else TensorType.known(sizes))
        return tuple(part.copy() for part in np.split(data, np.cumsum(parts)[:-1], self.axis))

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x, parts = present(inputs[0]), self.infer(*inputs)
        if not can_copy(x.dtype):
            return
        axis = normalize_axis("split", self.axis, x.rank)

        def bind(views: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
            calls: list[Call] = []
            begins = [0] * x.rank
            for y in outputs:
                call = copy_call(box_of(present(views[0]), begins, y.shape), y, target)
                calls.append(replace(call, independent=bool(calls)))
                begins[axis] += y.shape[axis]
            return calls

        seconds = pass_seconds(2 * x.nbytes) + LAUNCH * (len(parts) - 1)
        absent = (None,) * (len(inputs) - 1)
        yield Lowering("copies", (PLAIN, *absent), (PLAIN,) * len(parts), bind, seconds)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(Split(3), (seeded((6, 2)), None))
        yield Sample(Split(2, axis=-1), (seeded((2, 3, 7)), int64s((3, 4))))
        yield Sample(Split(3, axis=1, uneven=True), (seeded((2, 8)),), "last part smaller")
        yield Sample(Split(1, axis=1), (seeded((2, 8)),))
        yield Sample(Split(3), (seeded((4,), dtype=np.int64), int64s((0, 4, 0))), "empty parts")
        yield Sample(Split(2), (seeded((0, 3)), int64s((0, 0))))
        for dtype in (np.float16, np.uint8, np.float64):
            yield Sample(Split(2, axis=1), (seeded((3, 8, 5), 1, dtype), int64s((3, 5))))


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
    selects = True
    operands = ("data", "starts", "ends", "axes?", "steps?")
    from_onnx = {"Slice": _decode_slice}

    def ranges(
        self,
        data: TensorType,
        starts: TensorType,
        ends: TensorType,
        axes: TensorType | None = None,
        steps: TensorType | None = None,
    ) -> tuple[Taken, ...]:
        """The indices taken, per axis of the data."""
        first, last = known_ints("slice", starts, 1, "starts"), known_ints("slice", ends, 2, "ends")
        places = tuple(range(len(first))) if axes is None else known_ints("slice", axes, 3, "axes")
        strides = (1,) * len(first) if steps is None else known_ints("slice", steps, 4, "steps")
        if not len(first) == len(last) == len(places) == len(strides):
            counts = f"{len(first)}, {len(last)}, {len(places)}, {len(strides)}"
            raise ShapeError(f"slice: starts, ends, axes and steps differ in length ({counts})")
        if 0 in strides:
            raise ArgumentError("slice: a step of 0 never ends; steps are positive or negative")
        taken = [Taken(0, extent, 1) for extent in data.shape]
        for axis, start, end, step in zip(
            unique_axes("slice", places, data.rank), first, last, strides, strict=True
        ):
            taken[axis] = _clamped(start, end, step, data.shape[axis])
        return tuple(taken)

    def forwarded(self, inputs: Sequence[TensorType | None]) -> int | None:
        data, starts, ends, *others = inputs
        if present(starts).value is None or present(starts).value.any():  # type: ignore[union-attr]
            return None
        taken = self.ranges(present(data), present(starts), present(ends), *others)
        everything = all(r.is_all(extent) for r, extent in zip(taken, present(data).shape, strict=True))
        return 0 if everything else None

    def types(
        self,
        data: TensorType,
        starts: TensorType,
        ends: TensorType,
        axes: TensorType | None,
        steps: TensorType | None,
    ) -> Types:
        taken = self.ranges(data, starts, ends, axes, steps)
        return (TensorType(data.dtype, tuple(indices.length for indices in taken)),)

    def compute(self, data: Array, *bounds: Array | None) -> Arrays:
        starts, ends, axes, steps = (None if x is None else TensorType.known(x) for x in bounds)
        taken = self.ranges(TensorType.known(data), present(starts), present(ends), axes, steps)
        places = tuple(
            slice(r.start, r.stop if r.stop >= 0 else None, r.step) if r.length else slice(0) for r in taken
        )
        return (data[places].copy(),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        given: list[TensorType] = self.arranged(inputs)
        taken = self.ranges(*given)
        (output,) = self.infer(*inputs)

        def walk(strides: tuple[int, ...]) -> tuple[int, list[int]]:
            start = sum(r.start * stride for r, stride in zip(taken, strides, strict=True))
            return start, [r.step * stride for r, stride in zip(taken, strides, strict=True)]

        yield from strided_lowerings(inputs, output, walk, target)

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
        for step in (2, 3, 4, 5, -2):
            bounds = (int64s((1,)), int64s((big,))) if step > 0 else (int64s((-1,)), int64s((-big,)))
            for axis, dtype in ((2, np.float32), (2, np.uint8), (2, np.float16), (1, np.int64)):
                x = seeded((2, 9, 150), 1, dtype)
                yield Sample(Slice(), (x, *bounds, int64s((axis,)), int64s((step,))), f"every {step}")


class Taken(NamedTuple):
    """Indices as those of a range."""

    start: int
    stop: int
    step: int

    @property
    def length(self) -> int:
        """Number of elements."""
        distance = self.stop - self.start if self.step > 0 else self.start - self.stop
        return maximum(0, -(-distance // abs(self.step)))

    def is_all(self, extent: int) -> bool:
        """Whether these are the indices of a whole axis, at all sizes."""
        return self.step == 1 and always_equal(self.start, 0) and always_equal(self.stop, extent)


def _clamped(start: int, end: int, step: int, extent: int) -> Taken:
    """ONNX's rule for bounds outside an axis."""
    start, end = (bound + extent if bound < 0 else bound for bound in (start, end))
    if step > 0:
        return Taken(minimum(maximum(start, 0), extent), minimum(maximum(end, 0), extent), step)
    if extent == 0:
        return Taken(0, 0, 1)
    return Taken(minimum(maximum(start, 0), extent - 1), minimum(maximum(end, -1), extent - 1), step)
