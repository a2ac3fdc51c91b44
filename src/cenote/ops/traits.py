"""Bases of operators that have an attribute in common."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from cenote.ops.base import Op


class MapOp(Op):
    """Base of operators on maps x (N, C, *spatial). With `channels_last`, a field of the subclasses, x and the outputs
    are (N, *spatial, C)."""

    def in_channels_last(self) -> Self | None:
        return None if self.channels_last else replace(self, channels_last=True)  # type: ignore[type-var]


class SumOp(Op):
    """Base of operators that take sums. `accumulate`, a field of the subclasses, is the type they are taken in."""

    accumulate: str | None = None

    def in_float64(self) -> Self | None:
        return replace(self, accumulate="float64")  # type: ignore[type-var]  # subclasses are dataclasses
