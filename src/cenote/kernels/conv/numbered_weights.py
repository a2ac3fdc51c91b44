"""Weights that are known only when the program runs, packed by a table that has the source of each packed number.

Every kernel packs its weights in an order of its own, with zeros in places. Packing the numbers 1, 2, 3 … in the same
way shows that order: 0 is a zero, n the n-th weight. So one kernel packs for all of them, and another those whose
order allows vectors (packed_squares.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, I32, I64
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.types import Array
from cenote.kernels.base import Argument, Call, KernelSpec, View, content_of, numbers_named, pointers_to
from cenote.kernels.conv.packed_squares import squares_call

MOST = 1 << 24  # most weights: they are numbered in float32, which has whole numbers up to here
_PIECE = 16384  # numbers that a thread packs at a time
_UNROLL = 8


@dataclass(frozen=True)
class PickSpec(KernelSpec):
    """Kernel of y[i] = x[table[i] - 1], or 0 where the table has 0."""

    @property
    def words(self) -> tuple[Parameter, ...]:
        table = Parameter("table", I32, pointer=True)
        return (*pointers_to(F32, "x", "y"), table, *numbers_named(("size",)))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        x, y, table = k.pointer("x"), k.pointer("y"), k.pointer("table")
        zero = k.constant(F32, 0.0)

        def pick(at: Any) -> None:
            place = table.load(at).to(I64)
            some = place > 0
            weight = x.load(k.select(some, place - 1, k.integer(0)))
            y.store(k.select(some, weight, zero), at)

        for item in k.range(k.begin, k.end):
            first = item * _PIECE
            last = k.min_drop_nan(first + _PIECE, k.number("size"))
            whole = first + (last - first) // _UNROLL * _UNROLL
            for at in k.range(first, whole, _UNROLL):
                for step in range(_UNROLL):
                    pick(at + step)
            for at in k.range(whole, last):
                pick(at)
        return k


def numbered(shape: tuple[int, ...]) -> Array:
    """Return 1, 2, 3 … as weights of this shape."""
    count = int(np.prod(shape))
    return np.arange(1, count + 1, dtype=np.float32).reshape(shape)


def unpacked_calls(
    calls: Iterable[Call], sources: Mapping[str, View], between: View, lanes: int
) -> list[Call]:
    """Return calls that read weights known only at run time, after the calls that pack these into `between`.

    `calls` were bound with numbers for the words "weights" and "bias", or one of them; `sources` has the real ones.
    """
    bound = list(calls)
    placed: dict[tuple[str, int], View] = {}  # several calls may read the same packed weights: packed once
    packing, changed, at = list[Call](), list[Call](), 0
    for call in bound:
        repacked = call
        for name, source in sources.items():
            numbers = _numbers(call, name)
            if not numbers.size:
                continue
            key = (name, id(call.word(name)))
            if key not in placed:
                placed[key] = between.at(at)
                packing.append(replace(_packing(numbers, source, placed[key], lanes), independent=at > 0))
                at += numbers.size
            repacked = repacked.changed(**{name: placed[key]})
        changed.append(repacked)
    assert at <= between.type.size, "more is packed than there is room for"
    return [*packing, *changed]


def _packing(numbers: Array, source: View, place: View, lanes: int) -> Call:
    """Return the call that packs a source as its numbers lie."""
    in_squares = squares_call(numbers, math.prod(source.shape[1:]), lanes, source, place)
    words: dict[str, Argument] = {"x": source, "y": place, "table": numbers, "size": numbers.size}
    return in_squares or Call.named(PickSpec(), words, -(-numbers.size // _PIECE))


def _numbers(call: Call, name: str) -> Array:
    """Numbers that a packed word of the call holds; none where it has no such word, or another tensor there."""
    has = any(word.name == name for word in call.spec.words)
    numbers = content_of(call.word(name)) if has else None
    return np.zeros(0, np.int32) if numbers is None else numbers.ravel().astype(np.int32)
