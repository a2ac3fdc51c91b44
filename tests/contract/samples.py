"""The samples of every operator, one test per operator: thousands of single tests would spend more on pytest than
on themselves. A failure names its sample.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from cenote.core.target import Target
from cenote.ops.base import Lowering, Op, Sample, ShapeFromData, ValueNeeded
from cenote.ops.pool.window import MinPool
from cenote.ops.table import operators
from tests.harness import input_types, lowerings_of
from tests.targets import NARROWER_STEP

MOST = 40  # samples of one operator whose kernels are compiled; those with more have suites of their own
FEW = 4  # lowerings of a sample that are all compiled; where there are more,
LATER_STEP = 6  # every sixth is, another one for each sample,
ALIKE = 1  # and those of a name that the operator's samples have not had so often
# Operators whose kernels are those of another but for an instruction: every second sample.
TWINS = (
    "global_lp_pool log_softmax max min sub mul div arg_min cum_prod reduce_mean reduce_min reduce_prod reduce_l1 "
    "reduce_l2 reduce_sum_square reduce_log_sum reduce_log_sum_exp min_pool"
)

each_operator = pytest.mark.parametrize("op", operators(), ids=lambda op: op.name)


@cache
def listed(op: type[Op]) -> tuple[Sample, ...]:
    """The samples, some of which overflow on purpose."""
    with np.errstate(all="ignore"):
        return tuple(op.samples())


def has_types(sample: Sample, constants: bool) -> bool:
    """Whether its outputs' types are known before the data."""
    try:
        return bool(sample.op.infer(*input_types(sample.inputs, constants)))
    except (ShapeFromData, ValueNeeded):
        return False


def compiled(op: type[Op], place: int = 0) -> tuple[Sample, ...]:
    """The samples whose kernels are compiled for the target at that place among `TARGETS`, the widest of which is
    first. Narrower ones share theirs out, the first sample apart."""
    step = -(-len(listed(op)) // MOST)
    if op is MinPool:  # max_pool's samples and kernels with the order reversed
        step *= 2
    found = listed(op)[::step]
    if not place:
        return found[::2] if op.name in TWINS.split() and len(found) > 8 else found
    first, *others = found[::NARROWER_STEP]
    return (first, *others[place % 2 :: 2])


class Trial(NamedTuple):
    """A sample, whether its inputs but the first are constants, and the lowerings that are compiled of it."""

    sample: Sample
    constants: bool
    lowerings: list[Lowering]


def trials(op: type[Op], target: Target, place: int = 0) -> Iterator[Trial]:
    """What is compiled for the target at that place among `TARGETS`. Narrower ones take constants and other inputs in
    turns. A sample whose outputs' types depend on data is left out: its reference runs once the data is known."""
    met = {True: Counter[str](), False: Counter[str]()}
    for number, sample in enumerate(compiled(op, place)):
        one = len(sample.inputs) < 2
        for constants in (True,) if one else (number % 2 == 0,) if place else (True, False):
            try:
                found = lowerings_of(sample.op, sample.inputs, target, constants)
            except (ShapeFromData, ValueNeeded):
                continue
            yield Trial(sample, constants, _some(found, number, met[constants]))


def _some(lowerings: Sequence[Lowering], number: int, met: Counter[str]) -> list[Lowering]:
    """All lowerings of a name that few samples had, or all where there are few; else every sixth, others each time."""
    found = []
    for place, lowering in enumerate(lowerings):
        met[lowering.name] += 1
        if len(lowerings) <= FEW or met[lowering.name] <= ALIKE or (number + place) % LATER_STEP == 0:
            found.append(lowering)
    return found


def each_sample(op: type[Op]) -> Iterator[tuple[int, Sample]]:
    """The samples of an operator, numbered."""
    yield from enumerate(listed(op))


@contextmanager
def named(sample: Sample) -> Iterator[None]:
    """Adds the sample to whatever is raised inside."""
    try:
        yield
    except Exception as error:
        error.add_note(f"sample {sample} of {sample.op}")
        raise
