"""Windows of 2, 4, 8 … columns of a row in registers: the horizontal half of pooling with wide windows, plain.

A vector of windows twice as wide is two vectors of windows, the second as many columns later: `shifted` lanes of two
neighbours, or for windows of whole vectors simply a later one. The loop reads one new vector per turn and moves every
level on; a level lags behind the one below it, because it needs a vector that comes later. So a row is read once and
written once, whatever the width (31 columns of float32: 3 loads, 5 shuffles, 7 steps per vector).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from cenote.codegen.builder import Kernel
from cenote.codegen.values import Pointer, Value
from cenote.codegen.variables import Variable
from cenote.core.deferred import dataclass
from cenote.kernels.lanes import lanes_from

Combine = Callable[..., Value]
Use = Callable[[list[Value], Value, int], None]
UNROLLED = 4  # vectors of a turn: the levels' older vectors then need not be moved from register to register


@dataclass(frozen=True)
class WindowPart:
    """Part of a window: `size` columns (a power of two), from `offset` columns into the whole window."""

    size: int
    offset: int


def parts_of(width: int, largest: int, disjoint: bool) -> list[WindowPart]:
    """Divide a window into the fewest windows of powers of two up to `largest`; the last may overlap unless
    `disjoint`."""
    group = min(largest, 1 << (width.bit_length() - 1))
    parts = [WindowPart(group, offset) for offset in range(0, width - group + 1, group)]
    offset = len(parts) * group
    if disjoint:
        return parts + binary_parts(width - offset, offset)
    return [*parts, WindowPart(group, width - group)] if offset < width else parts


def binary_parts(width: int, offset: int = 0) -> list[WindowPart]:
    """Divide a window into the powers of two of its width, the largest first."""
    parts: list[WindowPart] = []
    while width:
        size = 1 << (width.bit_length() - 1)
        parts.append(WindowPart(size, offset))
        offset, width = offset + size, width - size
    return parts


class Ladder:
    """Windows of the row at `source`, each given by its parts, computed together for all of `windows`.

    The row is read up to `reach` vectors beyond the last result.
    """

    def __init__(
        self,
        k: Kernel,
        combine: Combine,
        source: Pointer,
        lanes: int,
        windows: Sequence[Sequence[WindowPart]],
    ) -> None:
        self.k, self.combine, self.source, self.lanes, self.windows = k, combine, source, lanes, windows
        top = max(part.size for window in windows for part in window)
        self.sizes = [1 << bit for bit in range(1, top.bit_length())]
        self.delay: dict[int, int] = {}
        for size in self.sizes:
            self.delay[size] = self.delay[size // 2] + self._apart(size // 2) if size > 2 else 0
        every = [part for window in windows for part in window]
        self.lag = max(self._needed(part) for part in every)
        self.kept = {size: self._ages(size, every) for size in self.sizes}

    def _apart(self, size: int) -> int:
        """Number of vectors between the two halves of a window twice the size, rounded up."""
        return max(1, size // self.lanes)

    def _needed(self, part: WindowPart) -> int:
        """Number of vectors after its own that must be read before a window's vector can be computed, for this part."""
        if part.size == 1:
            return 0
        return self.delay[part.size] + -(-part.offset // self.lanes)

    def _ages(self, size: int, parts: Sequence[WindowPart]) -> int:
        """Number of turns back at which a level's vectors are needed."""
        ages = [self._apart(size)] if size < self.sizes[-1] else [0]
        return max(ages + [self._age(part) for part in parts if part.size == size])

    def _age(self, part: WindowPart) -> int:
        return self.lag - self.delay[part.size] - part.offset // self.lanes

    def run(self, *stretches: tuple[Value, int, Use]) -> None:
        """Emit the loops, one for each stretch of (vectors, number of vectors per turn, use); the rest that does not
        fill a turn goes to a loop of single vectors.

        A use gets every window's values for columns at, at+1 …, `at` (from the start of the first stretch), and the
        number of the vector within the turn.
        """
        k, lanes = self.k, self.lanes
        history: dict[int, list[Value]] = {size: [] for size in self.sizes}
        for turn in range(self.lag):
            self._turn(history, k.integer(turn * lanes))
        nothing = self.source.load(0, lanes)
        variables = {
            size: [k.variable(age) for age in (values + [nothing] * self.kept[size])[: self.kept[size]]]
            for size, values in history.items()
        }
        begin: Value = k.integer(0)
        for vectors, unrolled, use in stretches:
            whole = begin + (vectors & ~(unrolled - 1))
            self._loop(variables, begin, whole, unrolled, use)
            begin = begin + vectors
            if unrolled > 1:
                self._loop(variables, whole, begin, 1, use)

    def _loop(
        self, variables: dict[int, list[Variable]], begin: Value, end: Value, unrolled: int, use: Use
    ) -> None:
        for index in self.k.range(begin, end, unrolled):
            history = {size: [v.value for v in kept] for size, kept in variables.items()}
            for turn in range(unrolled):
                at = (index + turn) * self.lanes
                self._turn(history, at + self.lag * self.lanes)
                use([self._window(history, window, at) for window in self.windows], at, turn)
            for size, kept in variables.items():
                for variable, value in zip(kept, history[size], strict=False):
                    variable.value = value

    def _turn(self, history: dict[int, list[Value]], at: Value) -> None:
        """Take in the vector at `at`: the newest of every level comes first in its history."""
        for size in self.sizes:
            half, apart = size // 2, self._apart(size // 2)
            if size == 2:
                value = self.combine(self.source.load(at, self.lanes), self.source.load(at + 1, self.lanes))
            elif len(history[half]) <= apart:
                return  # first turns: too few vectors yet
            else:
                first, later = history[half][apart], history[half][0]
                if half < self.lanes:
                    later = lanes_from(self.k, first, later, half)
                value = self.combine(first, later)
            history[size] = [value, *history[size]][: self.kept[size] + 1]

    def _window(self, history: dict[int, list[Value]], window: Sequence[WindowPart], at: Value) -> Value:
        values: list[Value] = []
        for part in window:
            if part.size == 1:
                values.append(self.source.load(at + part.offset, self.lanes))
                continue
            age, lane = self._age(part), part.offset % self.lanes
            vector = history[part.size][age]
            values.append(lanes_from(self.k, vector, history[part.size][age - 1], lane) if lane else vector)
        return self.combine(*values)

    def at(self, window: Sequence[WindowPart], offset: Value | int) -> Value:
        """Return a window's values at any place, from memory: the same steps in the same order, so the same bits."""
        levels: dict[tuple[int, int], Value] = {}
        source = self.source + offset

        def level(size: int, place: int) -> Value:
            if (size, place) not in levels:
                levels[size, place] = (
                    source.load(place, self.lanes)
                    if size == 1
                    else self.combine(level(size // 2, place), level(size // 2, place + size // 2))
                )
            return levels[size, place]

        return self.combine(*(level(part.size, part.offset) for part in window))


def ends_of(k: Kernel, y: Pointer, count: Value, lanes: int) -> tuple[Value, Value]:
    """Return how many of `count` elements from y on, at the beginning and at the end, not to write past the caches:
    those in cache lines shared with other data, and a line more where fewer than a vector would be left to write."""
    size, line = y.element.nbytes, k.target.line // y.element.nbytes

    def enough(few: Value) -> Value:
        return k.select((few > 0) & (few < lanes), few + line, few)

    head = enough(((0 - k.misaligned(y, k.target.line)) & (k.target.line - 1)) // size)
    return head, enough((count - head) & (line - 1))


def lined_up_spans(k: Kernel, y: Pointer, count: Value, lanes: int) -> Iterator[tuple[Value, bool]]:
    """Yield starts of vectors that cover `count` elements from y on, and whether they may be written
    past the caches."""
    head, rest = ends_of(k, y, count, lanes)
    for begin, end in ((k.integer(0), head), (count - rest, count)):
        for at in k.range(begin, end, lanes):
            yield k.intrinsic("smin", at, end - lanes), False
    for at in k.range(head, count - rest, lanes):
        yield at, True
