"""Padding (and with negative amounts cropping) by a constant, the edge, a mirror or a torus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from cenote.core.computed import computed
from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError, UnsupportedError
from cenote.core.formulas.certain import always_equal
from cenote.core.sizes import maximum, minimum, plain, whole
from cenote.core.target import Target
from cenote.core.types import PLAIN, Array, Layout, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.cost_model import LAUNCH, pass_seconds
from cenote.kernels.elementwise.elementwise import LONG
from cenote.kernels.layout.copy import box_of, can_copy, copy_call, fill_call
from cenote.kernels.layout.take import TakenAxis, TakenRow, take_call
from cenote.ops.base import Arrays, Box, Imported, Lowering, Op, Rewired, Sample, Types, ValueNeeded
from cenote.ops.checks import normalize_axis, require, require_same_dtype
from cenote.ops.elementwise.pointwise import block_lanes
from cenote.ops.values import seeded

MODES = ("constant", "reflect", "edge", "wrap")


@dataclass(frozen=True)
class Pad(Op):
    """`pads` are (begin, end) per axis, negative ones crop (before anything is added).

    Inputs: x, then (where a model computes them) pads as begins followed by ends, the constant, and the axes
    that pads are for; a field that is given wins. "reflect" mirrors without repeating the edge, as often as
    needed.
    """

    name = "pad"
    operands = ("data", "pads?", "value?", "axes?")
    from_onnx = {"Pad": lambda node: _decode(node)}
    pads: tuple[tuple[int, int], ...] | None = None
    mode: str = "constant"
    value: float | int | None = None
    axes: tuple[int, ...] | None = None

    def resolved(self, inputs: Sequence[TensorType | None]) -> tuple[tuple[int, int], ...]:
        """(begin, end) of every axis of x."""
        x = require(self.name, inputs[0] if inputs else None, "data")
        pads, axes = self.pads, self.axes
        if pads is None:
            flat = _content(inputs, 1)
            if flat is None or len(flat) % 2:
                raise ShapeError(f"{self.name}: pads must be a list of begins and ends, got {flat}")
            half = len(flat) // 2
            pads = tuple(zip(flat[:half], flat[half:], strict=True))
        if axes is None:
            axes = _content(inputs, 3)
        chosen = range(x.rank) if axes is None else [normalize_axis(self.name, axis, x.rank) for axis in axes]
        if len(pads) != len(chosen) or len(set(chosen)) != len(chosen):
            which = "all axes" if axes is None else f"axes {list(axes)}"
            raise ShapeError(f"{self.name}: {len(pads)} pairs of pads do not fit {which} of {x}")
        all_pads = [(0, 0)] * x.rank
        for axis, pair in zip(chosen, pads, strict=True):
            all_pads[axis] = pair
        return tuple(all_pads)

    def types(self, x: TensorType, *others: TensorType | None) -> Types:
        if self.mode not in MODES:
            raise UnsupportedError(f"{self.name}: mode '{self.mode}' is not known ({', '.join(MODES)})")
        constant = others[1]
        if constant is not None:
            require_same_dtype(self.name, x, constant)
            if constant.size != 1:
                raise ShapeError(
                    f"{self.name}: the constant has shape {list(constant.shape)}, needs a scalar"
                )
        shape = []
        for axis, (extent, (begin, end)) in enumerate(zip(x.shape, self.resolved((x, *others)), strict=True)):
            kept = extent + minimum(begin, 0) + minimum(end, 0)
            if kept < 0:
                raise ShapeError(f"{self.name}: pads {begin},{end} crop more than axis {axis} of {x} has")
            if self.mode != "constant" and kept == 0 and (begin > 0 or end > 0):
                raise ShapeError(f"{self.name}: mode {self.mode} needs elements in axis {axis} of {x}")
            shape.append(extent + begin + end)
        return (TensorType(x.dtype, tuple(shape)),)

    def compute(self, x: Array, *others: Array | None) -> Arrays:
        (output,) = self.declared(x, *others)
        pads = self.resolved([None if a is None else TensorType.known(a) for a in (x, *others)])
        cut = tuple(slice(max(-b, 0), n - max(-e, 0)) for n, (b, e) in zip(x.shape, pads, strict=True))
        grown = [(max(begin, 0), max(end, 0)) for begin, end in pads]
        if self.mode != "constant":
            return (_padded_by_index(x[cut], grown, self.mode),)
        y = np.full(output.shape, self.constant((x, *others), x.dtype), x.dtype)
        inside = tuple(slice(begin, n - end) for n, (begin, end) in zip(y.shape, grown, strict=True))
        y[inside] = x[cut]
        return (y,)

    def constant(self, inputs: Sequence[Array | None], dtype: np.dtype[Any]) -> Array:
        """Scalar of the dtype that constant padding writes: `value`, the third input, or 0."""
        given = inputs[2] if len(inputs) > 2 else None
        if self.value is None and given is not None:
            return given.reshape(())
        return np.asarray(0 if self.value is None else self.value).astype(dtype)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x, (output,) = inputs[0], self.infer(*inputs)
        given = inputs[2] if len(inputs) > 2 else None
        known = self.value is not None or given is None or given.value is not None
        if x is None or not known or not can_copy(x.dtype):
            return
        pads = self.resolved(inputs)
        if self.mode != "constant":
            yield from self._by_tables(inputs, pads, output, None, target)
            return
        constant = self.constant([None if kind is None else kind.value for kind in inputs], x.dtype)
        seconds = pass_seconds(2 * output.nbytes) + LAUNCH  # two kernels
        rest = (None,) * (len(inputs) - 1)
        if output.rank and not _is_none(pads[-1]) and plain(output.shape[-1]) < LONG:
            # Short rows, each in one go; long ones, and rows that are whole, are cheap to copy and fill apart.
            yield from self._by_tables(inputs, pads, output, constant, target)

        def bind(views: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
            source, y = present(views[0]), outputs[0]
            inside = [
                (maximum(begin, 0), n - maximum(end, 0))
                for n, (begin, end) in zip(y.shape, pads, strict=True)
            ]
            shape = [end - begin for begin, end in inside]
            calls = [fill_call(constant, part, target) for part in _border(y, inside)]
            kept = box_of(source, [maximum(-begin, 0) for begin, _ in pads], shape)
            return [*calls, copy_call(kept, box_of(y, [begin for begin, _ in inside], shape), target)]

        yield Lowering("copy_and_fill", (PLAIN, *rest), (PLAIN,), bind, seconds)
        lanes = block_lanes(x.dtype, target)
        if 3 <= x.rank <= 5 and lanes and _is_none(pads[1]):
            blocked = Layout(lanes)
            yield Lowering("copy_and_fill_blocked", (blocked, *rest), (blocked,), bind, seconds)

    def _by_tables(
        self,
        inputs: Sequence[TensorType | None],
        pads: Sequence[tuple[int, int]],
        output: TensorType,
        fill: Array | None,
        target: Target,
    ) -> Iterator[Lowering]:
        """Yield the lowering that looks up the source of each output place; `fill` is the constant of the border."""
        if not output.rank or not output.size:
            return
        changed = [axis for axis, pair in enumerate(pads) if not _is_none(pair)]
        first = min([*changed, output.rank - 1])

        def call(x: View, y: View) -> Call:
            axes: list[TakenAxis] = []
            for axis, (begin, end) in enumerate(pads):
                step = x.strides[axis]
                table = (
                    computed(border_table, x.shape[axis], begin, end, self.mode, step)
                    if axis >= first
                    else None
                )
                axes.append(TakenAxis(output.shape[axis], step, table))
            begin, end = pads[-1]
            middle = x.shape[-1] + minimum(begin, 0) + minimum(end, 0)
            ends = "table" if fill is None else "filled"
            row = TakenRow(maximum(begin, 0), middle, maximum(-begin, 0), ends, fill)
            return take_call(x, y, axes, row, target)

        absent = (None,) * (len(inputs) - 1)
        yield Lowering.of_call("tables", (PLAIN, *absent), (PLAIN,), call, pass_seconds(2 * output.nbytes))

    def forwarded(self, inputs: Sequence[TensorType | None]) -> int | None:
        return 0 if all(map(_is_none, self.resolved(inputs))) else None

    def operations(self, outputs: Types, *inputs: TensorType | None) -> int:
        return 0

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        x = require(self.name, inputs[0], "data")
        if self.mode != "constant":
            return super().region(box, inputs)
        ranges = []
        for extent, (begin, _), (low, high) in zip(x.shape, self.resolved(inputs), box.ranges, strict=True):
            first, last = (min(max(edge - begin, 0), extent) for edge in (low, high))
            ranges.append((first, last))
        return (Box(tuple(ranges)), *(None if a is None else Box.whole(a.shape) for a in inputs[1:]))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        around = ((0, 0), (0, 0), (1, 2), (3, 0))
        for mode in MODES:
            yield Sample(cls(around, mode), (seeded((2, 11, 5, 7)),))
            yield Sample(cls(((2, 9), (0, 1)), mode), (seeded((3, 4)),))
            yield Sample(cls(((-1, 3), (2, -2)), mode), (seeded((4, 5)),), f"pad crop {mode}")
            yield Sample(cls(((0, 0), (2, 1), (0, 0), (3, 70)), mode), (seeded((2, 3, 4, 37), 1, np.uint8),))
        yield Sample(cls(around, value=-1.5), (seeded((1, 3, 4, 9)),))
        yield Sample(cls(((1, 1), (0, 2), (0, 0), (2, 1))), (seeded((1, 8, 3, 3)),))
        yield Sample(cls(((1, 0), (3, 2)), value=7.5), (seeded((3, 61)),), "rows of every width of vector")
        yield Sample(cls(((-1, 2), (0, 0), (1, -2))), (seeded((3, 2, 20)),), "rows that are constant")
        yield Sample(cls(((1, 1),)), (seeded((0,)),))
        yield Sample(cls(()), (seeded(()),))
        yield Sample(cls(((1, 2),), axes=(-1,)), (seeded((2, 9, 3)),))
        amounts = np.array([0, 1, 2, 0], np.int64)
        yield Sample(cls(), (seeded((2, 3)), amounts, np.asarray(2.5, np.float32)), "pad inputs")
        for dtype in (np.float64, np.float16, np.int64, np.uint8, np.bool_, "bfloat16"):
            yield Sample(cls(((1, 0), (0, 2)), value=1), (seeded((3, 9), 1, np.dtype(dtype)),))


def _is_none(pads: tuple[int, int]) -> bool:
    """Whether nothing is added or cropped, at any size."""
    return all(always_equal(amount, 0) for amount in pads)


def _border(y: View, inside: list[tuple[int, int]]) -> Iterator[View]:
    """The parts of y around a box, as boxes that do not overlap: two per axis, without those that are always empty."""
    for axis, (begin, end) in enumerate(inside):
        for low, high in ((0, begin), (end, y.shape[axis])):
            if not always_equal(low, high):
                edges = [*inside[:axis], (low, high), *((0, extent) for extent in y.shape[axis + 1 :])]
                yield box_of(y, [first for first, _ in edges], [last - first for first, last in edges])


def _content(inputs: Sequence[TensorType | None], index: int) -> tuple[int, ...] | None:
    given = inputs[index] if index < len(inputs) else None
    if given is None:
        return None
    if given.value is None:
        raise ValueNeeded(index)
    return tuple(whole(number) for number in given.value.reshape(-1))


def _padded_by_index(x: Array, pads: list[tuple[int, int]], mode: str) -> Array:
    """Array padded axis by axis, by the index of the element that each output place takes."""
    for axis, (begin, end) in enumerate(pads):
        if begin or end:
            x = np.take(x, border_table(x.shape[axis], begin, end, mode, 1), axis=axis)
    return x


def border_table(extent: int, begin: int, end: int, mode: str, step: int) -> Array:
    """Offset of the input element that each output place takes, elements `step` apart; -1 for the constant."""
    first, kept = max(-begin, 0), extent + min(begin, 0) + min(end, 0)
    places = np.arange(-max(begin, 0), kept + max(end, 0), dtype=np.int64)
    if mode == "constant":
        inside = (places >= 0) & (places < kept)
        return np.where(inside, (places + first) * step, -1)
    if mode == "edge":
        places = np.clip(places, 0, kept - 1)
    elif mode == "wrap":
        places %= max(kept, 1)
    else:
        period = max(2 * (kept - 1), 1)
        places %= period
        places = np.minimum(places, period - places) if kept > 1 else places * 0
    return (places + first) * step


def _decode(node: Imported) -> Op | Rewired:
    mode = str(node.get("mode", "constant"))
    if node.opset < 11:
        node.expect("mode", "pads", "value")
        flat = tuple(int(number) for number in node.get("pads", ()))
        half = len(flat) // 2
        return Pad(tuple(zip(flat[:half], flat[half:], strict=True)), mode, float(node.get("value", 0.0)))
    node.expect("mode")
    present = [index < len(node.present) and node.present[index] for index in range(4)]
    values = [node.constant(index) for index in range(4)]
    if not present[1]:
        raise ArgumentError(f"Pad-{node.opset}: input pads is missing")
    if any(there and value is None for there, value in zip(present[1:], values[1:], strict=True)):
        return Pad(mode=mode)
    pads, constant, axes = values[1:]
    assert pads is not None
    if pads.size % 2 or pads.ndim != 1:
        raise ShapeError(
            f"Pad-{node.opset}: pads has shape {list(pads.shape)}, needs a list of begins and ends"
        )
    begins, ends = pads.reshape(2, -1).tolist()
    return Rewired(
        Pad(
            tuple(zip(begins, ends, strict=True)),
            mode,
            None if constant is None or mode != "constant" else constant.reshape(()).item(),
            None if axes is None else tuple(int(axis) for axis in axes.reshape(-1)),
        ),
        (0,),
    )
