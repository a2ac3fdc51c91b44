"""Samples of the causes in `diagnosis/causes/surroundings`."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache

import numpy as np

from cenote.core.target import control_groups
from cenote.core.types import Array
from tests.diagnosis.causes.models import convolution, model, noise
from tests.diagnosis.causes.sample import Pair, Sample

TWO_THREADS = {"threads": 2}
# What was recorded of a group that has half a core.
STOPPED = {"throttled_periods": 12, "throttled_ms": 900.0, "quota_cores": 0.5}


@contextlib.contextmanager
def _two_loops() -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@contextlib.contextmanager
def _half_a_core() -> Iterator[None]:
    """This process in a control group with half of a CPU's time, where the system lets it make one (version 1)."""
    groups = [folder for folder in control_groups() if (folder / "cpu.cfs_quota_us").exists()]
    made = groups[0] / f"cenote-{os.getpid()}" if groups else None
    try:
        if made is not None:
            with contextlib.suppress(OSError):
                made.mkdir()
                (made / "cpu.cfs_quota_us").write_text("50000")  # of a period of 100 ms
                (made / "cgroup.procs").write_text(str(os.getpid()))
        yield
    finally:
        if made is not None and made.exists():
            (groups[0] / "cgroup.procs").write_text(str(os.getpid()))
            made.rmdir()


@cache
def _elsewhere() -> Array:
    return np.ones(1 << 28, np.float32)


def _sweep() -> object:
    """Touch 1 GB: the last cache of a large server has a quarter of that."""
    return _elsewhere().sum()


def _pause() -> None:
    """Rest as a server does between requests."""
    time.sleep(0.04)


def _pictures(order: str) -> Sample:
    shape = (8, 64, 128, 128)
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    graph = model([("MaxPool", ["x"], ["y"], pool)], {"x": shape}, ["y"], {})
    return Sample(graph, {"x": np.asarray(noise(*shape), order=order)})  # type: ignore[call-overload]


@contextlib.contextmanager
def _without_cache() -> Iterator[None]:
    before = os.environ.get("CENOTE_CACHE")
    os.environ["CENOTE_CACHE"] = "off"
    try:
        yield
    finally:
        if before is None:
            del os.environ["CENOTE_CACHE"]
        else:
            os.environ["CENOTE_CACHE"] = before


SURROUNDINGS = {
    "foreign": Pair(
        lambda: Sample(*convolution(64, 64, 28, count=4), TWO_THREADS, around=_two_loops),
        lambda: Sample(*convolution(64, 64, 28, count=4), TWO_THREADS),
    ),
    "throttled": Pair(
        lambda: Sample(*convolution(64, 64, 28, count=4), TWO_THREADS, around=_half_a_core, recorded=STOPPED),
        lambda: Sample(*convolution(64, 64, 28, count=4), TWO_THREADS),
    ),
    "cold": Pair(
        lambda: Sample(*convolution(128, 128, 14, count=4), between=_sweep),
        lambda: Sample(*convolution(128, 128, 14, count=4)),
    ),
    "input": Pair(lambda: _pictures("F"), lambda: _pictures("C")),
    "start": Pair(
        lambda: Sample(*convolution(128, 128, 28), around=_without_cache),
        lambda: Sample(*convolution(128, 128, 28)),
    ),
    "woken": Pair(
        lambda: Sample(*convolution(64, 64, 28, count=2), TWO_THREADS, between=_pause),
        lambda: Sample(*convolution(64, 64, 28, count=2), TWO_THREADS),
    ),
}
