"""float64 computed in float32 on request: the model's inputs and outputs keep their types."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

import cenote
from cenote.core.load_options import LoadOptions
from cenote.models.loading import load_with
from tests.diagnosis.causes.models import Node, model, noise

SHAPE = (1, 8, 12, 12)


def network() -> tuple[bytes, dict[str, Any]]:
    nodes: list[Node] = [
        ("Conv", ["x", "w"], ["c"], {"pads": [1, 1, 1, 1]}),
        ("Relu", ["c"], ["r"], {}),
        ("Greater", ["r", "limit"], ["g"], {}),  # looks at float64
        ("ReduceMean", ["r"], ["y"], {"axes": [2, 3]}),
        ("Mul", ["y", "limit"], ["z"], {}),
    ]
    constants = {"w": noise(8, 8, 3, 3, dtype=np.float64), "limit": np.array(0.5)}
    made = model(nodes, {"x": SHAPE}, ["z"], constants, np.float64)
    made.graph.output.append(helper.make_tensor_value_info("g", TensorProto.BOOL, None))
    return made.SerializeToString(), {"x": noise(*SHAPE, dtype=np.float64)}


def test_kernels_take_the_place_of_host_steps() -> None:
    source, inputs = network()
    plain, treated = (
        cenote.load(source, threads=1),
        load_with(source, LoadOptions(rewrites=("float32",), threads=1)),
    )
    assert any(step.kind == "host" for step in plain.plan.describe().steps)
    assert not any(step.kind == "host" and "conv" in step.op for step in treated.plan.describe().steps)
    expected, found = plain.run(inputs), treated.run(inputs)
    assert (found["z"].dtype, found["g"].dtype) == (np.float64, np.bool_)
    np.testing.assert_allclose(found["z"], expected["z"], rtol=1e-5, atol=1e-6)
    assert np.mean(found["g"] != expected["g"]) < 0.01


def test_casts_between_both_vanish() -> None:
    nodes: list[Node] = [
        ("Cast", ["x"], ["d"], {"to": TensorProto.DOUBLE}),
        ("Mul", ["d", "two"], ["m"], {}),
        ("Cast", ["m"], ["y"], {"to": TensorProto.FLOAT}),
    ]
    source = model(nodes, {"x": (4, 5)}, ["y"], {"two": np.array(2.0)}).SerializeToString()
    treated = load_with(source, LoadOptions(rewrites=("float32",), threads=1))
    steps = [step.op for step in treated.plan.describe().steps]
    assert not any("cast" in op for op in steps), steps
    x = noise(4, 5)
    assert np.array_equal(treated.run({"x": x})["y"], 2 * x)


def test_without_the_request_nothing_changes() -> None:
    source, inputs = network()
    plain = cenote.load(source, threads=1)
    assert np.array_equal(plain.run(inputs)["z"], load_with(source, LoadOptions(threads=1)).run(inputs)["z"])
