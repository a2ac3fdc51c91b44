"""precision="float16x3": when convolutions are computed on tiles, how accurately, and that nothing else changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import cenote
from cenote.core.types import Array
from tests.passes.models import model
from tests.targets import TARGETS

torch = pytest.importorskip("torch")
F = torch.nn.functional

N = helper.make_node
RANDOM = np.random.default_rng(31)
PLAIN = TARGETS[-1].name  # the narrowest target here: without tiles on every machine
EMULATING = f"{PLAIN}+tiles"


def noise(*shape: int) -> Array:
    """Weights whose sums stay near 1."""
    return RANDOM.standard_normal(shape).astype(np.float32) / np.float32(np.sqrt(np.prod(shape[1:])))


X = RANDOM.standard_normal((2, 40, 18, 17)).astype(np.float32)
WEIGHTS = {
    "w0": noise(96, 40, 1, 1),
    "b0": noise(96, 1)[:, 0],
    "w1": noise(96, 96, 3, 3),
    "w2": noise(64, 96, 3, 3),
}
NODES = [
    N("Conv", ["x", "w0", "b0"], ["c0"]), N("Relu", ["c0"], ["a0"]),
    N("Conv", ["a0", "w1"], ["c1"], pads=[1, 1, 1, 1]), N("Add", ["c1", "a0"], ["s1"]), N("Relu", ["s1"], ["a1"]),
    N("Conv", ["a1", "w2"], ["y"], strides=[2, 2], pads=[1, 1, 1, 1]),
]  # fmt: skip
CONTENT = model(NODES, {"x": X}, WEIGHTS, ["y"])


def in_float64(x: Array) -> Array:
    """The model's result by PyTorch in float64."""
    w = {name: torch.from_numpy(value.astype(np.float64)) for name, value in WEIGHTS.items()}
    a = F.relu(F.conv2d(torch.from_numpy(x.astype(np.float64)), w["w0"], w["b0"]))
    a = F.relu(F.conv2d(a, w["w1"], padding=1) + a)
    return np.asarray(F.conv2d(a, w["w2"], stride=2, padding=1).numpy())


def algorithms(loaded: cenote.Model) -> list[str]:
    return [step.algorithm for step in loaded.plan.describe().steps if step.op.startswith("conv")]


@pytest.fixture
def emulating(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CENOTE_TARGET", EMULATING)


@pytest.mark.usefixtures("emulating")
def test_convolutions_are_computed_on_tiles_as_accurately_as_in_float32() -> None:
    loaded = cenote.load(CONTENT, threads=1, precision="float16x3")
    y = np.asarray(loaded(X))
    assert {*algorithms(loaded)} == {"parts"}
    want = in_float64(X)
    assert np.abs(y - want).max() < 2e-6 * np.abs(want).max()
    for threads in (2, 3):
        other = cenote.load(CONTENT, threads=threads, precision="float16x3")(X)
        np.testing.assert_array_equal(other, y)


@pytest.mark.usefixtures("emulating")
def test_only_where_it_is_asked_for() -> None:
    loaded = cenote.load(CONTENT, threads=1)
    loaded(X)
    assert "parts" not in algorithms(loaded)


def test_other_processors_compute_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CENOTE_TARGET", PLAIN)
    loaded = [cenote.load(CONTENT, threads=1, precision=precision) for precision in ("fast", "float16x3")]
    results = [each(X) for each in loaded]
    np.testing.assert_array_equal(results[0], results[1])
    assert algorithms(loaded[0]) == algorithms(loaded[1])


@pytest.mark.usefixtures("emulating")
def test_any_size() -> None:
    graph = onnx.load_from_string(CONTENT)
    for axis, name in ((0, "n"), (2, "h"), (3, "w")):
        graph.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    loaded = cenote.load(graph.SerializeToString(), threads=1, precision="float16x3")
    for shape in ((1, 40, 20, 20), (3, 40, 7, 41), (1, 40, 60, 70), (1, 40, 1, 1)):
        x = RANDOM.standard_normal(shape).astype(np.float32)
        want = in_float64(x)
        assert np.abs(loaded(x) - want).max() < 2e-6 * np.abs(want).max()


@pytest.mark.usefixtures("emulating")
def test_what_is_not_finite_as_in_float32(tmp_path: Path) -> None:
    """Also by a plan file."""
    loaded = cenote.load(CONTENT, threads=2, precision="float16x3")
    x = X.copy()
    x[0, 3, 4, 5], x[1, 39, 17, 16], x[1, 0, 0, 0] = np.nan, np.inf, -np.inf
    exact = np.asarray(cenote.load(CONTENT, threads=1, precision="exact")(x))
    loaded(x)
    loaded.save(tmp_path / "plan.cenote")
    for each in (loaded, cenote.load(tmp_path / "plan.cenote")):
        y = np.asarray(each(x))
        for found in (np.isnan, np.isposinf, np.isneginf):
            np.testing.assert_array_equal(found(y), found(exact))
        finite = np.isfinite(exact)
        assert 0 < finite.sum() < finite.size
        np.testing.assert_allclose(y[finite], exact[finite], rtol=0, atol=1e-5)
