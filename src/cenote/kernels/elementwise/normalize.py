"""Normalisation of rows by their own statistics, and of the channels of blocked maps.

    rows (plain), an item is a row:                  blocked, an item is a block of channels of one picture:
        sum, and from it the mean                        the same passes over all places,
        sum of (x - mean)²                               one channel per lane
        for part in the row: for element:
            (x - mean) * factor * scale + bias

A row is a run of `parts` x `inner` elements. Scale and bias go along the row (layer normalisation) or have one entry
per part (group and instance normalisation). Sums run in float64; the mean is kept as the sum of two numbers, so that
a mean far from zero costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, F64, Pointer, Scalar, Value
from cenote.core.target import Target
from cenote.core.types import Array
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.elementwise.elementwise import vector_lanes
from cenote.kernels.strided_axes import (
    axis_names,
    axis_pointers,
    axis_words,
    joined_axes,
    nested,
    position_count,
)


@dataclass(frozen=True)
class NormalizeRows(KernelSpec):
    """`centred` subtracts the mean; `along`: scale and bias lie along the row, else one entry per part."""

    centred: bool
    along: bool
    biased: bool
    dtypes: tuple[np.dtype[Any], np.dtype[Any], np.dtype[Any]]  # y, x, scale and bias
    outer: int

    @property
    def words(self) -> tuple[Parameter, ...]:
        scalars = [Scalar.of(dtype) for dtype in (*self.dtypes, self.dtypes[2])]
        pointers = [
            Parameter(name, scalar, pointer=True, may_alias=True)
            for name, scalar in zip(("y", "x", "scale", "bias"), scalars, strict=True)
        ]
        numbers = ["parts", "inner", "groups", "group_step", "part_step", *axis_names(self.outer, ("y", "x"))]
        return (*pointers, Parameter("epsilon", F64), *numbers_named(numbers))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        for item in k.range(k.begin, k.end):
            y, x = axis_pointers(k, self.outer, ("y", "x"), item)
            entry = item % k.number("groups") * k.number("group_step")
            self._row(k, y, x, entry)
        return k

    def _row(self, k: Kernel, y: Pointer, x: Pointer, entry: Value) -> None:
        compute = F64 if x.element is F64 else F32
        lanes = vector_lanes(self.dtypes[1], k.target)
        parts, inner = k.number("parts"), k.number("inner")
        count = parts * inner
        zero = k.constant(F64, 0.0)
        mean = zero
        if self.centred:
            mean = _sum(k, x, count, lanes, lambda value: value) / count.to(F64)
        centre = _Centre(k, mean, compute) if self.centred else None
        square = _sum(k, x, count, lanes, lambda value: _squared(centre, value))
        factor = (1.0 / k.square_root(square / count.to(F64) + k.number("epsilon"))).to(compute)

        scale, bias = k.pointer("scale") + entry, k.pointer("bias") + entry
        for part in k.range(0, parts):
            offset, step = part * inner, part * k.number("part_step")
            finish = _Finish(
                self, centre, factor, (scale, bias) if self.along else (scale + step, bias + step)
            )
            _walk(k, inner, lanes, x.element.nbytes, finish.emit_on(x + offset, y + offset))


class _Centre:
    """Subtracts a float64 mean from values of less precision: first its rounded part, then the rest."""

    def __init__(self, k: Kernel, mean: Value, compute: Scalar) -> None:
        self.high = mean.to(compute)
        self.low = (mean - self.high.to(F64)).to(compute)

    def of(self, value: Value) -> Value:
        return value - self.high - self.low


@dataclass(frozen=True)
class _Finish:
    """The last pass over a row: from x to y, by the statistics and the parameters."""

    spec: NormalizeRows
    centre: _Centre | None
    factor: Value
    parameters: tuple[Pointer, Pointer]

    def emit_on(self, x: Pointer, y: Pointer) -> Callable[[Value, int, Value | None], None]:
        compute = self.factor.type

        def emit(place: Value, width: int, mask: Value | None) -> None:
            value = x.load(place, width, mask).to(compute)
            value = (self.centre.of(value) if self.centre else value) * self.factor
            scale, bias = self.parameters
            at = (place, width, mask) if self.spec.along else (0, 1, None)
            value = value * scale.load(*at).to(compute)
            if self.spec.biased:
                value = value + bias.load(*at).to(compute)
            y.store(value.to(y.element), place, mask)

        return emit


def _squared(centre: _Centre | None, value: Value) -> Value:
    moved = centre.of(value) if centre else value
    wide = moved.to(F64)
    return wide * wide


def _walk(
    k: Kernel, count: Value, lanes: int, nbytes: int, body: Callable[[Value, int, Value | None], None]
) -> None:
    """Vectors, then the rest under a mask (one by one for types below 32 bits)."""
    whole = count // lanes * lanes
    for place in k.range(0, whole, lanes):
        body(place, lanes, None)
    if nbytes < 4:
        for place in k.range(whole, count):
            body(place, 1, None)
        return
    with k.when(whole < count):
        body(whole, lanes, k.tail_mask(count - whole, lanes))


def _sum(k: Kernel, x: Pointer, count: Value, lanes: int, formula: Callable[[Value], Value]) -> Value:
    """Sum of a formula over a run, in float64, always in the same order."""
    compute = F64 if x.element is F64 else F32
    total = k.variable(k.constant(F64, 0.0, lanes))
    single = k.variable(k.constant(F64, 0.0))

    def add(place: Value, width: int, mask: Value | None) -> None:
        value = formula(x.load(place, width, mask).to(compute)).to(F64)
        if mask is not None:
            value = k.select(mask, value, k.constant(F64, 0.0, lanes))
        accumulator = total if width == lanes else single
        accumulator.value = accumulator.value + value

    _walk(k, count, lanes, x.element.nbytes, add)
    return k.reduce(total.value, "add") + single.value


@dataclass(frozen=True)
class NormalizeBlocked(KernelSpec):
    """Per channel over all places of a blocked map of so many spatial axes."""

    dtype: np.dtype[Any]
    lanes: int
    spatial: int

    @property
    def compute(self) -> Scalar:
        return F64 if Scalar.of(self.dtype) is F64 else F32

    @property
    def words(self) -> tuple[Parameter, ...]:
        element = Scalar.of(self.dtype)
        pointers = pointers_to(element, "y", "x", may_alias=True)
        pointers += pointers_to(self.compute, "scale", "bias")
        numbers = [
            "blocks",
            "y_picture",
            "y_block",
            "x_picture",
            "x_block",
            *axis_names(self.spatial, ("y", "x")),
        ]
        return (*pointers, Parameter("epsilon", F64), *numbers_named(numbers))

    def emit(self, target: Target) -> Kernel:
        element, compute, k = Scalar.of(self.dtype), self.compute, self.kernel(target)
        extents = [k.number(f"extent_{axis}") for axis in range(self.spatial)]
        strides = [[k.number(f"stride_{axis}_{name}") for axis in range(self.spatial)] for name in ("y", "x")]
        lanes, zero = self.lanes, k.constant(F64, 0.0, self.lanes)
        for item in k.range(k.begin, k.end):
            picture, block = item // k.number("blocks"), item % k.number("blocks")
            y, x = (
                k.pointer(name) + (picture * k.number(f"{name}_picture") + block * k.number(f"{name}_block"))
                for name in ("y", "x")
            )
            total = k.variable(zero)
            for _, place in nested(k, extents, strides):
                total.value = total.value + x.load(place, lanes).to(F64)
            count = k.integer(1)
            for extent in extents:
                count = count * extent
            centre = _Centre(k, total.value / count.to(F64), compute)
            square = k.variable(zero)
            for _, place in nested(k, extents, strides):
                square.value = square.value + _squared(centre, x.load(place, lanes).to(compute))
            factor = (1.0 / k.square_root(square.value / count.to(F64) + k.number("epsilon"))).to(compute)
            factor = factor * k.pointer("scale").load(block * lanes, lanes)
            bias = k.pointer("bias").load(block * lanes, lanes)
            for target_place, place in nested(k, extents, strides):
                value = k.fma(centre.of(x.load(place, lanes).to(compute)), factor, bias)
                y.store(value.to(element), target_place)
        return k


def normalize_rows_call(
    x: View, y: View, scale: View | Array, bias: View | Array | None, first: int, *, centred: bool, epsilon: float,
    parts: int = 1, groups: int = 1, group_step: int = 0, part_step: int = 0,
) -> Call:  # fmt: skip
    """Normalise rows that hold the axes from `first` on, or (parts > 1) a group of channels of them.

    With parts > 1 or a group step, scale and bias have one entry per group and part; else they lie along the row.
    """
    count = prod(x.shape[first:])
    along = not (group_step or part_step)
    outer = joined_axes(x.shape[:first], (y.strides[:first], x.strides[:first]))
    dtypes = tuple(a.type.dtype if isinstance(a, View) else a.dtype for a in (y, x, scale))
    spec = NormalizeRows(centred, along, bias is not None, (dtypes[0], dtypes[1], dtypes[2]), len(outer))
    words: dict[str, Argument] = {
        "y": y, "x": x, "scale": scale, "bias": bias, "epsilon": float(epsilon),
        "parts": parts, "inner": count // parts, "groups": groups,
        "group_step": group_step, "part_step": part_step, **axis_words(outer, ("y", "x")),
    }  # fmt: skip
    items = position_count(outer) if y.type.size else 0
    return Call.named(spec, words, items, grain=max(1, 16384 // max(count, 1)))


def normalize_blocked_call(x: View, y: View, scale: Array, bias: Array, epsilon: float) -> Call:
    """Normalise every channel of a blocked map; scale and bias fill whole blocks."""
    spatial = joined_axes(x.shape[2:], (y.strides[2:], x.strides[2:]))
    spec = NormalizeBlocked(y.type.dtype, y.layout.lanes, len(spatial))
    words: dict[str, Argument] = {
        "y": y, "x": x, "scale": scale, "bias": bias, "epsilon": float(epsilon), "blocks": x.blocks,
        "y_picture": y.strides[0], "y_block": y.strides[1], "x_picture": x.strides[0], "x_block": x.strides[1],
        **axis_words(spatial, ("y", "x")),
    }  # fmt: skip
    items = x.shape[0] * x.blocks if y.type.size else 0
    return Call.named(spec, words, items)
