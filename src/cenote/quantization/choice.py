"""Choice of the layers that stay in float, so that a metric drops by no more than it may.

Layers are ranked by the error of the outputs when they alone are quantised. The fewest of the worst that bring the
metric back are then found by bisection, as if leaving more in float never made it worse; where it did, the answer is
still one that was measured. With all layers in float nothing is lost, so there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

ByteModel = TypeVar("ByteModel")


def fewest(
    ranked: Sequence[str],
    make: Callable[[frozenset[str]], ByteModel],
    drop: Callable[[ByteModel], float],
    most: float,
) -> tuple[ByteModel, tuple[str, ...]]:
    """Return what was made with the fewest of the ranked names left out, whose drop is at most `most`; and the names.

    `ranked`: worst first.
    """
    low, high = 0, len(ranked)  # with `low` of them left out it drops too much, as far as is known
    found: tuple[ByteModel, tuple[str, ...]] | None = None
    while low < high:
        middle = (low + high) // 2
        made = make(frozenset(ranked[:middle]))
        if drop(made) <= most:
            high, found = middle, (made, tuple(ranked[:middle]))
        else:
            low = middle + 1
    if found is None or len(found[1]) != high:
        found = make(frozenset(ranked[:high])), tuple(ranked[:high])
    return found
