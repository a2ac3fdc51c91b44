"""Reasons why a pass leaves a layer in wider numbers than were asked for, which plans show (`Graph.reasons`)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cenote.core.sizes import plain
from cenote.core.target import Target
from cenote.core.text import shown_seconds
from cenote.core.types import TensorType
from cenote.ops.base import Op


class Declined(Exception):
    """A layer is not put in narrower numbers; the message says why."""


def estimated(op: Op, types: Sequence[TensorType | None], target: Target) -> float:
    """Return the estimate of an operator's fastest kernel, infinity where it has none, at the sizes at hand: whether
    one operator is faster than another at every open size is not asked, for it would cost plans, and both are right."""
    return min((plain(each.seconds) for each in op.lowerings(types, target)), default=math.inf)


def slower(narrow: float, wide: float, word: str) -> str:
    """Return the reason where narrower numbers, named by `word`, are estimated to take more seconds than float32."""
    return f"estimated to be slower: {shown_seconds(narrow)} {word}, {shown_seconds(wide)} in float32"
