"""Random small networks: what is compiled must agree with the references, whatever shares memory with what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx
import onnx.parser
import pytest
from hypothesis import HealthCheck, given, settings

import cenote
import cenote.compiler.compile
from cenote.frontends.onnx import load_onnx
from cenote.graph.interpreter import evaluate
from cenote.runtime.steps import KernelStep, Step
from tests.random_graphs import networks

TOLERANCE = 1e-4


def arrays_for(model: onnx.ModelProto, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {x.name: [d.dim_value for d in x.type.tensor_type.shape.dim] for x in model.graph.input}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def fill_with_junk(model: cenote.Model) -> None:
    """What a program has not written must not be read: NaN in its arena, also where halos lie."""
    for stage in model._stages.values():
        for instance in stage.plan.program._free:
            instance.arena[:] = 0xFF


def check(model: onnx.ModelProto) -> None:
    feed = arrays_for(model)
    before = {name: x.copy() for name, x in feed.items()}
    want = evaluate(load_onnx(model).graph, feed)
    compiled = cenote.load(model, threads=1)
    fill_with_junk(compiled)
    got = compiled.run(feed)
    for name, y in want.items():
        error = TOLERANCE * max(1.0, float(np.abs(y).max()))
        np.testing.assert_allclose(got[name], y, rtol=TOLERANCE, atol=error, err_msg=name)
    team = cenote.load(model, threads=2)
    fill_with_junk(team)
    for name, y in team.run(feed).items():
        np.testing.assert_array_equal(y, got[name], err_msg=f"{name} at 2 threads")
    (stage,) = compiled._stages.values()
    program = stage.plan.program
    stage.plan = replace(stage.plan, program=replace(program, steps=reordered(program.steps), _free=[]))
    for name, y in compiled.run(feed).items():
        np.testing.assert_array_equal(y, got[name], err_msg=f"{name}: a barrier is missing")
    for name, x in feed.items():
        np.testing.assert_array_equal(x, before[name], err_msg=f"input {name} was written to")


def reordered(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps between two barriers the other way round: threads may reach them in any order."""
    result: list[Step] = []
    group: list[KernelStep] = []
    for step in steps:
        if not isinstance(step, KernelStep):
            assert not group, "a host step follows a barrier"
            result.append(step)
            continue
        group.append(step)
        if step.barrier:
            backwards = [replace(one, barrier=False) for one in group[::-1]]
            result += [*backwards[:-1], replace(backwards[-1], barrier=True)]
            group = []
    assert not group, "a program ends with a barrier"
    return tuple(result)


@pytest.fixture(autouse=True)
def threads_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """These programs are so small that they would run on one thread."""
    monkeypatch.setattr(cenote.compiler.compile, "WORTH_THREADS", 0.0)


@settings(
    max_examples=250, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)  # fmt: skip
@given(networks())
def test_random_networks(model: onnx.ModelProto) -> None:
    check(model)


def model_of(text: str) -> onnx.ModelProto:
    """A model out of ONNX's text form, random weights for the initialisers it declares as inputs named w…."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18]>\n{text}')
    rng = np.random.default_rng(3)
    for declared in [x for x in model.graph.input if x.name.startswith("w")]:
        shape = [d.dim_value for d in declared.type.tensor_type.shape.dim]
        noise = (rng.standard_normal(shape) / np.prod(shape[1:]) ** 0.5).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(noise, declared.name))
        model.graph.input.remove(declared)
    return model


CORNERS = {
    "two halos of one buffer": """g (float[1,16,6,6] x, float[16,16,5,5] w5, float[16,16,3,3] w3)
        => (float[1,16,6,6] y) { a = Relu(x)  b = Conv<pads=[2,2,2,2]>(a, w5)  c = Conv<pads=[1,1,1,1]>(a, w3)
        y = Add(b, c) }""",
    "an asymmetric halo in a concat": """g (float[1,16,6,6] x, float[16,16,1,1] w1, float[16,32,3,3] w3,
        float[8,16,2,2] w2)
        => (float[1,16,6,6] y, float[1,8,6,6] z) { a = Conv(x, w1)  b = Conv(a, w1)  ab = Concat<axis=1>(a, b)
        y = Conv<pads=[1,1,1,1]>(ab, w3)  z = Conv<pads=[0,1,1,0]>(a, w2) }""",
    "a view outlives what could overwrite it": """g (float[1,16,4,4] x) => (float[1,256] y, float[1,256] z)
        { a = Sigmoid(x)  b = Flatten(a)  c = Neg(a)  d = Flatten(c)  y = Add(b, d)  e = Abs(b)  z = Add(e, b) }""",
    "a concat of a concat and of a value twice": """g (float[1,16,4,4] x, float[16,16,1,1] w) => (float[1,96,4,4] y)
        { a = Conv(x, w)  b = Conv(a, w)  c = Concat<axis=1>(a, b)  y = Concat<axis=1>(c, a, a, c) }""",
    "parts of a split as outputs, one of them read again": """g (float[2,32,4,4] x, float[16,16,1,1] w)
        => (float[2,16,4,4] a, float[2,16,4,4] c) { r = Relu(x)  a, b = Split<axis=1, num_outputs=2>(r)
        d = Conv(b, w)  c = Add(d, a) }""",
    "an output read by later nodes": """g (float[1,16,4,4] x, float[16,16,3,3] w)
        => (float[1,16,4,4] a, float[1,16,4,4] c)
        { a = Conv<pads=[1,1,1,1]>(x, w)  b = Conv<pads=[1,1,1,1]>(a, w)  c = Add(a, b) }""",
}


@pytest.mark.parametrize("name", CORNERS)
def test_corners_of_the_memory_plan(name: str) -> None:
    check(model_of(CORNERS[name]))
