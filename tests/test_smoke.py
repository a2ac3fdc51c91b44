"""What Cenote does, in a minute's reading: a model is loaded, run, planned, stored, profiled and verified; a pool."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cenote
import cenote.functional as F
from tests.small_network import X, small


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Convolution, ReLU and maximum pool, as an ONNX file."""
    return small(tmp_path / "small.onnx")


def by_onnxruntime(path: Path, x: np.ndarray) -> np.ndarray:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": x})
    return y


def test_a_model_runs(path: Path) -> None:
    model = cenote.load(path, threads=2)
    np.testing.assert_allclose(model(X), by_onnxruntime(path, X), rtol=1e-4, atol=1e-4)
    operators = {step.op.partition("(")[0] for step in model.plan.describe().steps}
    assert {"conv", "max_pool"} <= operators
    assert "relu" not in operators, "it is part of the convolution"


def test_a_pool_is_pytorch_s() -> None:
    torch = pytest.importorskip("torch")
    y = F.max_pool2d(X, kernel_size=3, stride=2, padding=1)
    wanted = torch.nn.functional.max_pool2d(torch.from_numpy(X), 3, 2, 1)
    np.testing.assert_array_equal(y, wanted.numpy())


def test_a_plan_file_gives_the_same_bits(path: Path, tmp_path: Path) -> None:
    model = cenote.load(path)
    y = model(X)
    model.save(tmp_path / "small.cenote")
    np.testing.assert_array_equal(cenote.load(tmp_path / "small.cenote")(X), y)


def test_a_profile_has_every_step(path: Path) -> None:
    model = cenote.load(path, threads=1)
    profile = model.profile(X, seconds=0.1)
    assert len(profile.steps) == len(model.plan.describe().steps)
    assert 0 < sum(step.ms for step in profile.steps) <= profile.wall_ms


def test_a_model_is_verified_value_by_value(path: Path) -> None:
    pytest.importorskip("onnxruntime")
    found = cenote.verify(path, inputs={"x": X}, against="onnxruntime")
    assert found.ok, str(found)
    # Where a register has eight lanes, x is put in blocks of channels by a step of its own.
    assert [row.value for row in found.values if row.value != "x"] == ["rectified", "y", "y"]
