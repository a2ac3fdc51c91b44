"""`cenote.compress` as a whole: bounds, goals, reports, errors, and what other engines make of the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto

import cenote
from cenote.compression import compress as module
from cenote.diagnosis.context import Difference
from tests.quantization.networks import model, node, noise

ort = pytest.importorskip("onnxruntime")

X = noise(2, 3, 8, 8)


def network(opset: int = 13) -> ModelProto:
    """A convolution with its normalisation, a wide linear layer, one of low rank."""
    constants = {
        "w1": noise(32, 3, 3, 3), "gamma": 1 + noise(32, scale=0.1), "beta": noise(32), "mean": noise(32),
        "variance": np.abs(noise(32)) + 1, "w2": noise(96, 32 * 64, scale=0.02), "b2": noise(96),
        "w3": noise(96, 8) @ noise(8, 256) / 8, "w4": noise(256, 10),
    }  # fmt: skip
    nodes = [
        node("Conv", "x w1", "c", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "c gamma beta mean variance", "n"),
        node("Relu", "n", "r"),
        node("Flatten", "r", "f"),
        node("Gemm", "f w2 b2", "g", transB=1),
        node("Relu", "g", "h"),
        node("MatMul", "h w3", "m"),
        node("MatMul", "m w4", "y"),
    ]
    return model(nodes, {"x": ["n", 3, 8, 8]}, "y", constants, opset)


@pytest.fixture(autouse=True)
def timing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test measures time: a variant takes as long as the model."""
    monkeypatch.setattr(module, "paired", lambda before, after, seconds: Difference(-0.01, 0.0, 0.01, 1.0))


def test_constants_that_are_listed_as_inputs_too_need_no_data(tmp_path: Path) -> None:
    """As files of older exporters have them, counters of training and statistics of normalisations among them."""
    listed = network()
    listed.graph.initializer.append(
        onnx.numpy_helper.from_array(np.array(7, np.int64), "num_batches_tracked")
    )
    listed.graph.input.extend(
        onnx.helper.make_tensor_value_info(each.name, each.data_type, each.dims)
        for each in listed.graph.initializer
    )
    found = cenote.compress(listed, tmp_path / "small.onnx", within=2e-2, calibration=X, threads=1)
    assert found.kept
    assert [each.name for each in cenote.load(tmp_path / "small.onnx").inputs] == ["x"]


def test_the_file_is_small_and_right_everywhere(tmp_path: Path) -> None:
    found = cenote.compress(network(), tmp_path / "small.onnx", within=2e-2, calibration=X, threads=1)
    assert {each.treatment for each in found.kept} >= {"low_rank", "int8"}
    assert found.after.file_bytes < found.before.file_bytes / 3
    assert found.after.memory_bytes < found.before.memory_bytes / 3
    assert found.error <= 2e-2
    written = onnx.load(tmp_path / "small.onnx")
    onnx.checker.check_model(written, full_check=True)
    wanted = np.asarray(cenote.load(network())(X))
    bound = 2e-2 * np.abs(wanted).max()
    small = np.asarray(cenote.load(tmp_path / "small.onnx")(X))
    assert np.abs(small - wanted).max() <= bound * (1 + 1e-4)
    plain = ort.SessionOptions()
    # With optimisations its answers are 1.2e-2 off; its MatMulNBits may round what is multiplied to 8 bits.
    plain.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    (theirs,) = ort.InferenceSession(tmp_path / "small.onnx", plain).run(None, {"x": X})
    np.testing.assert_allclose(small, theirs, rtol=0, atol=1e-4 * np.abs(wanted).max())


def test_the_bound_decides(tmp_path: Path) -> None:
    strict = cenote.compress(
        network(), tmp_path / "a.onnx", within=1e-3, calibration=X, treatments=["int4", "float16"]
    )
    assert {each.treatment for each in strict.kept} == {"float16"}
    loose = cenote.compress(
        network(), tmp_path / "b.onnx", within=0.5, calibration=X, treatments=["int4", "float16"]
    )
    assert "int4" in {each.treatment for each in loose.kept}
    assert loose.after.file_bytes < strict.after.file_bytes
    assert all(each.why.startswith("differs") for each in strict.changes if not each.kept)


def test_speed_decides_where_it_is_the_goal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {"calibration": X, "treatments": ["float16"]}
    same = cenote.compress(network(), tmp_path / "a.onnx", goal="speed", **given)
    assert not same.kept
    slow = Difference(-0.3, -0.2, -0.1, 1.0)
    monkeypatch.setattr(module, "paired", lambda before, after, seconds: slow)
    assert not cenote.compress(network(), tmp_path / "b.onnx", **given).kept
    assert cenote.compress(network(), tmp_path / "c.onnx", goal="size", **given).kept


def test_the_report(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    told: list[tuple[str, int, int]] = []
    found = cenote.compress(
        network(), tmp_path / "a.onnx", treatments=["float16"], progress=lambda *each: told.append(each)
    )
    assert "random numbers" in caplog.text
    assert not found.calibrated
    assert told[-1][1] == told[-1][2] == len(told)
    lines = str(found).splitlines()
    assert lines[0].split()[:2] == ["layer", "treatment"]
    assert "random" in lines[-1]
    assert json.loads(json.dumps(found.as_dict()))["changes"][0]["treatment"] == "float16"


def test_a_shared_constant_is_stored_once(tmp_path: Path) -> None:
    nodes = [node("MatMul", "x w", "a"), node("MatMul", "a w", "y")]
    made = model(nodes, {"x": [1, 40]}, "y", {"w": noise(40, 40)})
    found = cenote.compress(made, tmp_path / "a.onnx", within=0.1, treatments=["int8"])
    assert len(found.kept) == 1
    assert [each.op_type for each in onnx.load(tmp_path / "a.onnx").graph.node].count("DequantizeLinear") == 1


def test_refusals(tmp_path: Path) -> None:
    path, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(network(), path)
    for within in (0, -1, float("nan"), True, "1"):
        with pytest.raises(cenote.ArgumentError, match="within"):
            cenote.compress(path, out, within=within)  # type: ignore[arg-type]
    with pytest.raises(cenote.ArgumentError, match="is the float model itself"):
        cenote.compress(path, path)
    with pytest.raises(cenote.ArgumentError, match="goal"):
        cenote.compress(path, out, goal="beauty")  # type: ignore[arg-type]
    with pytest.raises(cenote.ArgumentError, match="treatments: 'int2'"):
        cenote.compress(path, out, treatments=["int2"])  # type: ignore[list-item]
    with pytest.raises(cenote.ArgumentError, match="treatments"):
        cenote.compress(path, out, treatments="int8")  # type: ignore[arg-type]
    with pytest.raises(cenote.InputError, match="shape"):
        cenote.compress(path, out, calibration=noise(2, 4, 8, 8))
    with pytest.raises(cenote.UnsupportedError, match="no convolution or product"):
        cenote.compress(model([node("Relu", "x", "y")], {"x": [1, 3]}, "y", {}), out)
    with pytest.raises(cenote.MissingFileError):
        cenote.compress(tmp_path / "none.onnx", out)
    made = model([node("MatMul", "x w", "y")], {"x": ["n", "m", 40]}, "y", {"w": noise(40, 40)})
    with pytest.raises(cenote.InputError, match="give calibration data"):
        cenote.compress(made, out)
    with pytest.raises(cenote.ModelError):
        cenote.compress(b"\x08\x0a\x12", out)
    assert not out.exists()
