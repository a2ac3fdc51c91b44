"""The nine published topologies of the onnx wheel, with seeded random weights, against ONNX Runtime.

The files' own weights are all 0.02, so that every output is equal and a broken engine passes: each weight is replaced
by noise scaled to keep activations in range.
"""

from __future__ import annotations

import importlib.resources
import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import cenote
import cenote.backend

onnxruntime = pytest.importorskip("onnxruntime")

FOLDER = Path(str(importlib.resources.files(onnx))) / "backend/test/data/light"
NAMES = sorted(path.name.removeprefix("light_").removesuffix(".onnx") for path in FOLDER.glob("light_*.onnx"))
TOLERANCE = 1e-4  # largest error by largest output


def randomized(name: str) -> onnx.ModelProto:
    """The model with He-scaled noise for weights, and statistics of a batch normalisation that stay positive."""
    model = onnx.load(FOLDER / f"light_{name}.onnx")
    rng = np.random.default_rng(5)
    constants = {init.name: init for init in model.graph.initializer}
    made = {n.output[0]: n for n in model.graph.node}
    for node in model.graph.node:
        for position, value in enumerate(node.input):
            source = made.get(value)
            if source is not None and source.op_type == "ConstantOfShape":
                shape = numpy_helper.to_array(constants[source.input[0]])
                init = numpy_helper.from_array(
                    _noise(rng, node.op_type, position, tuple(map(int, shape))), value
                )
                model.graph.initializer.append(init)
                constants[value] = init
                made.pop(value)
                source.op_type = "removed"
    keep = [node for node in model.graph.node if node.op_type != "removed"]
    del model.graph.node[:]
    model.graph.node.extend(keep)
    for init in model.graph.initializer:
        array = numpy_helper.to_array(init)
        if array.dtype == np.float32 and array.size and np.ptp(array) == 0:
            user = next((n for n in model.graph.node if init.name in n.input), None)
            if user is None:
                continue
            position = list(user.input).index(init.name)
            init.CopyFrom(
                numpy_helper.from_array(_noise(rng, user.op_type, position, array.shape), init.name)
            )
    return model


def _noise(rng: np.random.Generator, op: str, position: int, shape: tuple[int, ...]) -> np.ndarray:
    if op == "BatchNormalization":
        low, high = {1: (0.7, 1.3), 2: (-0.1, 0.1), 3: (-0.1, 0.1), 4: (0.5, 2.0)}[position]
        return rng.uniform(low, high, shape).astype(np.float32)
    scale = 0.05 if len(shape) < 2 else math.sqrt(2 / math.prod(shape[1:]))
    # A prime number of them, over and over: drawing the 144 million of VGG19 took 4 s.
    return np.resize(np.float32(scale) * rng.standard_normal(65537, np.float32), shape)


def test_there_are_nine() -> None:
    assert len(NAMES) == 9


@pytest.mark.parametrize("name", NAMES)
def test_light_model(name: str) -> None:
    model = randomized(name)
    data = model.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # the files list initializers that nothing uses
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    feed = session.get_inputs()[0]
    x = np.random.default_rng(1).standard_normal([int(d) for d in feed.shape]).astype(np.float32)
    want = session.run(None, {feed.name: x})[0]
    assert np.ptp(want) > 0, "the noise must reach the output"
    one = cenote.load(data, threads=1)
    results = [one(x), one(x), cenote.backend.prepare(data, threads=2).run([x])[0]]
    error = np.abs(results[0] - want).max() / np.abs(want).max()
    assert error <= TOLERANCE
    assert all(np.array_equal(results[0], other) for other in results[1:]), (
        "bits must not depend on threads or run"
    )
    plan = one.plan
    assert plan.memory.arena_bytes <= 1.10 * plan.memory.peak, (
        "the arena is at most 10 % above the largest live set"
    )
