"""What `cenote.verify` reads and refuses, and what its errors mean."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import cenote
from cenote.verification.errors import relative_error
from tests.small_network import X, small
from tests.verification.networks import NETWORKS


def test_bytes_and_symbolic_sizes(tmp_path: Path) -> None:
    path = small(tmp_path / "small.onnx", "n")
    assert cenote.verify(path.read_bytes()).ok
    found = cenote.verify(path, inputs={"x": np.concatenate([X, X, X])})
    assert found.ok
    assert [row.value for row in found.values][-1] == "y"


def test_stages_that_follow_content(tmp_path: Path) -> None:
    """What follows NonZero is planned when its shape is known, and compared like the rest."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], "first"),
        helper.make_node("NonZero", ["a"], ["places"], "find"),
        helper.make_node("Cast", ["places"], ["numbers"], "cast", to=TensorProto.FLOAT),
        helper.make_node("Exp", ["numbers"], ["y"], "last"),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )  # fmt: skip
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    found = cenote.verify(path)
    assert found.ok
    assert found.values[-1].value == "y"
    assert found.values[-1].inherited is not None


def test_the_network_in_torch_beside_the_model(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    class Doubled(torch.nn.Module):  # type: ignore[misc,name-defined]  # torch is optional
        def forward(self, x: object) -> object:
            return x + x  # type: ignore[operator]

    nodes = [helper.make_node("Add", ["x", "x"], ["y"], "add")]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )  # fmt: skip
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    torch.export.save(torch.export.export(Doubled(), (torch.zeros(3, 4),)), tmp_path / "m.pt2")
    found = cenote.verify(path, against="torch")
    assert found.ok
    assert found.values[-1].inherited == 0


def test_refusals(tmp_path: Path) -> None:
    path = small(tmp_path / "small.onnx", "n")
    with pytest.raises(cenote.ArgumentError, match="none of onnxruntime"):
        cenote.verify(path, against="magic")
    with pytest.raises(cenote.ArgumentError, match="tolerance"):
        cenote.verify(path, tolerance=math.nan)
    with pytest.raises(cenote.InputError, match="no input"):
        cenote.verify(path, inputs={"z": X})
    with pytest.raises(cenote.InputError, match="x"):
        cenote.verify(path, inputs={"x": X.astype(np.float64)})
    with pytest.raises(cenote.MissingFileError):
        cenote.verify(tmp_path / "nothing.onnx")
    with pytest.raises(cenote.UnsupportedError, match=r"onnxruntime|litert"):
        cenote.verify(path, against="litert")


def test_memory_is_bounded_by_running_the_peer_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cenote.verification import verify as verifying

    monkeypatch.setattr(verifying, "_LEAST_BUDGET", 1)
    assert cenote.verify(NETWORKS["residual"](tmp_path / "m.onnx")).ok


@pytest.mark.parametrize(
    ("got", "wanted", "error"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 2.5], [1.0, 2.0], 0.25),
        ([np.nan, 2.0], [np.nan, 2.0], 0.0),
        ([np.nan, 2.0], [1.0, 2.0], math.inf),
        ([np.inf, 2.0], [-np.inf, 2.0], math.inf),
        ([1.0], [0.0], math.inf),
        ([1.0], [1.0, 1.0], math.inf),
        ([], [], 0.0),
    ],
)
def test_relative_error(got: list[float], wanted: list[float], error: float) -> None:
    assert relative_error(np.array(got), np.array(wanted)) == error


def quantised(path: Path) -> Path:
    """Two linear layers with integers between them, whose roundings the second amplifies."""
    rng = np.random.default_rng(0)
    weights = {
        "a": rng.standard_normal((64, 64)).astype(np.float32),
        "b": (rng.standard_normal((64, 8)) * 20).astype(np.float32),
        "scale": np.float32(0.125),
        "zero": np.int8(0),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["p"], "first"),
        helper.make_node("QuantizeLinear", ["p", "scale", "zero"], ["q"], "round"),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["r"], "back"),
        helper.make_node("MatMul", ["r", "b"], ["y"], "second"),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [256, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_roundings_to_integers_are_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What two engines round to different integers is not an error, whatever the layers behind make of it."""
    from cenote.verification.engines import OnnxRuntime

    values = OnnxRuntime.values

    def otherwise(self: Any, feed: Any, names: Any) -> Any:
        return values(self, {name: x * np.float32(1 + 5e-6) for name, x in feed.items()}, names)

    monkeypatch.setattr(OnnxRuntime, "values", otherwise)
    found = cenote.verify(quantised(tmp_path / "m.onnx"))
    assert found.ok, str(found)
    assert max(row.inherited or 0 for row in found.values) > 1e-4
    assert "no wrong kernel and no wrong import" in str(found)


def test_a_wrong_weight_among_integers_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from cenote.frontends.formats import import_model

    path = quantised(tmp_path / "m.onnx")
    imported = import_model(path)
    changed = imported.graph.constants["b"].copy()
    changed[3, 3] += 5
    graph = imported.graph.replace(constants={**imported.graph.constants, "b": changed})
    monkeypatch.setattr("cenote.models.cutting.import_model", lambda *_, **__: replace(imported, graph=graph))
    found = cenote.verify(path)
    assert found.first is not None
    assert (found.first.node, found.first.kind) == ("second", "import"), str(found)


def test_an_input_is_read_before_its_memory_is_written(tmp_path: Path) -> None:
    """Of maps of one number: what a table of bytes reads lies where it writes, in blocks of channels."""
    generator = np.random.default_rng(2)
    constants = {"scale": np.float32(0.03), "zero": np.uint8(128), "w_scale": np.float32(0.01)}
    nodes = [helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q0"])]
    for place, (filters, channels) in enumerate(((10, 8), (24, 10))):
        weights = generator.integers(-127, 128, (filters, channels, 1, 1)).astype(np.int8)
        constants |= {f"w{place}": weights}
        q, d, w, y, back = (f"{name}{place}" for name in ("q", "d", "dw", "y", "back"))
        nodes += [
            helper.make_node("DequantizeLinear", [q, "scale", "zero"], [d]),
            helper.make_node("DequantizeLinear", [f"w{place}", "w_scale"], [w]),
            helper.make_node("Conv", [d, w], [y]),
            helper.make_node("QuantizeLinear", [y, "scale", "zero"], [f"qy{place}"]),
            helper.make_node("DequantizeLinear", [f"qy{place}", "scale", "zero"], [back]),
            helper.make_node("HardSwish", [back], [f"s{place}"]),
            helper.make_node("QuantizeLinear", [f"s{place}", "scale", "zero"], [f"q{place + 1}"]),
        ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 1, 1])],
        [helper.make_tensor_value_info("q2", TensorProto.UINT8, None)],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )  # fmt: skip
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    found = cenote.verify(path)
    assert found.ok, found
    assert "q1" in [row.value for row in found.values]
