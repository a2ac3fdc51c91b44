"""Rotary positions: pairs of the features of each head are rotated by the angle of their place.

for item in begin .. end:                emitted; an item is one place of one sample
    row of the tables                    the place's own, or by its position
    for head:                            emitted
        for pair of features:            emitted; in vectors where the two halves are turned
            a, b = cos a - sin b, sin a + cos b
        the features beyond are copied
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, F64, I64, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.elementwise.elementwise import vector_lanes
from cenote.kernels.selection.indices import IndexRule, Noted, place_of

_WORK = 1 << 14  # elements of a piece of work
RULE = IndexRule()


@dataclass(frozen=True)
class RotarySpec(KernelSpec):
    """Kernel of rotary positions. `position` is the type of positions, None where tables have a row for each place."""

    dtype: np.dtype[Any]
    interleaved: bool
    position: np.dtype[Any] | None

    @property
    def words(self) -> tuple[Parameter, ...]:
        indices = (
            ()
            if self.position is None
            else (
                *pointers_to(Scalar.of(self.position), "index"),
                *pointers_to(I64, "found"),
            )
        )
        names = ["length", "heads", "size", "half", "x_sample", "x_place", "x_head"]
        return (
            *pointers_to(Scalar.of(self.dtype), "y", "x", "cosines", "sines"),
            *indices,
            *numbers_named([*names, *(["extent_0", "step_0"] if indices else [])]),
        )

    @property
    def compute(self) -> Scalar:
        return F64 if Scalar.of(self.dtype) is F64 else F32

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        n, lanes = k.number, vector_lanes(self.dtype, target)
        for item in k.range(k.begin, k.end):
            sample, place = item // n("length"), item % n("length")
            row = item * n("half")
            if self.position is not None:
                offset, valid = place_of(k, Noted(k, item, RULE), item, 1)
                row = k.select(valid, offset, k.integer(0))
            start = sample * n("x_sample") + place * n("x_place")
            tables = [k.pointer(name) + row for name in ("cosines", "sines")]
            for head in k.range(0, n("heads")):
                at = start + head * n("x_head")
                self._turn(k, k.pointer("y") + at, k.pointer("x") + at, tables, lanes)
        return k

    def _turn(self, k: Kernel, y: Pointer, x: Pointer, tables: list[Pointer], lanes: int) -> None:
        half, size = k.number("half"), k.number("size")
        whole = k.integer(0)
        if not self.interleaved:
            whole = half // lanes * lanes
            for pair in k.range(0, whole, lanes):
                self._pair(k, y, x, tables, pair, (pair, pair + half), lanes)
        for pair in k.range(whole, half):
            places = (pair * 2, pair * 2 + 1) if self.interleaved else (pair, pair + half)
            self._pair(k, y, x, tables, pair, places, 1)
        for place in k.range(half * 2, size):
            y.store(x.load(place), place)

    def _pair(
        self,
        k: Kernel,
        y: Pointer,
        x: Pointer,
        tables: list[Pointer],
        pair: Value,
        places: tuple[Value, Value],
        lanes: int,
    ) -> None:
        cosine, sine = (table.load(pair, lanes).to(self.compute) for table in tables)
        a, b = (x.load(place, lanes).to(self.compute) for place in places)
        y.store((cosine * a - sine * b).to(y.element), places[0])
        y.store(k.fma(sine, a, cosine * b).to(y.element), places[1])


def rotary_call(
    x: View,
    cosines: View,
    sines: View,
    positions: View | None,
    y: View,
    found: View | None,
    heads: int,
    half: int,
    interleaved: bool,
) -> Call:
    """Return the launch for dense x: (batch, heads, length, size), or of three axes (batch, length, heads * size)."""
    flat = len(x.shape) == 3
    length, size = (x.shape[1], x.shape[2] // heads) if flat else x.shape[2:]
    spec = RotarySpec(x.type.dtype, interleaved, None if positions is None else positions.type.dtype)
    words: dict[str, Argument] = {
        "y": y,
        "x": x,
        "cosines": cosines,
        "sines": sines,
        "length": length,
        "heads": heads,
        "size": size,
        "half": half,
        "x_sample": length * heads * size,
        "x_place": heads * size if flat else size,
        "x_head": size if flat else length * size,
    }
    if positions is not None:
        words |= {"index": positions, "found": found, "extent_0": cosines.shape[0], "step_0": half}
    grain = maximum(1, _WORK // maximum(1, heads * size))
    return Call.named(spec, words, x.shape[0] * length, grain)
