"""Plans say of each layer why it is not in the narrower numbers that were asked for."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import helper

import cenote
from cenote.compiler.report import PlanDescription
from cenote.core.types import Array
from tests.passes.models import model
from tests.targets import TARGETS

N = helper.make_node
RANDOM = np.random.default_rng(52)
NARROWEST = TARGETS[-1].name
X = RANDOM.integers(0, 256, (1, 16, 9, 9)).astype(np.uint8)
FILTERS = (24, 16, 3, 3)
CONSTANTS: dict[str, Array] = {
    "s": np.float32(0.02), "z": np.uint8(3), "ys": np.float32(0.5), "yz": np.uint8(128),
    "w": RANDOM.integers(-127, 128, FILTERS).astype(np.int8), "ws": np.float32(0.01),
    "wz": np.int8(0), "each": RANDOM.random(16).astype(np.float32) + 1, "eachz": np.zeros(16, np.int8),
    "wide": RANDOM.integers(-9000, 9000, FILTERS).astype(np.int16), "widez": np.int16(0),
    "floats": RANDOM.standard_normal(FILTERS).astype(np.float32),
    "b": RANDOM.standard_normal(24).astype(np.float32),
    "deep": RANDOM.integers(-127, 128, (16, 4, 3, 3)).astype(np.int8),
}  # fmt: skip
READ = N("DequantizeLinear", ["x", "s", "z"], ["xf"])
WRITE = N("QuantizeLinear", ["c", "ys", "yz"], ["y"])
WEIGHTS = N("DequantizeLinear", ["w", "ws", "wz"], ["wf"])


def reasons(content: bytes, precision: str = "fast") -> dict[str, str]:
    """The reasons by layer, as a plan has them after a trip through JSON, and as its text does."""
    loaded = cenote.load(content, precision=precision, tune="off")
    plan = loaded.plan.describe()
    again = PlanDescription.from_dict(json.loads(json.dumps(plan.as_dict())))
    found = {step.node: step.not_narrower for step in again.steps if step.not_narrower}
    lines = str(again).splitlines()
    assert all(f"        {node}: {reason}" in lines for node, reason in found.items())
    assert any(line.startswith("precision: ") for line in lines) == bool(found)
    return found


def quantised(nodes: Sequence[onnx.NodeProto], output: str = "y") -> dict[str, str]:
    kinds = {output: onnx.TensorProto.FLOAT} if output == "c" else None
    return reasons(model(nodes, {"x": X}, CONSTANTS, [output], kinds))


def conv(weights: str, *bias: str, name: str = "layer") -> onnx.NodeProto:
    return N("Conv", ["xf", weights, *bias], ["c"], name=name)


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ([READ, WEIGHTS, conv("wf"), WRITE], ""),
        ([READ, conv("floats"), WRITE], "its weights are not quantised, or in blocks"),
        (
            [READ, N("DequantizeLinear", ["wide", "ws", "widez"], ["wf"]), conv("wf"), WRITE],
            "its weights are int16, their scale float32",
        ),
        (
            [READ, N("DequantizeLinear", ["w", "each", "eachz"], ["wf"], axis=1), conv("wf"), WRITE],
            "the scales of its weights are neither one nor one for each filter",
        ),
        (
            [READ, N("DequantizeLinear", ["deep", "ws", "wz"], ["wf"]),
             N("ConvTranspose", ["xf", "wf"], ["c"], name="layer", group=4), WRITE],
            "transposed convolutions of bytes have one group, not 4",
        ),
        (
            [READ, N("Relu", ["xf"], ["r"]), N("Softplus", ["r"], ["p"]), WEIGHTS,
             N("Conv", ["p", "wf"], ["c"], name="layer"), WRITE],
            "its input is not quantised, or in blocks",
        ),
    ],
    ids=["bytes", "float weights", "16 bits", "scales", "groups", "float input"],
)  # fmt: skip
def test_of_quantised_models(nodes: list[onnx.NodeProto], reason: str) -> None:
    assert quantised(nodes) == ({"layer": f"not on bytes: {reason}"} if reason else {})


@pytest.mark.parametrize("name", ["layer", ""])
def test_a_reason_stays_with_a_layer_that_absorbs_others(name: str) -> None:
    """The activation goes into the convolution, whose result has another name and layout then."""
    found = quantised(
        [READ, conv("floats", "b", name=name), N("Relu", ["c"], ["r"]), N("Abs", ["r"], ["y"])], "y"
    )
    assert list(found.values()) == ["not on bytes: its weights are not quantised, or in blocks"]


def test_no_layer_of_a_model_whose_weights_alone_are_quantised_has_a_reason() -> None:
    x = RANDOM.standard_normal(X.shape).astype(np.float32)
    content = model([WEIGHTS, N("Conv", ["x", "wf"], ["y"])], {"x": x}, CONSTANTS, ["y"])
    assert reasons(content) == {}


FLOATS = model(
    [
        N("Conv", ["x", "floats"], ["c"], name="constant"),
        N("Conv", ["c", "v"], ["d"], name="computed"),
        N("ConvTranspose", ["d", "deep"], ["e"], name="transposed"),
        N("Relu", ["e"], ["y"]),
    ],
    {"x": RANDOM.standard_normal(X.shape).astype(np.float32), "v": np.ones((16, 24, 3, 3), np.float32)},
    {"floats": CONSTANTS["floats"], "deep": CONSTANTS["deep"].astype(np.float32)},
    ["y"],
)


@pytest.mark.parametrize(
    ("precision", "name"),
    [("bfloat16", "bfloat16"), ("float16x3", "float16 parts")],
    ids=["bfloat16", "float16x3"],
)
def test_of_processors_without_such_products(
    precision: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CENOTE_TARGET", NARROWEST)
    found = reasons(FLOATS, precision)
    assert {"constant", "computed"} <= found.keys()
    assert all(reason.startswith(f"not in {name}: this CPU has no ") for reason in found.values())


def test_of_layers_that_bfloat16_does_not_suit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CENOTE_TARGET", f"{NARROWEST}+bf16")
    found = reasons(FLOATS, "bfloat16")
    assert found.pop("computed") == "not in bfloat16: its weights or its bias are computed"
    assert found.pop("transposed") == "not in bfloat16: conv_transpose has no kernel of it"
    # Whether it pays to round the input of the other one is the cost model's opinion.
    assert set(found.values()) <= {
        "not in bfloat16: to round its input is estimated to cost more than it saves"
    }
    assert reasons(FLOATS) == {}
