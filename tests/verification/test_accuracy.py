"""Accuracy of algorithms: errors of steps on their own inputs, long sums, advice."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper, parser

import cenote
from cenote.verification.accuracy import LONG_SUM, Accuracy, StepAccuracy

ONE = cenote.LoadOptions(threads=1)

LONG = 1 << 17  # terms of a sum of numbers of one sign, whose rounding adds up


def product(terms: int) -> bytes:
    weights = np.random.default_rng(1).uniform(0.5, 1.5, (terms, 8)).astype(np.float32)
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[4, {terms}] x) => (float[4, 8] y) '
        "{ a = Abs(x) p = MatMul(a, w) y = Relu(p) }"
    )
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    return model.SerializeToString()


def test_errors_are_those_of_the_steps() -> None:
    """One product: the model's answer beside NumPy in float64."""
    x = np.random.default_rng(0).standard_normal((4, 300)).astype(np.float32)
    found = cenote.accuracy(product(300), ONE, inputs={"x": x})
    weights = np.random.default_rng(1).uniform(0.5, 1.5, (300, 8)).astype(np.float32)
    wanted = np.abs(x).astype(np.float64) @ weights
    difference = np.abs(cenote.load_with(product(300), ONE)(x) - wanted)
    step = found.steps[-1]
    assert step.error == pytest.approx(difference.max() / wanted.max(), rel=1e-3)
    assert step.ulps == pytest.approx(difference.max() / np.spacing(np.float32(wanted.max())), rel=1e-3)
    assert 0 < step.typical_ulps < 4
    assert 600 <= step.operations < 610
    assert not step.is_long


def test_long_sums_are_flagged() -> None:
    x = np.random.default_rng(0).standard_normal((4, LONG)).astype(np.float32)
    found = cenote.accuracy(product(LONG), ONE, inputs={"x": x})
    worst = found.worst
    assert worst is not None
    assert worst.is_long
    assert worst.operations >= max(LONG_SUM, 2 * LONG)
    assert f"{worst.operations:,} long" in str(found)
    assert any("1 long sums" in each for each in found.advice)


def winograd() -> bytes:
    """A convolution whose numbers have one sign, with the algorithm that rounds most."""
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1, 64, 56, 56] x) => (float[1, 64, 56, 56] y) '
        "{ y = Conv <pads = [1, 1, 1, 1]> (x, w) }"
    )
    weights = np.random.default_rng(1).uniform(0.5, 1.5, (64, 64, 3, 3)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    return model.SerializeToString()


def test_exact_algorithms_are_advised_where_they_help() -> None:
    x = np.random.default_rng(0).uniform(0.5, 1.5, (1, 64, 56, 56)).astype(np.float32)
    found = cenote.accuracy(winograd(), ONE, inputs={"x": x})
    exact = cenote.accuracy(winograd(), ONE.changed(precision="exact"), inputs={"x": x})
    assert exact.precision == "exact"
    assert all(each.exact_error is None for each in exact.steps)
    assert not any("precision" in each for each in exact.advice)
    (step,), (other,) = ([each for each in one.steps if each.value == "y"] for one in (found, exact))
    assert step.exact_error == other.error
    helps = step.error > 2e-6 and step.error >= 3 * other.error
    assert any('precision="exact" makes 1 of these' in each for each in found.advice) == helps


def test_advice_names_what_helps() -> None:
    steps = [
        StepAccuracy("a", "first", "conv", "winograd_f4", 9e-6, 80.0, 1.0, 1152, False, 2e-7),
        StepAccuracy("b", "second", "conv", "direct", 3e-6, 20.0, 1.0, 1152, False, 2.5e-6),
    ]
    (said,) = Accuracy("m", "fast", tuple(steps)).advice
    assert (
        said
        == 'precision="exact" makes 1 of these errors a third or less, of first 2.0e-07 in place of 9.0e-06'
    )
    (said,) = Accuracy("m", "fast", tuple(steps[1:])).advice
    assert "would change little" in said


def test_it_is_kept(tmp_path: Path) -> None:
    found = cenote.accuracy(product(50))
    assert cenote.Accuracy.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    with pytest.raises(cenote.InputError, match="z"):
        cenote.accuracy(product(50), inputs={"z": np.zeros(3, np.float32)})
    cenote.load(product(50)).save(tmp_path / "m.plan")
    with pytest.raises(cenote.CenoteError, match="plan"):
        cenote.accuracy(tmp_path / "m.plan")


def test_steps_without_a_reference_are_left_out() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (int64[3] x) => (int64[3] y) { y = Neg(x) }'
    )
    found = cenote.accuracy(model.SerializeToString())
    assert found.steps == ()
    assert found.worst is None
    assert found.advice == ("no step has a reference to be compared with",)
