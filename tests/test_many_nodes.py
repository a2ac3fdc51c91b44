"""Models of thousands of nodes load in a time that is linear in them, whatever their kind.

Nothing is timed: calls of functions are counted (Python's and C's), for n, 2n and 4n nodes. CPU seconds of 20,000 nodes
are what `python -m bench.many_nodes` takes.
"""

from __future__ import annotations

import cProfile

import pytest

import cenote
from cenote.compiler import placement
from tests.many_nodes import KINDS, many_nodes

N = 24, 16  # nodes, about, of the smallest model of fixed and of open sizes,
LARGER = {  # where few are no sample: chains end at 64 links, few parts or branches are planned otherwise
    "elementwise": 64, "by a scalar": 64, "ladder": 64, "concat": 40, "residual": 24, "slices": 24, "branches": 24,
    "transposes": 24,
}  # fmt: skip
MOST_GROWTH = 2.15  # of the calls from 2n to 4n nodes, over those from n to 2n: 2 is linear, 4 quadratic


# Calls per node, at fixed and at open sizes: 1.3 times the most of three instruction sets.
MOST_CALLS: dict[str, tuple[int, int]] = {
    "elementwise": (1350, 1800),
    "by a scalar": (700, 1100),
    "ladder": (750, 1300),
    "convolutions": (1650, 6250),
    "own weights": (4000, 12100),
    "activations": (1200, 3800),
    "residual": (1550, 5150),
    "quantised convolutions": (1750, 3200),
    "gemms": (1300, 4150),
    "pools": (1600, 6900),
    "turned pools": (1500, 5300),
    "softmax": (1000, 2550),
    "transposes": (300, 550),
    "identities": (200, 200),
    "gather": (1350, 5450),
    "slices": (3050, 13800),
    "casts": (1050, 1850),
    "fan out": (1400, 3400),
    "branches": (2050, 6050),
    "sum": (1250, 4450),
    "concat": (1050, 5650),
    "split": (2750, 8850),
    "arithmetic of sizes": (500, 2200),
}


def _load(content: bytes) -> None:
    model = cenote.load(content, threads=1, tune="off")
    assert str(model.plan_for({"x": (2, 4, 8, 9)}) if not model.plan else model.plan)


def _calls(content: bytes) -> int:
    """Calls of functions in loading a model, planning it for a size and printing the plan."""
    profile = cProfile.Profile()  # which counts in C: a function of Python's takes three times as long
    profile.enable()
    try:
        _load(content)
    finally:
        profile.disable()
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.parametrize("is_open", [False, True], ids=["fixed", "open"])
@pytest.mark.parametrize("kind", KINDS)
def test_loading_is_linear(kind: str, is_open: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CENOTE_PLAN_CACHE", "0")
    monkeypatch.setenv("CENOTE_CHECK_FORMULAS", "0")  # as users load
    monkeypatch.setattr(placement, "_MOST_COMPARED", 8)  # beyond it buffers are placed without comparing all
    n = LARGER.get(kind, N[is_open])
    models = [many_nodes(kind, count, is_open) for count in (n, 2 * n, 4 * n)]
    for content in models:  # so that kernels are there, and whatever a process does once is done
        _load(content)
    small, middle, large = map(_calls, models)
    growth = (large - middle) / (middle - small)
    assert growth < MOST_GROWTH, (small, middle, large)
    assert (large - middle) / (2 * n) < MOST_CALLS[kind][is_open], (small, middle, large)
