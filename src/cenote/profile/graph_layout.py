"""Places of the boxes and lines of a graph drawn from top to bottom.

Sugiyama, Tagawa, Toda, "Methods for visual understanding of hierarchical system structures" (1981): a row for each
distance from the inputs, a place in every row for each line that passes it, places ordered by the mean of those of
their neighbours in several sweeps, then moved under them as far as the row allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from itertools import pairwise

from cenote.core.deferred import dataclass

# Pixels of a box, between boxes, and of a line that passes a row.
BOX_WIDTH, BOX_HEIGHT, GAP, ROW_GAP, LINE_WIDTH = 222, 38, 18, 20, 12
_SWEEPS = 6
_BOX_WEIGHT = 50.0  # beside 1 of a line: boxes of a chain stand under each other, lines go around them


@dataclass
class Place:
    """A box (`box`: its number), or a line's place in a row (-1). `x` is its middle."""

    box: int
    row: int
    width: int
    above: list[Place] = field(default_factory=list)
    below: list[Place] = field(default_factory=list)
    order: float = 0.0
    x: float = 0.0

    @property
    def top(self) -> float:
        return self.row * (BOX_HEIGHT + ROW_GAP)


@dataclass(frozen=True)
class Drawing:
    """The boxes by number, each line as its places from top to bottom, and the size of the whole."""

    boxes: tuple[Place, ...]
    lines: tuple[tuple[Place, ...], ...]
    width: float
    height: float


def laid_out(reads: Sequence[Sequence[int]], points: frozenset[int] = frozenset()) -> Drawing:
    """Place boxes of which each reads from some with smaller numbers. `points` take no more room than a line."""
    boxes: list[Place] = []
    for number, sources in enumerate(reads):
        row = 1 + max((boxes[source].row for source in sources), default=-1)
        boxes.append(Place(number, row, LINE_WIDTH if number in points else BOX_WIDTH))
    rows: list[list[Place]] = [[] for _ in range(1 + max((box.row for box in boxes), default=-1))]
    for box in boxes:
        rows[box.row].append(box)
    lines = [
        _line(boxes[source], boxes[number], rows)
        for number, sources in enumerate(reads)
        for source in sources
    ]
    _order(rows)
    width = _across(rows)
    return Drawing(tuple(boxes), tuple(lines), width, len(rows) * (BOX_HEIGHT + ROW_GAP) - ROW_GAP)


def _line(start: Place, end: Place, rows: Sequence[list[Place]]) -> tuple[Place, ...]:
    """Join two boxes, with a place in every row between them."""
    places = [start]
    for row in range(start.row + 1, end.row):
        places.append(Place(-1, row, LINE_WIDTH))
        rows[row].append(places[-1])
    places.append(end)
    for upper, lower in pairwise(places):
        upper.below.append(lower)
        lower.above.append(upper)
    return tuple(places)


def _order(rows: Sequence[list[Place]]) -> None:
    """Order the places of each row by the mean place of those that they are joined to, downwards and upwards."""
    for row in rows:
        _number(row)
    for sweep in range(_SWEEPS):
        for row in reversed(rows) if sweep % 2 else rows:
            means = {
                id(place): _mean(place.below if sweep % 2 else place.above, place.order) for place in row
            }
            row.sort(key=lambda place, means=means: means[id(place)])  # type: ignore[misc]
            _number(row)


def _number(row: Sequence[Place]) -> None:
    """The order is that of the middles when all stand side by side, from -0.5 to 0.5: rows of other lengths compare."""
    total = sum(place.width + GAP for place in row)
    left = -total / 2
    for place in row:
        place.order = left + (place.width + GAP) / 2
        left += place.width + GAP


def _mean(places: Sequence[Place], otherwise: float) -> float:
    return sum(place.order for place in places) / len(places) if places else otherwise


def _across(rows: Sequence[Sequence[Place]]) -> float:
    """Set `x`: under what they read, in their order and apart. Returns the width that all take."""
    for row in rows:
        for place in row:
            place.x = place.order
    for sweep in range(_SWEEPS):
        for row in reversed(rows) if sweep % 2 else rows:
            wanted = [_middle(place.below if sweep % 2 else place.above, place.x) for place in row]
            for place, x in zip(row, _apart(wanted, [place.width for place in row]), strict=True):
                place.x = x
    left = min((place.x - place.width / 2 for row in rows for place in row), default=0.0)
    for row in rows:
        for place in row:
            place.x -= left
    return max((place.x + place.width / 2 for row in rows for place in row), default=0.0)


def _middle(places: Sequence[Place], otherwise: float) -> float:
    """The middle of the places of boxes, if there are any: a chain beside a line that passes stays straight."""
    ordered = sorted(place.x for place in places if place.box >= 0) or sorted(place.x for place in places)
    half = len(ordered) // 2
    return (ordered[half] + ordered[~half]) / 2 if ordered else otherwise


def _apart(wanted: Sequence[float], widths: Sequence[int]) -> list[float]:
    """The places nearest to those wanted (least squares; boxes weigh more) that keep their order and distance.

    Without the distances this is regression under a monotone order: neighbours out of order share their mean (pool
    adjacent violators; Barlow et al., 1972).
    """
    offsets, reach = [], 0.0
    for place, width in enumerate(widths):
        reach += (widths[place - 1] / 2 + GAP if place else 0.0) + width / 2
        offsets.append(reach)
    pools: list[tuple[float, float, int]] = []  # mean, weight, count
    for x, offset, width in zip(wanted, offsets, widths, strict=True):
        mean, weight, count = x - offset, 1.0 if width == LINE_WIDTH else _BOX_WEIGHT, 1
        while pools and pools[-1][0] > mean:
            before, heavy, number = pools.pop()
            mean = (mean * weight + before * heavy) / (weight + heavy)
            weight, count = weight + heavy, count + number
        pools.append((mean, weight, count))
    means = [mean for mean, _, count in pools for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]
