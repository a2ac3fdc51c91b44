"""Buffers whose sizes are open keep apart at all sizes, whatever places the sizes at hand gave them."""

from __future__ import annotations

import random

import pytest

from cenote.compiler.offsets import offsets_as_formulas
from cenote.compiler.placement import ALIGN, Buffer, place
from cenote.core.sizes import is_size
from cenote.core.trace import Trace
from cenote.kernels.base import present
from cenote.runtime.formulas import Formulas
from cenote.runtime.steps import Slot, SlotKind

Levels = dict[str, tuple[int, int]]


def check_apart(buffers: list[Buffer], levels: Levels, trace: Trace, sizes: list[list[int]]) -> None:
    """Give them formulas, and evaluate these: buffers alive at one level share no byte, all lie in the arena."""
    arena = offsets_as_formulas(buffers, levels, trace)
    places = [number for buffer in buffers for number in (present(buffer.slot).offset, buffer.nbytes)]
    numbers = [*places, arena]
    formulas = Formulas.compile(trace.source([n for n in numbers if is_size(n)]), trace.objects)
    for dimensions in sizes:
        found = formulas.numbers(dimensions)
        assert found is not None, "no question is asked"
        values = iter(found[0])
        known = [next(values) if is_size(number) else number for number in numbers]
        spans = [
            (known[2 * i], known[2 * i] + known[2 * i + 1], *levels[b.root]) for i, b in enumerate(buffers)
        ]
        for index, (begin, end, first, last) in enumerate(spans):
            assert begin % ALIGN == 0
            assert end <= known[-1]
            for other, stop, since, until in spans[:index]:
                assert last < since or until < first or end <= other or stop <= begin


def test_a_temporary_in_the_part_of_a_concat_that_is_not_written_yet() -> None:
    """The step that writes the concat's first part has moved to the level of one that uses the place of the second."""
    trace = Trace()
    h = trace.dimension(64)
    concat = Buffer("concat", Slot(SlotKind.ARENA, 0, 0), 128 * h, first=1, last=2)
    temporary = Buffer("temporary", Slot(SlotKind.ARENA, 0, 64 * 64), 64 * h, first=0, last=0)
    levels = {"concat": (0, 2), "temporary": (0, 0)}
    check_apart([concat, temporary], levels, trace, [[64], [1], [300]])


@pytest.mark.parametrize("seed", range(20))
def test_any_lifetimes(seed: int) -> None:
    """Places found for lifetimes in ranks serve lifetimes in levels, which differ."""
    rng, trace = random.Random(seed), Trace()
    n, h = trace.dimension(rng.randint(1, 4)), trace.dimension(rng.randint(1, 90))
    buffers, levels = [], {}
    for number in range(rng.randint(2, 12)):
        first = rng.randint(0, 8)
        nbytes = rng.choice([64 * h, 12 * n * h, n * (h // 2) * 40, 256])
        buffers.append(Buffer(str(number), None, nbytes, first=first, last=first + rng.randint(0, 4)))
        begin = max(0, first - rng.choice([0, 0, 0, 1, 3]))
        levels[str(number)] = begin, buffers[-1].last
    place(buffers)
    check_apart(buffers, levels, trace, [[rng.randint(1, 5), rng.randint(1, 200)] for _ in range(5)])
