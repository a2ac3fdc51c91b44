"""Memory of a call: arrays, weights, intermediate values over time."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import parser

import cenote
from cenote.profile.metrics.memory_usage import memory_usage
from cenote.profile.metrics.step_metrics import MEMORY

CHAIN = """<ir_version: 8, opset_import: ["" : 17]> g (float[n, 4, 32, 32] x) => (float[n, 4, 32, 32] y) {
  a = Softmax(x) b = CumSum(a, <int64 axis = {3}>) y = Softmax(b) }""".replace(
    "<int64 axis = {3}>", "k"
).replace("(float[n, 4, 32, 32] y) {", "(float[n, 4, 32, 32] y) <int64 k = {3}> {")
ARRAY = 2 * 4 * 32 * 32 * 4  # bytes


@pytest.fixture
def model() -> cenote.Model:
    return cenote.load(parser.parse_model(CHAIN), threads=1)


def test_it_adds_up(model: cenote.Model) -> None:
    model(np.zeros((2, 4, 32, 32), np.float32))
    usage = model.memory_usage()
    assert usage.inputs == (("x", ARRAY),)
    assert usage.outputs == (("y", ARRAY),)
    assert usage.stored_weights == 8
    plan = model.plan.describe().memory
    assert (usage.arena, usage.peak, usage.scratch) == (plan.arena, plan.peak, plan.scratch)
    assert usage.peak == max(step.alive for step in usage.steps) == usage.steps[usage.peak_step].alive
    assert (
        sum(step.added for step in usage.steps) == sum(step.freed for step in usage.steps) == usage.unshared
    )
    alive = 0
    for step in usage.steps:
        alive += step.added
        assert step.alive == alive
        alive -= step.freed
    assert usage.total == 2 * ARRAY + usage.packed_weights + usage.arena + usage.scratch
    moved = sum(each.read_bytes + each.written_bytes for each in model.plan.describe().steps)
    assert sum(each.nbytes for each in usage.levels) == moved
    missed = sum(each.nbytes for each in usage.levels if each.level == MEMORY)
    assert usage.cache_ratio == 1 - missed / moved


def test_it_is_of_the_call_before(model: cenote.Model) -> None:
    with pytest.raises(cenote.ArgumentError, match="memory_usage: no plan exists yet"):
        model.memory_usage()
    for batch in (3, 1):
        model(np.zeros((batch, 4, 32, 32), np.float32))
        assert model.memory_usage().inputs == (("x", batch * ARRAY // 2),)


def test_it_is_told_and_kept(model: cenote.Model, tmp_path: Path) -> None:
    model(np.zeros((2, 4, 32, 32), np.float32))
    usage = model.memory_usage()
    text = str(usage)
    for what in ("inputs", "weights", "intermediates", "outputs", "scratch", "in all", "caches have"):
        assert what in text
    assert cenote.MemoryUsage.from_dict(json.loads(json.dumps(usage.to_dict()))) == usage
    assert usage.html().count("<rect") == len(usage.steps)
    assert "http" not in usage.html()
    plan = tmp_path / "m.plan"
    model.save(plan)
    stored = cenote.load(plan)
    stored(np.zeros((2, 4, 32, 32), np.float32))
    assert stored.memory_usage().stored_weights is None
    assert stored.memory_usage().arena == usage.arena


def test_a_model_without_intermediate_values() -> None:
    usage = memory_usage("m", (), (), (), None)
    assert (usage.total, usage.cache_ratio, usage.peak) == (0, 1.0, 0)
    assert "no intermediate values" in usage.html()
