"""Normalisation of channels of blocked maps over all places: one of them per lane, or lanes and blocks together.

    item = picture, unit of channels, piece of the map        emitted
      for block of the unit, place of the piece:              emitted    phase "sums"
        sums of x - first and of its square, in float64
      the unit's mean and factor                                         phase "results"
      for block of the unit, place of the piece:              emitted
        y = (x - mean) * factor * scale + bias

`first` is the unit's first element. Its distance from the mean, squared, is at most the sum of all such squares, so
that the variance from one pass over x loses no more than the sum of as many terms does. There are as many pieces as the
sizes say, whatever the threads; of one piece, both phases are one call, else the sums lie between two.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, F64, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size, maximum, minimum
from cenote.core.target import Target
from cenote.core.types import FLOAT64, Array, TensorType
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.elementwise.statistics import Centre
from cenote.kernels.strided_axes import axis_names, axis_words, joined_axes, nested

KEPT = 3  # vectors of a piece between the phases: the sums, those of squares, and the first elements
_ITEMS, _MOST = 8, 16  # that keep threads busy; pieces at most
_PIECE = 1 << 15  # elements of a piece, at least
_NUMBERS = ("blocks", "members", "pieces", "rows", "y_picture", "y_block", "x_picture", "x_block")


@dataclass(frozen=True)
class NormalizeBlocked(KernelSpec):
    """Kernel for maps of so many spatial axes. `group` lanes are normalised together: 1 (each channel apart), a power
    of 2, or all, then of as many neighbouring blocks as `members` says. `phase`: "sums", "results" or "both"."""

    dtype: np.dtype[Any]
    lanes: int
    spatial: int
    group: int = 1
    phase: str = "both"

    @property
    def compute(self) -> Scalar:
        return F64 if Scalar.of(self.dtype) is F64 else F32

    @property
    def words(self) -> tuple[Parameter, ...]:
        pointers = pointers_to(Scalar.of(self.dtype), "y", "x", may_alias=True)
        pointers += (*pointers_to(self.compute, "scale", "bias"), *pointers_to(F64, "sums"))
        numbers = (*_NUMBERS, *axis_names(self.spatial, ("y", "x")))
        return (*pointers, Parameter("epsilon", F64), *numbers_named(numbers))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        for item in k.range(k.begin, k.end):
            unit, piece = item // k.number("pieces"), item % k.number("pieces")
            _Unit(self, k, unit, piece).emit()
        return k


class _Unit:
    """Channels of one picture that are normalised together, and a piece of their maps."""

    def __init__(self, spec: NormalizeBlocked, k: Kernel, unit: Value, piece: Value) -> None:
        self.spec, self.k, self.lanes, self.unit, self.piece = spec, k, spec.lanes, unit, piece
        self.members = k.number("members")
        units = k.number("blocks") // self.members
        picture, self.block = unit // units, unit % units * self.members
        self.y, self.x = (k.pointer(name) + picture * k.number(f"{name}_picture") for name in ("y", "x"))
        self.extents = [k.number(f"extent_{axis}") for axis in range(spec.spatial)]

    def emit(self) -> None:
        k, pieces, zero = self.k, self.k.number("pieces"), self.k.constant(F64, 0.0, self.lanes)
        if self.spec.phase == "both":
            self.results(*self.sums())
            return
        kept = k.pointer("sums") + self.unit * pieces * (KEPT * self.lanes)
        if self.spec.phase == "sums":
            for index, value in enumerate(self.sums()):
                kept.store(value, (self.piece * KEPT + index) * self.lanes)
            return
        total, square = k.variable(zero), k.variable(zero)
        for other in k.range(0, pieces):
            for index, sums in enumerate((total, square)):
                sums.value = sums.value + kept.load((other * KEPT + index) * self.lanes, self.lanes)
        self.results(total.value, square.value, kept.load((KEPT - 1) * self.lanes, self.lanes))

    def places(self) -> Iterator[tuple[Value, Pointer, Pointer]]:
        """Emit loops over blocks and the piece's places; yields the block, and its places in x and y."""
        k, (rows, *others) = self.k, self.extents
        strides = [
            [k.number(f"stride_{axis}_{name}") for axis in range(len(self.extents))] for name in ("y", "x")
        ]
        begin = self.piece * k.number("rows")
        extents = [k.min_drop_nan(k.number("rows"), rows - begin), *others]
        for block in k.range(self.block, self.block + self.members):
            to = self.y + (block * k.number("y_block") + begin * strides[0][0])
            source = self.x + (block * k.number("x_block") + begin * strides[1][0])
            for target_place, place in nested(k, extents, strides):
                yield block, source + place, to + target_place

    def sums(self) -> tuple[Value, Value, Value]:
        """Sums of the piece's differences from the first elements, and of their squares, by lane; the elements."""
        k, lanes = self.k, self.lanes
        first = (self.x + self.block * k.number("x_block")).load(0, lanes).to(F64)
        if self.spec.group > 1:
            first = k.shuffle(
                first, first, [lane // self.spec.group * self.spec.group for lane in range(lanes)]
            )
        zero = k.constant(F64, 0.0, lanes)
        total, square = k.variable(zero), k.variable(zero)
        for _, source, _ in self.places():
            moved = source.load(0, lanes).to(F64) - first
            total.value = total.value + moved
            square.value = k.fma(moved, moved, square.value)
        return total.value, square.value, first

    def results(self, total: Value, square: Value, first: Value) -> None:
        """Write the piece's results from the sums of all."""
        k, spec, lanes, compute = self.k, self.spec, self.lanes, self.spec.compute
        count = k.integer(spec.group) * self.members
        for extent in self.extents:
            count = count * extent
        mean = self._of_group(total) / count.to(F64)
        variance = self._of_group(square) / count.to(F64) - mean * mean
        variance = k.maximum(variance, k.constant(F64, 0.0, lanes))
        factor = 1.0 / k.square_root(variance + k.number("epsilon"))
        centre = Centre(mean + first, compute)
        for block, source, to in self.places():
            own, offset = (k.pointer(name).load(block * lanes, lanes) for name in ("scale", "bias"))
            shift = k.fma((-centre.low * factor).to(compute), own, offset)
            value = k.fma(centre.of(source.load(0, lanes).to(compute)), factor.to(compute) * own, shift)
            to.store(value.to(to.element), 0)

    def _of_group(self, sums: Value) -> Value:
        """Sum over the lanes of each group, in each of its lanes."""
        step = 1
        while step < self.spec.group:
            sums = sums + self.k.shuffle(sums, sums, [lane ^ step for lane in range(self.lanes)])
            step *= 2
        return sums


def pieces_of_maps(x: TensorType, channels: int, lanes: int) -> tuple[int, int]:
    """Return into how many pieces maps are cut where there are few units of so many channels, and their units."""
    pictures, blocks, places = x.shape[0], -(-x.shape[1] // lanes), math.prod(x.shape[2:])
    members = max(1, channels // lanes)
    units = pictures * (blocks // members)
    if not is_size(units) and units >= _ITEMS:
        return 1, units
    return minimum(_MOST, maximum(1, places * members * lanes // _PIECE)), units


def kept_sums(x: TensorType, channels: int, lanes: int) -> tuple[TensorType, ...]:
    """Types of what lies between the two phases."""
    pieces, units = pieces_of_maps(x, channels, lanes)
    return (
        ()
        if not is_size(pieces) and pieces == 1
        else (TensorType(FLOAT64, (units * pieces * KEPT * lanes,)),)
    )


def normalize_blocked_calls(
    x: View, y: View, scale: Array, bias: Array, epsilon: float, channels: int, between: View | None
) -> Iterator[Call]:
    """Normalise so many channels of a blocked map together: a power of 2 that divides the lanes, or a multiple of the
    lanes. Scale and bias fill whole blocks; `between`: see `kept_sums`."""
    lanes = y.layout.lanes
    pieces, units = pieces_of_maps(x.type, channels, lanes)
    spatial = joined_axes(x.shape[2:], (y.strides[2:], x.strides[2:])) or [(1, [0, 0])]  # one place
    rows = -(-spatial[0][0] // pieces)
    pieces = -(-spatial[0][0] // rows)
    words: dict[str, Argument] = {
        "y": y,
        "x": x,
        "scale": scale,
        "bias": bias,
        "sums": between,
        "epsilon": float(epsilon),
        "blocks": x.blocks,
        "members": max(1, channels // lanes),
        "pieces": pieces,
        "rows": rows,
        "y_picture": y.strides[0],
        "y_block": y.strides[1],
        "x_picture": x.strides[0],
        "x_block": x.strides[1],
        **axis_words(spatial, ("y", "x")),
    }
    items = units * pieces if y.type.size else 0
    for phase in ("both",) if between is None else ("sums", "results"):
        spec = NormalizeBlocked(y.type.dtype, lanes, len(spatial), min(channels, lanes), phase)
        yield Call.named(spec, words, items)
