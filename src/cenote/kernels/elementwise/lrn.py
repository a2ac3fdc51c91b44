"""Local response normalisation across channels, plain and channel-blocked.

    plain, an item is a block of columns of a picture:     blocked, an item is a block of channels of a picture:
        for a vector of places:      emitted                   for place in the map:     emitted
            for channel:             emitted                       squares of this block and its neighbours
                sum of squares over the window   emitted           sum over the window     unrolled, by shuffles
                x / (bias + factor * sum)^beta                     x / (bias + factor * sum)^beta

The lanes past the last channel count as zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from cenote.codegen import math
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, F64, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.elementwise.elementwise import vector_lanes
from cenote.kernels.strided_axes import axis_names, axis_words, joined_axes, nested

COLUMNS = 64  # of one item
ROOTS = (0.5, 0.75, 1.0)  # powers that are square roots


def _powered(k: Kernel, value: Value, beta: float) -> Value:
    """Raise value to beta, by square roots where that is enough."""
    if beta == 1.0:
        return value
    root = k.square_root(value) if beta in ROOTS else value
    if beta == 0.5:
        return root
    if beta == 0.75:
        return root * k.square_root(root)
    return math.power(k, value, k.constant(value.type, beta, value.lanes))


@dataclass(frozen=True)
class Normalized:
    """x / (bias + factor * sum)^beta over windows of `before` + 1 + `after` channels."""

    before: int
    after: int
    factor: float
    beta: float
    bias: float

    def emit(self, k: Kernel, x: Value, total: Value) -> Value:
        return x / _powered(k, total * self.factor + self.bias, self.beta)


def _parameters(dtype: np.dtype[Any], numbers: Sequence[str]) -> tuple[Parameter, ...]:
    return (*pointers_to(Scalar.of(dtype), "y", "x"), *numbers_named(numbers))


def _compute(x: Pointer) -> Scalar:
    return F64 if x.element is F64 else F32


@dataclass(frozen=True)
class LrnPlain(KernelSpec):
    """Kernel for plain tensors: channels lie `step` elements apart, the places of a channel beside each other."""

    formula: Normalized
    dtype: np.dtype[Any]

    @property
    def words(self) -> tuple[Parameter, ...]:
        strides = ("y_picture", "y_channel", "x_picture", "x_channel")
        return _parameters(self.dtype, ("channels", "columns", *strides))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        lanes = vector_lanes(self.dtype, target)
        columns = k.number("columns")
        for item in k.range(k.begin, k.end):
            blocks = (columns + COLUMNS - 1) // COLUMNS
            picture, first = item // blocks, item % blocks * COLUMNS
            y, x = (k.pointer(name) + picture * k.number(f"{name}_picture") for name in ("y", "x"))
            stop = k.select(first + COLUMNS < columns, first + COLUMNS, columns)
            whole = first + (stop - first) // lanes * lanes
            for column in k.range(first, whole, lanes):
                self._columns(k, y + column, x + column, lanes, None)
            if self.dtype.itemsize < 4:
                for column in k.range(whole, stop):
                    self._columns(k, y + column, x + column, 1, None)
            else:
                with k.when(whole < stop):
                    self._columns(k, y + whole, x + whole, lanes, k.tail_mask(stop - whole, lanes))
        return k

    def _columns(self, k: Kernel, y: Pointer, x: Pointer, lanes: int, mask: Value | None) -> None:
        compute, channels = _compute(x), k.number("channels")
        for channel in k.range(0, channels):
            low, high = channel - self.formula.before, channel + (self.formula.after + 1)
            low = k.select(low < 0, k.integer(0), low)
            high = k.select(high < channels, high, channels)
            total = k.variable(k.constant(compute, 0.0, lanes))
            for other in k.range(low, high):
                value = x.load(other * k.number("x_channel"), lanes, mask).to(compute)
                total.value = k.fma(value, value, total.value)
            own = x.load(channel * k.number("x_channel"), lanes, mask).to(compute)
            result = self.formula.emit(k, own, total.value)
            y.store(result.to(y.element), channel * k.number("y_channel"), mask)


@dataclass(frozen=True)
class LrnBlocked(KernelSpec):
    """Kernel for blocked tensors: a window reaches at most into the blocks beside its own."""

    formula: Normalized
    dtype: np.dtype[Any]
    lanes: int
    spatial: int

    @property
    def words(self) -> tuple[Parameter, ...]:
        strides = ("y_picture", "y_block", "x_picture", "x_block", *axis_names(self.spatial, ("y", "x")))
        return _parameters(self.dtype, ("channels", "blocks", *strides))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        lanes, blocks = self.lanes, k.number("blocks")
        extents = [k.number(f"extent_{axis}") for axis in range(self.spatial)]
        strides = [[k.number(f"stride_{axis}_{name}") for axis in range(self.spatial)] for name in ("y", "x")]
        for item in k.range(k.begin, k.end):
            picture, block = item // blocks, item % blocks
            y = k.pointer("y") + (picture * k.number("y_picture") + block * k.number("y_block"))
            image, step = k.pointer("x") + picture * k.number("x_picture"), k.number("x_block")
            before = k.select(block > 0, block - 1, block)
            after = k.select(block + 1 < blocks, block + 1, block)
            sources = [image + place * step for place in (before, block, after)]
            left = k.number("channels") - block * lanes
            real = (
                k.tail_mask(k.select(block > 0, k.integer(lanes), k.integer(0)), lanes),
                k.tail_mask(left, lanes),
                k.tail_mask(left - lanes, lanes),
            )
            for target_place, place in nested(k, extents, strides):
                values = [source.load(place, lanes).to(_compute(source)) for source in sources]
                zero = k.constant(values[0].type, 0.0, lanes)
                squares = [k.select(mask, v * v, zero) for mask, v in zip(real, values, strict=True)]
                result = self.formula.emit(k, values[1], self._window(k, squares))
                y.store(result.to(y.element), target_place)
        return k

    def _window(self, k: Kernel, squares: list[Value]) -> Value:
        before, own, after = squares
        total = own
        for reach in range(1, self.formula.before + 1):
            total = total + k.shuffle(before, own, range(self.lanes - reach, 2 * self.lanes - reach))
        for reach in range(1, self.formula.after + 1):
            total = total + k.shuffle(own, after, range(reach, self.lanes + reach))
        return total


def lrn_call(formula: Normalized, x: View, y: View) -> Call:
    """The launch for (N, C, *spatial) tensors; plain ones have dense places."""
    words: dict[str, Argument] = {
        "y": y,
        "x": x,
        "channels": x.shape[1],
        "y_picture": y.strides[0],
        "x_picture": x.strides[0],
    }
    if x.layout.is_blocked:
        spatial = joined_axes(x.shape[2:], (y.strides[2:], x.strides[2:]))
        blocked = LrnBlocked(formula, x.type.dtype, x.layout.lanes, len(spatial))
        words |= {"blocks": x.blocks, "y_block": y.strides[1], "x_block": x.strides[1]}
        return Call.named(blocked, words | axis_words(spatial, ("y", "x")), x.shape[0] * x.blocks)
    columns = prod(x.shape[2:])
    words |= {"columns": columns, "y_channel": y.strides[1], "x_channel": x.strides[1]}
    items = x.shape[0] * -(-columns // COLUMNS)
    return Call.named(LrnPlain(formula, x.type.dtype), words, items)
