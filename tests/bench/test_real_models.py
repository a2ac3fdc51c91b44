"""The report on real models: ratios, wrong answers, NumPy steps."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from bench.engines.whole import CenoteModel
from bench.real_inputs import MODELS, error
from bench.real_models import OURS, PEER, Line, markdown
from bench.rounds import Outcome, Plan


def outcome(engine: str, seconds: float, wrong: float = 0.0) -> Outcome:
    return Outcome(engine, error=wrong, median=seconds, fastest=seconds / 2, round_medians=[seconds])


def line(model: str, ours: float, peer: float, hosts: dict[str, float], wrong: bool = False) -> Line:
    outcomes = {OURS: outcome(OURS, ours, 0.5 if wrong else 0.0), PEER: outcome(PEER, peer)}
    return Line(model, 1, outcomes, {"in all": sum(hosts.values()), **hosts}, wrong)


def test_the_report_counts_right_answers_and_lists_steps_of_one_percent():
    text = markdown(
        [
            line("fast", 1e-3, 2e-3, {"gather": 0.05, "shape": 0.001}),
            line("slow", 4e-3, 2e-3, {}),
            line("wrong", 1e-3, 9e-3, {}, wrong=True),
        ],
        Plan(1),
    )
    assert "| fast T=1 | 1 (0.5) | 2 (1) | 2.00 | 2.00 |" in text
    assert "| 5.1% (1) |" in text
    assert "| wrong T=1 | 1 (0.5) | 9 (4.5) | - | - | 5.0e-01* |" in text
    assert "Geometric mean at 1 thread(s): 1.00" in text
    assert "| fast T=1 | 5.0% | gather |" in text
    assert "0.1% | shape" not in text


def test_errors_are_relative_to_the_largest_value_of_each_output():
    a, b = np.array([1.0, 100.0]), np.array([1e-3])
    assert error([a, b], [a, b]) == 0
    assert np.isclose(error([a + 1, b], [a, b]), 0.01)
    assert np.isclose(error([a, b * 2], [a, b]), 1.0)
    assert error([a[:1], b], [a, b]) == float("inf")
    assert error([a * np.nan, b], [a, b]) == float("inf")


def test_inputs_are_the_same_each_time():
    for model in MODELS.values():
        first, again = (model.inputs(np.random.default_rng(1)) for _ in range(2))
        assert first.keys() == again.keys()
        assert all(np.array_equal(first[name], again[name]) for name in first)


def test_nodes_between_stages_have_a_share(tmp_path: Path):
    """What runs where a shape follows content, and what NumPy computes inside a stage."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"], "find"),
        helper.make_node("Cast", ["places"], ["y"], "cast", to=TensorProto.FLOAT),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )  # fmt: skip
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "m.onnx",
    )
    engine = CenoteModel()
    engine.load(str(tmp_path / "m.onnx"), 1)
    shares = engine.shares(engine.adopt({"x": np.ones((3, 4), np.float32)}), 2)
    (name,) = shares
    assert "find, between stages" in name
    assert 0 < shares[name] < 1
