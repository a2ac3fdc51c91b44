"""The list of pooling algorithms: the contract suite runs all, plans and tuning see all, words are checked."""

from __future__ import annotations

import importlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import cenote
from cenote.codegen import jit
from cenote.core.types import PLAIN, TensorType
from cenote.kernels.base import Call
from cenote.kernels.constants import CONSTANTS
from cenote.kernels.pool import separable
from cenote.kernels.pool.common import PoolSpec
from cenote.kernels.pool.problem import Memory, PoolProblem
from cenote.ops.pool.algorithms import PROBLEMS, RANGES, WINDOWS, candidates
from cenote.ops.pool.window import MaxPool
from cenote.ops.table import operators
from tests.contract.samples import compiled
from tests.harness import input_types
from tests.kernels.pool_oracle import geometry
from tests.targets import TARGETS

EVERY = [algorithm for algorithms in PROBLEMS.values() for algorithm in algorithms]


def test_an_algorithm_is_a_file_of_its_name_with_rates_of_its_own() -> None:
    names = [algorithm.name for algorithm in EVERY]
    assert len(set(names)) == len(names)
    for algorithm in EVERY:
        assert algorithm.offer is importlib.import_module(f"cenote.kernels.pool.{algorithm.name}").offer
    assert all(set(names) == set(each.pools) for each in CONSTANTS.values())


def test_the_contract_suite_runs_every_algorithm() -> None:
    """On every sample that it accepts: each is a lowering of its own."""
    seen: set[str] = set()
    for op in operators():
        if not op.__module__.startswith("cenote.ops.pool."):
            continue
        for sample in compiled(op):
            lowerings = sample.op.lowerings(input_types(sample.inputs, True), TARGETS[0])
            seen |= {lowering.name for lowering in lowerings}
    assert seen >= {algorithm.name for algorithm in EVERY}


def problem(window: int = 3, stride: int = 1, **others: object) -> PoolProblem:
    g = geometry((1, 40, 40), (1, window, window), (1, stride, stride))
    strides = (g.size[1] * g.size[2],) * 3 + (g.size[2],)
    return PoolProblem("max", np.dtype(np.float32), g, Memory(1, 1, strides, strides), **others)  # type: ignore[arg-type]


def test_candidates_come_by_their_estimates() -> None:
    for window in (2, 3, 5, 9, 31):
        found = candidates(problem(window), jit.host_target())
        seconds = [candidate.work.seconds(jit.host_target()) for candidate in found.values()]
        assert seconds == sorted(seconds)
        assert len(found) >= 3
        assert set(found) <= {algorithm.name for algorithm in WINDOWS}
    ranges = candidates(
        problem(1, bounds=[[(0, 1)], [(0, 20), (20, 40)], [(0, 20), (20, 40)]]), jit.host_target()
    )
    assert set(ranges) <= {algorithm.name for algorithm in RANGES}


def test_words_are_passed_by_name_and_checked() -> None:
    """A word too few or too many is an error where the call is made, not a kernel that reads the wrong number."""
    call = separable.offer(problem(), jit.host_target())
    assert call is not None
    made = call.build(None, None)
    assert isinstance(made.spec, PoolSpec)
    words = dict(zip((p.name for p in made.spec.words), made.arguments, strict=True))
    again = Call.named(made.spec, words, made.items, made.grain, made.scratch)
    assert isinstance(again, Call)
    assert again == made
    with pytest.raises(TypeError, match=r"missing: \['band'\]"):
        Call.named(made.spec, {k: v for k, v in words.items() if k != "band"}, 1, 1, 0)
    with pytest.raises(TypeError, match=r"unknown: \['bandd'\]"):
        Call.named(made.spec, {**words, "bandd": 1}, 1, 1, 0)


def model() -> bytes:
    """A 9x9 maximum, which four algorithms serve."""
    node = helper.make_node("MaxPool", ["x"], ["y"], name="pool", kernel_shape=[9, 9], pads=[4] * 4)
    value = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64, 56, 56])]
    result = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([node], "pool", value, result)
    made: onnx.ModelProto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    return made.SerializeToString()


def test_a_plan_shows_the_estimates_of_the_rivals() -> None:
    text = str(cenote.load(model(), tune="off").plan)
    (line,) = (line for line in text.splitlines() if "pool: " in line and "against" in line)
    chosen = candidates_of_model()[0]
    assert f"pool: {chosen}, cost model: " in line
    assert all(name in line for name in candidates_of_model()[1:4])


def test_tuning_measures_pooling_algorithms(monkeypatch: pytest.MonkeyPatch) -> None:
    text = str(cenote.load(model(), tune="full").plan)
    assert "measured: " in text
    assert sum(name in text for name in candidates_of_model()) >= 2


def candidates_of_model() -> list[str]:
    op, x = MaxPool((9, 9), (1, 1), ((4, 4), (4, 4))), TensorType.of(np.float32, (1, 64, 56, 56))
    found = [each for each in op.lowerings((x,), jit.host_target()) if each.inputs == (PLAIN,)]
    return [each.name for each in sorted(found, key=lambda each: each.seconds)]
