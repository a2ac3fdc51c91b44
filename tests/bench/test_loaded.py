"""The loaded-machine comparison, on engines that behave and one that does not."""

import math
import os
from pathlib import Path

import numpy as np
import pytest

from bench.engines import EngineSpec
from bench.loaded import Slowdown, endless_loops, markdown, measure
from bench.rounds import Plan

X = np.arange(6, dtype=np.float32)


class Files:
    """What ModelFiles offers, without files."""

    name = "doubling"

    def read(self, what: str) -> np.ndarray:
        return {"x": X, "y64": 2 * X}[what]


@pytest.fixture(autouse=True)
def fake_engines_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


def test_each_engine_is_measured_alone_and_beside_the_loops():
    specs = [EngineSpec(name.lower(), "fake_engines", name) for name in ("Doubler", "SlowDoubler", "Crashes")]
    good, slow, crashed = measure(Files(), specs, Plan(threads=1, seconds=0.1, rounds=2), loops=1)
    for result in (good, slow):
        assert result.failure == ""
        assert 0 < result.quiet < math.inf
        assert 0 < result.loaded < math.inf
    assert slow.quiet >= 0.02
    assert "code 7" in crashed.failure
    text = markdown([good, slow, crashed], loops=1)
    assert "| doubling | 1 |" in text
    assert "crashes on doubling: " in text


def test_the_loops_end():
    with endless_loops(2):
        children = Path(f"/proc/self/task/{os.getpid()}/children")
        running = children.read_text().split() if children.exists() else None
    assert running is None or len(running) >= 2
    if running is not None:
        assert not set(running) & set(children.read_text().split())


def test_the_table_shows_factors():
    rows = [Slowdown("net", 2, "one", 0.001, 0.002), Slowdown("net", 2, "two", 0.001, 0.0045)]
    text = markdown(rows, loops=2)
    assert "(2.00)" in text
    assert "| geometric mean of factors | 2 | 2.00 | 4.50 |" in text
