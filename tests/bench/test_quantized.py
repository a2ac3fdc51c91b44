"""Files in 8 bits as the benchmarks cut and compare them, and the page."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

pytest.importorskip("onnxruntime")

from bench.files import ModelFiles
from bench.quantized_files import plain_session, run_plainly
from bench.quantized_page import page
from bench.rounds import Outcome
from bench.saturation import Saturation, compared, distances, in_layers
from bench.smart_turn import without_rounding
from bench.verdict import Row

SCALE, ZERO = np.float32(1 / 32), np.uint8(128)
RNG = np.random.default_rng(3)
W = RNG.integers(-127, 128, (16, 8)).astype(np.int8)
W_SCALE = RNG.uniform(0.001, 0.01, 8).astype(np.float32)
X = RNG.standard_normal((4, 16)).astype(np.float32)


@pytest.fixture
def files(tmp_path: Path) -> ModelFiles:
    """Quantisation, a product by columns, quantisation, Relu, quantisation."""
    node = helper.make_node
    nodes = [
        node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        node("DequantizeLinear", ["w", "w_scale"], ["dw"], axis=1),
        node("MatMul", ["d", "dw"], ["m"]),
        node("QuantizeLinear", ["m", "scale", "zero"], ["qm"]),
        node("DequantizeLinear", ["qm", "scale", "zero"], ["dm"]),
        node("Relu", ["dm"], ["r"]),
        node("QuantizeLinear", ["r", "scale", "zero"], ["qr"]),
        node("DequantizeLinear", ["qr", "scale", "zero"], ["y"]),
    ]
    constants = {"scale": SCALE, "zero": ZERO, "w": W, "w_scale": W_SCALE}
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (4, 8))],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    made = ModelFiles("small.int8", tmp_path)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), made.onnx)
    np.savez(made.arrays, x=X)
    return made


def test_layers_take_the_numbers_that_a_plain_run_finds(files: ModelFiles):
    cut, given, wanted = in_layers(files)
    assert sorted(given) == ["q.given", "qm.given", "qr.given", "x"]
    assert [each.name for each in cut.graph.output] == ["q", "qm", "qr"]
    session = plain_session(cut.SerializeToString())
    assert all(not apart.any() for apart in distances(session.run(None, given), wanted))
    # A layer behind a wrong number is right all the same.
    found = session.run(None, {**given, "q.given": 255 - given["q.given"]})
    assert [int((apart > 1).sum()) > 0 for apart in distances(found, wanted)] == [False, True, False]


def test_numbers_more_than_a_step_off_are_counted(files: ModelFiles):
    cut, given, _ = in_layers(files)
    path = files.converted("layers.onnx")
    onnx.save(cut, path)
    # The peer's own numbers, by its optimised session: without VNNI its sums may saturate.
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    wanted = session.run(None, given)
    shifted = [y.astype(np.int64) + steps for y, steps in zip(wanted, (0, 1, 3), strict=True)]
    entry = Saturation("small.int8", "", "onnxruntime")
    found = compared(entry, str(path), given, shifted)
    assert (found.numbers, found.off, found.steps) == (64 + 32 + 32, 32, 3)
    assert compared(entry, "nowhere.onnx", given, wanted).failure


def test_the_float_model_has_what_the_weights_stand_for(files: ModelFiles):
    made = without_rounding(onnx.load(files.onnx))
    assert [node.op_type for node in made.graph.node] == ["MatMul", "Relu", "Identity"]
    assert {each.name for each in made.graph.initializer} == {"dw"}


def test_the_float_model_computes_with_floats(files: ModelFiles, tmp_path: Path):
    path = tmp_path / "float.onnx"
    onnx.save(without_rounding(onnx.load(files.onnx)), path)
    exact = np.maximum(X.astype(np.float64) @ (W * W_SCALE.astype(np.float64)), 0)
    np.testing.assert_allclose(run_plainly(path, X), exact, rtol=1e-5, atol=1e-6)


def outcome(engine: str, milliseconds: float, wrong: float = 0.01) -> Outcome:
    seconds = milliseconds / 1e3
    return Outcome(
        engine, "1", error=wrong, median=seconds, fastest=seconds, round_medians=[seconds, seconds]
    )


def test_the_page_counts_wrong_peers_and_tells_the_gain_over_floats():
    rows = [
        Row("net", 1, [outcome("cenote", 6.0, 0), outcome("onnxruntime", 9.0, 0)]),
        Row("net.int8", 1, [outcome("cenote", 2.0), outcome("onnxruntime", 3.0, 0.9)], tolerance=0.03),
    ]
    found = [
        Saturation("net.int8", "", "onnxruntime", 1000, 0, 1),
        Saturation("net.int8", "avx2", "onnxruntime", 1000, 2, 77),
        Saturation("net.int8", "avx2", "cenote", failure="no"),
    ]
    machine = {
        "processor": "some", "cores": 2, "hypervisor": False, "caches": {}, "isa": ["avx2"], "memory_gib": 1,
        "system": "Linux", "python": "3", "numpy": "2", "narrowed": "avx2",
    }  # fmt: skip
    text = page(rows, found, "the command", "avx2", machine)
    assert "takes **1.5** times as long as Cenote by geometric mean (least 1.5, net; - over" in text
    assert "| net | 1 | **2** | 3* | 1.5 | 3 |" in text
    assert "| net | 0.020 | 0.010 | 0.900 |" in text
    assert "| net | 0 (1) | 2000 (77) | - |" in text
    assert "engines took it for a CPU with avx2 at most" in text
