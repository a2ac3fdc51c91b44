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

each_operator = pytest.mark.parametrize("op", operators(), ids=lambda op: op.name)


@cache
def listed(op: type[Op]) -> tuple[Sample, ...]:
    """The samples, some of which overflow on purpose."""
    with np.errstate(all="ignore"):
        return tuple(op.samples())


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
