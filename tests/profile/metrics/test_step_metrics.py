"""The four measures of a step, for work and times that are known by construction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

import cenote
from cenote.compiler.report import StepDescription
from cenote.profile.metrics.step_metrics import UNKNOWN, LevelBytes, StepMetrics, levels_of, step_metrics
from cenote.profile.roofs import BandwidthRoof, ComputeRoof, Measured, Roofs

KB, MB = 1000, 1000_000
ROOMS = [("L1", 32 * KB), ("L2", 512 * KB), ("L3", 16 * MB), ("memory", 0)]


def figure(value: float) -> Measured:
    return Measured(value, 0.0)


# Reading at 200, 100, 50 and 10 GB/s, writing as fast; 100 Gop/s.
ROOFS = Roofs(
    "a machine",
    "avx2",
    figure(3.0),
    figure(0.1),
    (ComputeRoof("float32", 1, figure(100.0)), ComputeRoof("float32", 2, figure(200.0))),
    tuple(
        BandwidthRoof(max(1, room // 2), level, room * threads, threads, figure(speed), figure(speed))
        for (level, room), speed in zip(ROOMS[:3], (200.0, 100.0, 50.0), strict=True)
        for threads in (1, 2)
    )
    + tuple(BandwidthRoof(64 * MB, "memory", 0, threads, figure(10.0), figure(10.0)) for threads in (1, 2)),
    (),
    1.0,
)


def step(
    operations: int = 0, read: int = 0, written: int = 0, reads: tuple[int, ...] = ()
) -> StepDescription:
    work: dict[str, Any] = {"executed_operations": operations, "read_bytes": read, "written_bytes": written}
    return StepDescription("kernel", "n", "op", "a", "", **work, reads=reads)


def measured(one: StepDescription, seconds: float, threads: int = 1) -> StepMetrics:
    return step_metrics([one], levels_of([one], ROOFS.rooms(threads)), seconds, threads, ROOFS)


def test_a_step_bound_by_computing() -> None:
    found = measured(step(operations=10**9, read=8 * KB, written=8 * KB), 0.0125)
    assert found.compute == pytest.approx(0.8)  # 10 ms at 100 Gop/s
    assert found.pipeline == pytest.approx(0.8, rel=0.01)
    assert found.cache_hits == 1


@pytest.mark.parametrize(
    ("nbytes", "level", "speed", "hits"),
    [(10 * KB, "L1", 200, 1), (100 * KB, "L2", 100, 1), (4 * MB, "L3", 50, 1), (40 * MB, "memory", 10, 0)],
)
def test_a_step_bound_by_moving_bytes(nbytes: int, level: str, speed: int, hits: int) -> None:
    seconds = 2 * nbytes / speed / 1e9
    found = measured(step(read=nbytes, written=nbytes), 2 * seconds)
    assert found.levels == (LevelBytes(level, 2 * nbytes),)
    assert found.bandwidth == pytest.approx(0.5)
    assert found.cache_hits == hits
    assert found.compute is None


def test_a_step_bound_by_latency() -> None:
    """It neither computes nor moves much: the rest of the time is waiting."""
    found = measured(step(operations=10**6, read=4 * KB, written=4 * KB), 1e-3)
    assert found.compute == pytest.approx(0.01)
    assert found.pipeline is not None
    assert found.pipeline < 0.02


def test_constants_that_a_step_before_has_read_are_near() -> None:
    """The second step reads the 200 KB that the first one has just read; the third has its own, of the call before."""
    own, again = step(read=200 * KB), replace(step(read=200 * KB), shares=0)
    far = step(read=200 * KB, written=40 * MB)
    found = levels_of([own, again, far], ROOFS.rooms(1))
    assert found[1] == (LevelBytes("L2", 200 * KB),)
    assert found[0] == (LevelBytes("memory", 200 * KB),)
    assert [each.level for each in found[2]] == ["memory"]


def test_a_plan_says_which_steps_share_constants() -> None:
    """A chain of products by one matrix, of which each also reads a vector of its own."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.random((64, 64), np.float32), "v": rng.random((64, 64), np.float32)}
    names = [("x", "w", "a"), ("a", "w", "b"), ("b", "v", "c"), ("c", "w", "y")]
    nodes = [helper.make_node("MatMul", [x, w], [y]) for x, w, y in names]
    ends = [helper.make_tensor_value_info(name, 1, (300, 64)) for name in "xy"]
    tensors = [numpy_helper.from_array(w, n) for n, w in weights.items()]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    steps = cenote.load(model, threads=1).plan.describe().steps
    numbers = [number for number, each in enumerate(steps) if each.op.startswith("matmul")]
    places = {number: place for place, number in enumerate(numbers)}
    assert [places.get(steps[number].shares, -1) for number in numbers] == [-1, 0, -1, 1]


def test_threads_share_the_work() -> None:
    found = measured(step(operations=10**9, read=900 * KB, written=0), 0.005, threads=2)
    assert found.compute == pytest.approx(1.0)
    assert found.levels == (LevelBytes("L2", 900 * KB),)  # what two threads' caches hold together


def test_a_value_lies_where_it_was_just_written() -> None:
    steps = [
        step(read=10 * MB, written=20 * KB),  # weights that the next call finds in no cache below L3
        step(read=20 * KB, written=20 * KB, reads=(0,)),
        step(read=8 * MB, written=4 * KB),
        step(read=20 * KB, written=4 * KB, reads=(1,)),
    ]
    found = levels_of(steps, ROOMS)
    assert [each.level for each in found[0]] == ["L3", "memory"]
    assert found[1] == (LevelBytes("L1", 20 * KB), LevelBytes("L2", 20 * KB))
    assert found[3] == (LevelBytes("L1", 4 * KB), LevelBytes("L3", 20 * KB))
    for one, levels in zip(steps, found, strict=True):
        assert sum(each.nbytes for each in levels) == one.read_bytes + one.written_bytes


def test_several_steps_together() -> None:
    steps = [step(operations=10**8, read=1000), step(operations=3 * 10**8, written=1000)]
    found = step_metrics(steps, levels_of(steps, ROOMS), 0.008, 1, ROOFS)
    assert found.compute == pytest.approx(0.5)


def test_nothing_is_known_of_some_steps() -> None:
    host = StepDescription("host", "n", "op", "a", "")
    assert step_metrics([host], [()], 1.0, 1, ROOFS) == UNKNOWN
    assert step_metrics([step(operations=1)], [()], 0.0, 1, ROOFS) == UNKNOWN
    nothing = measured(step(), 1.0)
    assert (nothing.compute, nothing.bandwidth, nothing.cache_hits, nothing.pipeline) == (None,) * 4
