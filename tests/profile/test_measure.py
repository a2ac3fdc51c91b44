"""Profiles of real calls: nothing is timed against a limit, only that what was measured adds up."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import cenote
from cenote.core.errors import ArgumentError, InputError, UnsupportedError
from cenote.profile.data import Profile

DATA = "src/cenote/data/fashion.onnx"


@pytest.fixture(scope="module", params=[1, 2])
def model(request: pytest.FixtureRequest) -> cenote.Model:
    return cenote.load(DATA, threads=request.param)


def picture(model: cenote.Model) -> dict[str, Any]:
    (declared,) = model.inputs
    shape = [n if isinstance(n, int) else 4 for n in declared.shape or ()]
    return {declared.name: np.random.default_rng(0).random(shape).astype(declared.dtype)}


def test_the_accounts_add_up(model: cenote.Model) -> None:
    found = model.profile(picture(model), seconds=0.05)
    assert found.calls >= 3
    total = sum(step.ms for step in found.steps) + found.accounts.python
    assert total == pytest.approx(found.recorded_ms) == found.accounts.total
    assert found.accounts.kernels > 0
    assert found.accounts.python > 0
    assert found.accounts.host == 0
    for step in found.steps:
        assert len(step.busy_ms) == found.threads
        assert step.ms == pytest.approx(step.kernels_ms + step.waits_ms + step.driver_ms)
        assert step.kernels_ms == pytest.approx(sum(step.busy_ms) / found.threads)
    assert sum(step.share for step in found.steps) < 1


def test_steps_are_those_of_the_plan(model: cenote.Model) -> None:
    found = model.profile(picture(model), seconds=0.02)
    planned = model.plan.describe().steps
    assert [(s.node, s.algorithm, s.kernel, s.items) for s in found.steps] == [
        (s.node, s.algorithm, s.kernel, s.items) for s in planned
    ]
    assert [step.index for step in found.steps] == list(range(len(planned)))


def test_the_timeline_lies_within_the_call(model: cenote.Model) -> None:
    found = model.profile(picture(model), seconds=0.02)
    assert {span.step for span in found.timeline if span.what == "kernel"} == {
        step.index for step in found.steps
    }
    for span in found.timeline:
        assert 0 <= span.begin_us <= span.end_us
        assert 0 <= span.thread < found.threads


def test_a_profile_survives_json(model: cenote.Model) -> None:
    found = model.profile(picture(model), seconds=0.02)
    assert Profile.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_the_model_is_left_as_it_was(model: cenote.Model) -> None:
    x = picture(model)
    before = model.run(x)
    stages = dict(model._stages)
    model.profile(x, seconds=0.02)
    assert dict(model._stages) == stages
    for name, y in model.run(x).items():
        np.testing.assert_array_equal(y, before[name])


def test_inputs_may_be_an_array(model: cenote.Model) -> None:
    (x,) = picture(model).values()
    assert model.profile(x, seconds=0.01).inputs == model.profile([x], seconds=0.01).inputs


def test_wrong_arguments_are_refused(model: cenote.Model) -> None:
    for seconds in (0, -1.0, float("nan"), "long", True):
        with pytest.raises(ArgumentError, match="seconds"):
            model.profile(picture(model), seconds=seconds)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        model.profile({"nothing": np.zeros(3)})
    if any(not isinstance(n, int) for n in model.inputs[0].shape or ()):
        with pytest.raises(InputError, match="shapes are not known"):
            model.profile()


def network(nodes: list[onnx.NodeProto], outputs: list[tuple[str, int]], **constants: Any) -> bytes:
    """A model of one input x [1, 8, 16, 16]."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 16, 16])
    ys = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs]
    held = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", [x], ys, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()


def test_what_runs_on_the_host_between_stages_is_a_step() -> None:
    weights = np.random.default_rng(0).standard_normal((8, 8, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("NonZero", ["r"], ["z"], "nonzero"),
        helper.make_node("Cast", ["z"], ["f"], "cast", to=TensorProto.FLOAT),
        helper.make_node("Mul", ["f", "f"], ["y"], "square"),
    ]
    model = cenote.load(network(nodes, [("y", TensorProto.FLOAT)], w=weights), threads=1)
    x = {"x": np.random.default_rng(1).standard_normal((1, 8, 16, 16)).astype(np.float32)}
    before = model.run(x)
    found = model.profile(x, seconds=0.02)
    np.testing.assert_array_equal(model.run(x)["y"], before["y"])
    kinds = [step.kind for step in found.steps]
    assert "between" in kinds
    assert found.stages >= 2
    assert found.accounts.host > 0
    assert all(step.ms > 0 for step in found.steps if step.kind == "between")
    total = sum(step.ms for step in found.steps) + found.accounts.python
    assert total == pytest.approx(found.recorded_ms)
    assert {step.stage for step in found.steps} == set(range(found.stages))
    assert found.table(0)
    assert "<svg" in found.html()


def test_host_steps_have_their_time() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], "relu"),
        helper.make_node("Det", ["r"], ["d"], "det"),
        helper.make_node("Neg", ["d"], ["y"], "neg"),
    ]
    model = cenote.load(network(nodes, [("y", TensorProto.FLOAT)]), threads=2, denormals="flush")
    found = model.profile(seconds=0.02)
    hosts = [step for step in found.steps if step.kind == "host"]
    assert hosts
    assert sum(step.ms for step in hosts) == pytest.approx(found.accounts.host)
    assert all(step.kernels_ms == 0 and step.roof_share is None for step in hosts)
    assert {"host", "kernel"} <= {span.what for span in found.timeline}


def test_more_chunks_than_the_log_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    model = cenote.load(DATA, threads=1)
    monkeypatch.setattr("cenote.profile.measure._ROOM", 4)
    found = model.profile(picture(model), seconds=0.02)
    assert found.calls >= 3
    monkeypatch.setattr("cenote.profile.measure._MOST_ROOM", 8)
    with pytest.raises(UnsupportedError, match="chunks"):
        model.profile(picture(model), seconds=0.02)


@pytest.mark.parametrize("threads", [1, 2])
def test_steps_that_meet_denormals_are_known(threads: int) -> None:
    node = [helper.make_node("Conv", ["x", "w"], ["y0"], "first", pads=[1, 1, 1, 1])]
    node += [helper.make_node("Add", ["y0", "one"], ["y"], "second")]
    node += [helper.make_node("Conv", ["y", "w"], ["z"], "third", pads=[1, 1, 1, 1])]
    weights = np.random.default_rng(0).random((32, 32, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        node, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 32, 24, 24])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.ones(1, np.float32), "one")],
    )  # fmt: skip
    found = cenote.load(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString(),
        threads=threads,
    )
    x = np.random.default_rng(0).random((1, 32, 24, 24)).astype(np.float32)
    usual = found.profile({"x": x}, seconds=0.02)
    if any(step.denormals is None for step in usual.steps):
        pytest.skip("this processor does not tell")
    assert not any(step.denormals for step in usual.steps)
    small = {step.node: step.denormals for step in found.profile({"x": x * 1e-39}, seconds=0.02).steps}
    assert small["first"] == 1
    assert small["third"] == 0, "one was added to its input"
