"""Convolution of tensors of which some are bfloat16: what `passes/precision/bfloat.py` makes of float32's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, cast

import numpy as np

from cenote.codegen.bfloat import rounded
from cenote.core.deferred import dataclass
from cenote.core.errors import DTypeError
from cenote.core.target import EMULATED, Target
from cenote.core.types import BFLOAT16, FLOAT32, FLOAT64, PLAIN, Array, Layout, TensorType
from cenote.kernels.base import (
    Call,
    View,
    buffer_elements,
    dense_strides,
    halo_offset,
    present,
)
from cenote.kernels.bfloat.conv import CLASSES
from cenote.kernels.bfloat.conv_calls import bfloat_calls
from cenote.kernels.bfloat.few_channels import narrow_few_call
from cenote.kernels.bfloat.memory import kept_in_bfloat
from cenote.kernels.bfloat.tile_calls import TileCut, rows_as_channels, suits_tiles, tile_calls
from cenote.kernels.conv.direct_calls import DirectProblem
from cenote.kernels.cost_model import bfloat_faster, moved_seconds, peak_seconds
from cenote.ops.base import Arrays, Decoder, Lowering, Sample, Types
from cenote.ops.conv.conv import Conv, correlate, largest_of_2x2
from cenote.ops.conv.depthwise import depthwise, grouped
from cenote.ops.conv.direct import efficiency
from cenote.ops.conv.problem import ConvProblem
from cenote.ops.conv.winograd import winograd
from cenote.ops.epilogue import Epilogue
from cenote.ops.values import ROUNDED_OPERANDS, narrow, wide

# Relative, of results in bfloat16: a float32 sum beside a tie may be rounded the other way.
_ROUNDING = 2.0**-8
# Relative to the largest result, where operands are rounded that the reference takes as they are.
_OPERANDS = 2.0**-6
_FLOATS = (FLOAT32, BFLOAT16)


@dataclass(frozen=True)
class BfloatConv(Conv):
    """Conv whose x, w and residual are float32 or bfloat16, its bias float32 and its result of the type `y`.

    With w in bfloat16 x is rounded to it, and products are those of bfloat16, summed in float32. With w in float32 it
    is left to the algorithm whether products are of numbers as they are or rounded to bfloat16: the cheapest is taken.
    In products of bfloat16 numbers below 1.2e-38 count as zeros. The sum with bias and residual, and its activation,
    are float32 and rounded once, to y's type.
    """

    y: np.dtype[Any] = FLOAT32

    name = "conv_bfloat16"
    from_onnx: ClassVar[dict[str, Decoder]] = {}

    @staticmethod
    def of(conv: Conv, y: np.dtype[Any]) -> BfloatConv:
        """The convolution `conv` with a result of type y."""
        return BfloatConv(**{each.name: getattr(conv, each.name) for each in fields(conv)}, y=y)

    def types(
        self, x: TensorType, w: TensorType, bias: TensorType | None, residual: TensorType | None
    ) -> Types:
        for operand, kind in (("x", x), ("w", w), ("residual", residual)):
            if kind is not None and kind.dtype not in _FLOATS:
                raise DTypeError(f"{self.name}: {operand} must be float32 or bfloat16, got {kind.dtype}")
        as_float32 = [None if each is None else TensorType(FLOAT32, each.shape) for each in (x, w, residual)]
        (y,) = super().types(as_float32[0], as_float32[1], bias, as_float32[2])  # type: ignore[arg-type]
        return (TensorType(self.y, y.shape),)

    def compute(self, x: Array, w: Array, bias: Array | None, residual: Array | None) -> Arrays:
        if w.dtype == BFLOAT16 and x.dtype == FLOAT32:
            x = rounded(x)
        y = correlate(wide(x), wide(w), self.shape(TensorType.known(x), TensorType.known(w)))
        if bias is not None:
            y = y + wide(bias).reshape(-1, *(1,) * (y.ndim - 2))
        if residual is not None:
            y = y + wide(residual)
        y = self.activation.apply(y)
        # float64 is of a caller that wants no rounding.
        return (narrow(largest_of_2x2(y) if self.pool else y, x.dtype if x.dtype == FLOAT64 else self.y),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x, w, bias, residual = self.arranged(inputs)
        fused = Epilogue(
            bias=2 if bias is not None else None,
            residual=3 if residual is not None else None,
            activation=self.activation,
            pool=self.pool,
        )
        problem = ConvProblem(self.shape(x, w), fused, inputs, target)
        known = problem.known() if problem.is_constant else None
        if known is None:
            return
        way = target.bfloat or EMULATED
        in_place = residual is not None and residual.dtype == self.y
        own = 0.0 if w.dtype == BFLOAT16 else ROUNDED_OPERANDS
        offers = [(each, own) for each in (*_products(known, way), *_on_tiles(known, way, self.y))]
        if w.dtype == FLOAT32:
            offers += [(each, 0.0) for each in _on_bfloat_memory(known, way)]
        for each, error in offers:
            yield replace(
                each,
                tolerance=max(each.tolerance, error, _ROUNDING * (self.y == BFLOAT16)),
                in_place=each.in_place if in_place else (),
            )

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from _samples()


def _on_bfloat_memory(problem: ConvProblem, way: str) -> Iterator[Lowering]:
    """Yield float32's lowerings that have kernels on such memory."""
    for offer in (depthwise, grouped, winograd):
        for each in offer(problem, problem.target):
            yield replace(each, bind=_Kept(each, way))


@dataclass(frozen=True)
class _Kept:
    """Binding of a lowering's calls to views of bfloat16."""

    lowering: Lowering
    way: str

    def __call__(self, views: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
        return [kept_in_bfloat(call, self.way, CLASSES) for call in self.lowering.bind(views, outputs)]


def _products(problem: ConvProblem, way: str) -> Iterator[Lowering]:
    """Yield the lowerings with products of bfloat16: of x in blocks of it, and of few channels in plain float32, which
    are rounded and laid out in blocks as narrow as they are."""
    shape, lanes, target = problem.shape, problem.lanes, problem.target
    x = present(problem.inputs[0])
    if problem.joins or problem.fused.pool:
        return
    direct, channels = problem.direct, present(problem.weights).shape[1]
    unit = _unit(direct)
    few = shape.groups == 1 and unit < lanes and x.dtype == FLOAT32
    if not few and x.dtype != BFLOAT16:
        return
    unit = unit if few else lanes
    layout = _padded(problem, unit) if few else Layout(unit, shape.halo)
    executed = direct.shape.operations * _filled(direct.shape.group_filters, lanes)
    executed *= _filled(direct.shape.group_channels, unit)
    seconds = peak_seconds(executed, target, efficiency(shape, target) * bfloat_faster(target))
    if not few:
        yield problem.lowering(
            "direct_bfloat16",
            layout,
            seconds,
            lambda x, y, residual: bfloat_calls(direct, way, x, y, residual, target),
        )
        return
    copy = TensorType(BFLOAT16, (buffer_elements(x.shape, layout),))

    def calls(x: View, y: View, residual: View | None, memory: View) -> Iterator[Call]:
        blocks = _blocked(x, memory, layout)
        yield narrow_few_call(x, blocks, channels, way)
        yield from bfloat_calls(direct, way, blocks, y, residual, target)

    yield problem.lowering(
        "direct_bfloat16_few",
        PLAIN,
        seconds + moved_seconds(x.nbytes + copy.nbytes),
        calls,
        temporaries=(copy,),
    )


def _on_tiles(problem: ConvProblem, way: str, y: np.dtype[Any]) -> Iterator[Lowering]:
    """Yield the lowering on tile registers: of x in blocks of bfloat16, or of float32, which it rounds, and of few
    channels in plain float32."""
    target, direct = problem.target, problem.direct
    ways = way, target.tiles.bf16
    if not ways[1] or problem.joins or problem.fused.pool or not suits_tiles(problem.shape):
        return
    shape, x = direct.shape, present(problem.inputs[0])
    y_bytes = y.itemsize * shape.n * shape.filters * shape.pixels
    unit = _unit(direct)
    if shape.groups > 1 or unit > problem.lanes or shape.dilations[2] > 1 or x.dtype != FLOAT32:
        yield problem.lowering(
            "tiles_bfloat16",
            Layout(problem.lanes, problem.shape.halo),
            TileCut.of(shape, target.l2_bytes).seconds(x.nbytes, y_bytes),
            lambda x, y, residual: tile_calls(direct, ways, x, y, residual, target),
        )
        return
    layout, channels = _padded(problem, unit), shape.channels
    rows = rows_as_channels(direct, unit)
    # Behind the last pixel lies a vector that a row of the window may reach.
    copy = TensorType(BFLOAT16, (buffer_elements(x.shape, layout) + problem.lanes,))

    def calls(x: View, y: View, residual: View | None, memory: View) -> Iterator[Call]:
        blocks = _blocked(x, memory, layout)
        yield narrow_few_call(x, blocks, channels, way)
        (n, _, *space), lanes = blocks.strides, y.layout.lanes
        taken = replace(blocks, layout=Layout(lanes), strides=(n, lanes, *space))
        yield from tile_calls(rows, ways, taken, y, residual, target)

    yield problem.lowering(
        "tiles_bfloat16_few",
        PLAIN,
        TileCut.of(rows.shape, target.l2_bytes).seconds(copy.nbytes, y_bytes) + moved_seconds(x.nbytes),
        calls,
        temporaries=(copy,),
    )


def _unit(direct: DirectProblem) -> int:
    """Channels of the narrowest blocks for few channels: a power of two, at least 2."""
    channels: int = direct.weights.shape[1]
    return 1 << max(1, (channels - 1).bit_length())


def _padded(problem: ConvProblem, unit: int) -> Layout:
    """Blocks with all of the padding: how much of it windows reach depends on sizes that may be open."""
    return Layout(unit, tuple((max(0, a), max(0, b)) for a, b in problem.shape.pads))


def _blocked(x: View, memory: View, layout: Layout) -> View:
    """The view of x as blocks of bfloat16 in other memory."""
    kind = TensorType(BFLOAT16, x.type.shape)
    offset = memory.slot.offset + halo_offset(kind.shape, layout) * BFLOAT16.itemsize
    return View(kind, layout, dense_strides(kind.shape, layout), replace(memory.slot, offset=offset))


def _filled(count: int, lanes: int) -> float:
    """Lanes of the vectors that `count` channels fill, divided by `count`."""
    return -(-count // lanes) * lanes / max(1, count)


_PRODUCTS = (
    "ragged",
    "three channels",
    "one channel",
    "7x7 map",
    "pointwise",
    "pointwise, one pixel",
    "pointwise, stride 2",
    "SiLU, pointwise",
    "SiLU, weights in chunks",
    "asymmetric pads",
    "dilated",
    "1-D, many channels",
    "3-D",
    "empty batch",
)
_ON_MEMORY = (
    "3x3",
    "1x7",
    "ragged",
    "7x7 map",
    "3-D, many channels",
    "pool",
    "depthwise",
    "depthwise, stride 2",
    "groups of 4",
    "SiLU, depthwise",
    "dilated, long window",
)


def _samples() -> Iterator[Sample]:
    """Yield those of Conv, with y and the residual in turns in either type."""
    known = {sample.label: sample for sample in Conv.samples()}
    for labels, w_type in ((_PRODUCTS, BFLOAT16), (_ON_MEMORY, FLOAT32)):
        for number, label in enumerate(labels):
            sample = known[label]
            x, w, bias, *rest = map(present, sample.inputs)
            few = w_type == BFLOAT16 and x.shape[1] < 4
            inputs = (
                x if few else x.astype(BFLOAT16),
                w.astype(w_type),
                bias,
                *(each.astype(_FLOATS[number // 2 % 2]) for each in rest),
            )
            op = BfloatConv.of(cast(Conv, sample.op), _FLOATS[(number + 1) % 2])
            yield Sample(op, inputs, f"{label}, {w_type} weights")
