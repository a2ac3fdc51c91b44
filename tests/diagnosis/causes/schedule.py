"""Samples of the causes in `diagnosis/causes/schedule`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from cenote.core.target import physical_cores
from tests.diagnosis.causes.models import convolution, largest_in_rows, model, noise
from tests.diagnosis.causes.sample import Pair, Sample

TWO_THREADS = {"threads": 2}
NUMBERS = 3 << 20  # of which the largest is sought


def _on_host(operator: str) -> Sample:
    shape = (64, 16, 16)
    graph = model([(operator, ["x"], ["y"], {})], {"x": shape}, ["y"], {})
    return Sample(graph, {"x": noise(*shape)})


def _threads(times: int) -> Sample:
    """As many threads as cores, so many times."""
    return Sample(*convolution(64, 64, 28, count=6), {"threads": times * physical_cores()})


@contextlib.contextmanager
def _one_cpu() -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


SCHEDULE = {
    "host": Pair(lambda: _on_host("Det"), lambda: _on_host("Relu")),
    "imbalance": Pair(
        lambda: Sample(*largest_in_rows(3, NUMBERS), TWO_THREADS),
        lambda: Sample(*largest_in_rows(16, NUMBERS), TWO_THREADS),
    ),
    "serial": Pair(
        lambda: Sample(*largest_in_rows(1, NUMBERS), TWO_THREADS),
        lambda: Sample(*largest_in_rows(16, NUMBERS), TWO_THREADS),
    ),
    "barrier": Pair(
        lambda: Sample(
            *convolution(16, 16, 8, kernel=3, count=100),
            TWO_THREADS,
            work=100 * (16 * 16 * 8 * 8) / (2 * 128 * 128 * 56 * 56),
        ),
        lambda: Sample(*convolution(128, 128, 56, count=2), TWO_THREADS),
    ),
    "oversubscribed": Pair(lambda: _threads(2), lambda: _threads(1)),
    "pinned": Pair(
        lambda: Sample(*convolution(64, 64, 56, count=2), TWO_THREADS, around=_one_cpu),
        lambda: Sample(*convolution(64, 64, 56, count=2), TWO_THREADS),
    ),
    "contention": Pair(
        lambda: Sample(*convolution(64, 64, 56, count=4), TWO_THREADS, callers=3),
        lambda: Sample(*convolution(64, 64, 56, count=4), TWO_THREADS),
    ),
}
