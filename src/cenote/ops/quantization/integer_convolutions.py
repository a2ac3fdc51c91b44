"""Convolutions of bytes whose sums stay whole numbers or become floats, around zero points that a program computes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace

import numpy as np

from cenote.codegen.dots import BYTES
from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import cached_property, dataclass
from cenote.core.target import Target
from cenote.core.types import FLOAT32, PLAIN, Array, Layout, TensorType
from cenote.kernels.base import Call, View, buffer_elements, dense_strides, halo_offset, present
from cenote.kernels.conv.direct_calls import merge_groups
from cenote.kernels.cost_model import BYTES_FASTER, LAUNCH, moved_seconds, peak_seconds
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.elementwise.elementwise import Operand, elementwise_call
from cenote.kernels.elementwise.expression import Expression, Step
from cenote.kernels.layout.reorder import reorder_call, zero_halo_call
from cenote.kernels.quantized.conv import Levels
from cenote.kernels.quantized.conv_calls import FilterRun, QuantizedProblem, filter_runs, quantized_calls
from cenote.kernels.quantized.tile_calls import filter_run, quantized_tile_calls
from cenote.kernels.quantized.tile_cut import ByteTileCut
from cenote.ops.base import Lowering
from cenote.ops.conv.direct import efficiency

INT32 = np.dtype(np.int32)
_EXACT = ("identity", "relu", "clip")


@dataclass(frozen=True)
class IntegerConvolution:
    """A convolution of bytes with constant weights as its kernels see it.

    Numbers of the `inputs`: x is 0; `x_zero`, and for a result of float32 `scales` and `added`, are one number, or one
    per filter, constants or not. `weights` (filters, channels / groups, *window) are what is left of the constants when
    their zero point is taken off, s8. `tiles`: the way of `codegen.tiles`; empty: products are in vectors.
    """

    shape: ConvShape
    inputs: Sequence[TensorType | None]
    target: Target
    weights: Array
    x_zero: int
    scales: int | None = None
    added: int | None = None
    activation: Activation = field(default_factory=Activation)
    tiles: str = ""

    @cached_property
    def merged(self) -> tuple[ConvShape, Array]:
        """Groups joined to whole vectors."""
        rank = self.shape.rank
        deep = self.weights.reshape(*self.weights.shape[:2], *(1,) * (3 - rank), *self.shape.window)
        return merge_groups(self.shape.deep(), deep, self.target.lanes())

    @property
    def unit(self) -> int:
        """Channels of a block of x: few of them (the three of a picture) are kept in fours."""
        lanes, fours = self.target.lanes(), -(-self.shape.channels // BYTES) * BYTES
        return fours if self.shape.groups == 1 and fours <= lanes // 2 else lanes

    @property
    def zero(self) -> int | None:
        """x's zero point; None where a program computes it."""
        kind = self.inputs[self.x_zero]
        if kind is None:
            return 0
        return None if kind.value is None else int(kind.value.item())

    @property
    def in_place(self) -> bool:
        """Whether kernels read x itself: its blocks are theirs, and its halo's zeros are x's zero point."""
        is_zero = self.zero == 0 or not any(map(any, self.shape.pads))
        return self.unit == self.target.lanes() and is_zero

    @property
    def layout(self) -> Layout:
        return Layout(self.unit, self.shape.halo)

    @property
    def runs(self) -> list[FilterRun]:
        """Places of numbers of filters that a program computes."""
        shape, target = self.merged[0], self.target
        return [filter_run(shape)] if self.tiles else filter_runs(shape, target.lanes(), target.registers)

    @property
    def moved(self) -> int:
        """The difference between bytes of the kernel and of x: vectors multiply u8 only."""
        return 128 if present(self.inputs[0]).dtype == np.int8 and not self.tiles else 0

    def temporaries(self) -> dict[str, TensorType]:
        """Memory by what lies in it."""
        x, found = present(self.inputs[0]), dict[str, TensorType]()
        if not self.in_place:
            found["copy"] = TensorType(x.dtype, (buffer_elements(x.shape, self.layout),))
        numbers = self.merged[0].groups * sum(run.step for run in self.runs)
        if self.zero is None:
            found["bias"] = TensorType(INT32, (numbers,))
        for name, place in (("scales", self.scales), ("added", self.added)):
            if place is not None and present(self.inputs[place]).value is None:
                found[name] = TensorType(FLOAT32, (numbers,))
        return found

    def lowering(self, count: int) -> Lowering:
        memory, x, lanes = self.temporaries(), present(self.inputs[0]), self.target.lanes()
        layouts: list[Layout | None] = [None] * len(self.inputs)
        layouts[0] = self.layout if self.in_place else PLAIN
        for place in (self.x_zero, self.scales, self.added):
            kind = None if place is None else self.inputs[place]
            if place is not None and kind is not None and kind.value is None:
                layouts[place] = PLAIN

        def bind(views: Sequence[View | None], made: Sequence[View]) -> Sequence[Call]:
            given = [*views, *[None] * (len(self.inputs) - len(views))]
            return [*self.calls(given, made[0], dict(zip(memory, made[1:], strict=True)))]

        seconds = self.seconds() + LAUNCH * len(memory)
        seconds += moved_seconds(3 * x.nbytes) if "copy" in memory else 0.0
        tolerance = 0.0 if self.activation.kind in _EXACT else 2e-6
        return Lowering(
            "quantized_tiles" if self.tiles else "quantized",
            tuple(layouts[:count]),
            (Layout(lanes),),
            bind,
            seconds,
            tolerance,
            tuple(memory.values()),
        )

    def seconds(self) -> float:
        """The estimate of the sums."""
        merged, lanes, target = self.merged[0], self.target.lanes(), self.target
        if self.tiles:
            return ByteTileCut.of(merged, self.unit, target.l2_bytes).seconds()
        executed = (
            merged.operations
            * _filled(merged.group_filters, lanes)
            * _filled(merged.group_channels, self.unit)
        )
        return peak_seconds(executed, target, efficiency(self.shape, target) * BYTES_FASTER[target.dots])

    def calls(self, views: Sequence[View | None], y: View, memory: dict[str, View]) -> Iterator[Call]:
        x, (shape, weights) = present(views[0]), self.merged
        if "copy" in memory:
            yield from self._copied(x, views[self.x_zero], memory["copy"])
            x = self._blocked(x, memory["copy"])
        sums = weights.sum(axis=(1, 2, 3, 4), dtype=np.int64)
        if "bias" in memory:
            yield from self._offsets(sums, present(views[self.x_zero]), memory["bias"])
        for name, place in (("scales", self.scales), ("added", self.added)):
            if place is not None and name in memory:
                yield from self._spread(present(views[place]), memory[name])
        bias = (-((self.zero or 0) + self.moved) * sums).astype(np.int32)
        scales, added = self._constant(self.scales), self._constant(self.added)
        scales = np.zeros(shape.filters, np.float32) if scales is None else scales
        levels, dots = Levels(0, 0, 0), self.target.dots
        problem = QuantizedProblem(shape, weights, bias, scales, dots, levels, added, self.activation, memory)
        if self.tiles:
            yield from quantized_tile_calls(problem, self.tiles, x, y, self.target)
        else:
            yield from quantized_calls(problem, x, y, self.target)

    def _constant(self, place: int | None) -> Array | None:
        """A constant, one number per filter."""
        if place is None or present(self.inputs[place]).value is None:
            return None
        value = present(present(self.inputs[place]).value).reshape(-1)
        return np.ascontiguousarray(np.broadcast_to(value, (self.shape.filters,)), np.float32)

    def _blocked(self, x: View, memory: View) -> View:
        """The view of x in blocks in other memory."""
        offset = memory.slot.offset + halo_offset(x.type.shape, self.layout) * x.type.dtype.itemsize
        strides = dense_strides(x.type.shape, self.layout)
        return View(x.type, self.layout, strides, replace(memory.slot, offset=offset))

    def _copied(self, x: View, zero: View | None, memory: View) -> Iterator[Call]:
        """Copy x into blocks with its zero point around it."""
        copy = self._blocked(x, memory)
        if self.zero is not None:
            yield zero_halo_call(copy, self.zero & 0xFF)
        elif any(map(any, self.shape.pads)):
            same = Expression(1, (Step("cast", (0,), x.type.dtype),))
            yield elementwise_call(
                same, (), [Operand(present(zero), (0,), is_scalar=True)], memory, self.target
            )
        yield reorder_call(x, copy)

    def _by_run(self, memory: View) -> Iterator[tuple[int, View]]:
        """The first filter of each group, and the memory (groups, filters), of each run of filters."""
        shape = self.merged[0]
        for run in self.runs:
            kind = TensorType(memory.type.dtype, (shape.groups, run.count))
            yield run.first, replace(memory, type=kind, strides=(run.step, 1)).at(run.place)

    def _offsets(self, sums: Array, zero: View, memory: View) -> Iterator[Call]:
        """Compute what x's zero point adds to the sums, taken off."""
        groups = self.merged[0].groups
        centre, product = Step("cast", (1,), INT32), Step("mul", (0, 4), INT32)
        steps = (centre, Step("add", (3, 2), INT32), product, Step("neg", (5,), INT32))
        moved = Operand(np.full(1, self.moved, np.int32), (0, 0), is_scalar=True)
        for first, to in self._by_run(memory):
            count = to.shape[1]
            part = np.ascontiguousarray(sums.reshape(groups, -1)[:, first : first + count], np.int32)
            operands = [Operand(part, (count, 1)), Operand(zero, (0, 0), is_scalar=True), moved]
            yield elementwise_call(Expression(3, steps), (), operands, to, self.target)

    def _spread(self, values: View, memory: View) -> Iterator[Call]:
        """Copy one number, or one per filter, to where kernels read it."""
        shape = self.merged[0]
        same = Expression(1, (Step("cast", (0,), FLOAT32),))
        for first, to in self._by_run(memory):
            single = values.type.size == 1
            operand = Operand(values, (0, 0), is_scalar=True)
            if not single:
                operand = Operand(values.at(first), (shape.group_filters, 1))
            yield elementwise_call(same, (), [operand], to, self.target)


def integer_lowerings(problem: IntegerConvolution, count: int) -> Iterator[Lowering]:
    """Yield the lowerings of a convolution of bytes that has results, in vectors and on tile registers. `count`: number
    of inputs that the operator was given."""
    if problem.weights.size and 0 not in (problem.shape.n, *problem.shape.out):
        yield problem.lowering(count)
        if problem.target.tiles.int8:
            yield replace(problem, tiles=problem.target.tiles.int8).lowering(count)


def centred_weights(w: TensorType, zero: TensorType | None) -> Array | None:
    """Constant weights without their zero point as int8; None where they are not constant or do not fit."""
    if w.value is None or (zero is not None and zero.value is None):
        return None
    taken = 0 if zero is None else present(zero.value).astype(np.int16).reshape(-1, *(1,) * (w.rank - 1))
    centred: Array = w.value.astype(np.int16) - taken
    fits = centred.min(initial=0) >= -128 and centred.max(initial=0) <= 127
    return centred.astype(np.int8) if fits else None


def _filled(count: int, lanes: int) -> float:
    """Lanes of the vectors that `count` channels fill, divided by `count`."""
    return -(-count // lanes) * lanes / count
