"""Quantisation as elementwise expressions: a scale and a zero point for all elements, per index of an axis, per block.

Each step rounds as the reference does, so results have its bits: quotients in the scale's type, products of 8- and
16-bit numbers in float32 (their differences are exact in it), all others in float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cenote.core.sizes import is_size
from cenote.core.target import Target
from cenote.core.types import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, PLAIN, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.elementwise.elementwise import Operand, elementwise_call
from cenote.kernels.elementwise.expression import Expression, Step
from cenote.kernels.reduction.axes import ReduceAxis
from cenote.kernels.reduction.launches import pieces_of, reduce_calls
from cenote.ops.base import Lowering

SMALL = frozenset({"int8", "uint8", "int16", "uint16"})
INT32 = np.dtype(np.int32)
WEIGHT = 8  # operations of an element, for estimates
_FLOATS = (FLOAT32, FLOAT16, BFLOAT16)


def quantizing(
    x: TensorType, scale: TensorType, zero: TensorType | None, output: TensorType
) -> Expression | None:
    """x / scale, rounded, around the zero point; None for types without a kernel."""
    if output.dtype.name not in SMALL or x.dtype not in _FLOATS or scale.dtype not in _FLOATS:
        return None
    limits = np.iinfo(output.dtype)
    count = 2 if zero is None else 3
    steps = [Step("cast", (0,), scale.dtype), Step("div", (count, 1), scale.dtype)]
    steps.append(Step("constant", (), INT32, (0,)) if zero is None else Step("cast", (2,), INT32))
    steps.append(Step("quantized", (count + 1, count + 2), INT32, (int(limits.min), int(limits.max))))
    return Expression(count, (*steps, Step("cast", (count + 3,), output.dtype)))


def dequantizing(
    x: TensorType, scale: TensorType, zero: TensorType | None, output: TensorType
) -> Expression | None:
    """(x - zero point) * scale; None for types without a kernel."""
    if x.dtype.name not in SMALL | {"int32"} or scale.dtype not in _FLOATS or output.dtype not in _FLOATS:
        return None
    single = x.dtype != INT32 and scale.dtype == output.dtype == FLOAT32
    wide = FLOAT32 if single else FLOAT64
    count = 2 if zero is None else 3
    steps = [Step("cast", (0,), wide), Step("cast", (1,), wide)]
    value = count
    if zero is not None:
        steps += [Step("cast", (2,), wide), Step("sub", (count, count + 2), wide)]
        value = count + 3
    steps.append(Step("mul", (value, count + 1), wide))
    return Expression(count, (*steps, Step("cast", (count + len(steps) - 1,), output.dtype)))


def scaled_lowerings(
    expression: Expression | None,
    inputs: Sequence[TensorType | None],
    output: TensorType,
    axis: int,
    block: int,
    target: Target,
) -> Iterator[Lowering]:
    """`axis` is that of the scale where it has several numbers, `block` how many elements share one (0: one each)."""
    x = present(inputs[0])
    if expression is None or not output.size or (block and not _divides(block, x.shape[axis])):
        return

    def bind(views: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
        return [quantization_call(expression, views, outputs[0], axis, block, target)]

    layouts = tuple(None if each is None else PLAIN for each in inputs)
    seconds = pass_seconds(x.nbytes + output.nbytes, WEIGHT * output.size)
    yield Lowering("elementwise", layouts, (PLAIN,), bind, seconds)


def quantization_call(
    expression: Expression, views: Sequence[View | None], y: View, axis: int, block: int, target: Target
) -> Call:
    """The launch of an expression of x, scale and zero point."""
    x, *parameters = [view for view in views if view is not None]
    if block:
        x, y = _in_blocks(x, axis, block), _in_blocks(y, axis, block)
    operands = [Operand(x, x.strides), *(_parameter(view, y, axis, block) for view in parameters)]
    return elementwise_call(expression, (), operands, y, target, WEIGHT)


# The scale from the largest and the smallest number, 1 where all numbers are 0.
_FIT = (
    Step("constant", (), FLOAT32, (0.0,)), Step("max", (0, 2), FLOAT32), Step("min", (1, 2), FLOAT32),
    Step("sub", (3, 4), FLOAT32), Step("constant", (), FLOAT32, (255.0,)), Step("div", (5, 6), FLOAT32),
    Step("equal", (7, 2), np.dtype(np.bool_)), Step("constant", (), FLOAT32, (1.0,)), Step("where", (8, 9, 7), FLOAT32),
)  # fmt: skip
# The zero point from the smallest number and the scale.
_CENTRE = (
    Step("constant", (), FLOAT32, (0.0,)), Step("min", (0, 2), FLOAT32), Step("neg", (3,), FLOAT32),
    Step("div", (4, 1), FLOAT32), Step("constant", (), FLOAT32, (255.0,)), Step("clamp", (5, 2, 6), FLOAT32),
    Step("round", (7,), FLOAT32), Step("cast", (8,), np.dtype(np.uint8)),
)  # fmt: skip


def dynamic_lowerings(x: TensorType, outputs: Sequence[TensorType], target: Target) -> Iterator[Lowering]:
    """Largest and smallest number, then the scale and the zero point that hold them and 0, then the quantisation."""
    made = quantizing(x, outputs[1], outputs[2], outputs[0])
    if made is None or x.dtype != FLOAT32 or not x.size:
        return
    pieces = pieces_of(x.shape, range(x.rank), target)
    scalar, totals = TensorType(FLOAT32, ()), TensorType(FLOAT32, (pieces,))
    temporaries = (scalar, scalar, *((totals, totals) if pieces > 1 else ()))

    def bind(views: Sequence[View | None], results: Sequence[View]) -> Sequence[Call]:
        source, (y, scale, zero, high, low, *partial) = present(views[0]), results
        axes = [ReduceAxis(n, stride, None) for n, stride in zip(source.shape, source.strides, strict=True)]
        parts: list[View | None] = [*partial] or [None, None]
        return [
            *reduce_calls("max", axes, source, high, pieces, parts[0], target),
            *reduce_calls("min", axes, source, low, pieces, parts[1], target),
            elementwise_call(Expression(2, _FIT), (), [_one(high), _one(low)], scale, target),
            elementwise_call(Expression(2, _CENTRE), (), [_one(low), _one(scale)], zero, target),
            quantization_call(made, [source, scale, zero], y, 0, 0, target),
        ]

    seconds = pass_seconds(3 * x.nbytes + outputs[0].nbytes, 10 * x.size)
    yield Lowering("elementwise", (PLAIN,), (PLAIN,) * 3, bind, seconds, temporaries=temporaries)


def _one(view: View) -> Operand:
    """A scalar."""
    return Operand(view, (), is_scalar=True)


def _divides(block: int, extent: Any) -> bool:
    return not is_size(extent) and extent % block == 0


def _in_blocks(view: View, axis: int, block: int) -> View:
    """The same memory with the axis as two: blocks, and places in a block."""
    shape, strides = view.shape, view.strides
    split = (*shape[:axis], shape[axis] // block, block, *shape[axis + 1 :])
    steps = (*strides[:axis], strides[axis] * block, strides[axis], *strides[axis + 1 :])
    return replace(view, type=TensorType(view.type.dtype, split), strides=steps)


def _parameter(view: View, y: View, axis: int, block: int) -> Operand:
    """A scale or zero point over the output's axes."""
    strides = [0] * len(y.strides)
    if block:
        own = [0 if extent == 1 else stride for extent, stride in zip(view.shape, view.strides, strict=True)]
        strides = [*own[: axis + 1], 0, *own[axis + 1 :]]
    elif view.type.size == 1:
        return Operand(view, tuple(strides), is_scalar=True)
    else:
        strides[axis] = view.strides[0]
    return Operand(view, tuple(strides), is_scalar=not any(strides))
