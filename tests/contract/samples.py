"""The samples of every operator, one test per operator: thousands of single tests would spend more on pytest than
on themselves. A failure names its sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
import pytest

from cenote.ops import operators
from cenote.ops.base import Op, Sample
from cenote.ops.pool.window import MinPool

MOST = 40  # samples of one operator whose kernels are compiled; those with more have suites of their own
NARROWER_STEP = 4  # narrower targets take every fourth of these: their kernels differ in lanes and FMA alone

each_operator = pytest.mark.parametrize("op", operators(), ids=lambda op: op.name)


@cache
def listed(op: type[Op]) -> tuple[Sample, ...]:
    """The samples, some of which overflow on purpose."""
    with np.errstate(all="ignore"):
        return tuple(op.samples())


def compiled(op: type[Op], widest: bool = True) -> tuple[Sample, ...]:
    """The samples whose kernels are compiled, for the widest target or for narrower ones."""
    step = -(-len(listed(op)) // MOST)
    if op is MinPool:  # max_pool's samples and kernels with the order reversed
        step *= 2
    found = listed(op)[::step]
    return found if widest else found[::NARROWER_STEP]


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
