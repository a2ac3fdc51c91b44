"""Diagnoses and treatments of real models, named algorithms among them. Nothing is timed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import cenote
from cenote.core.errors import ArgumentError, UnsupportedError
from cenote.core.load_options import LoadOptions
from cenote.diagnosis.registry import CAUSES
from cenote.models.loading import load_with
from tests.diagnosis.causes import SAMPLES
from tests.diagnosis.causes.models import convolution
from tests.diagnosis.causes.sample import Sample
from tests.profile.samples import ROOFS

LARGE = 4 << 20  # bytes of inputs, outputs and weights: samples up to there run in tests
HUGE = {("DRAM weights", "planted"), ("DRAM maps", "planted")}  # 16 s pass until these are made


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short experiments, and roofs that are given."""
    monkeypatch.setattr("cenote.profile.measure.roofs", lambda threads: ROOFS)
    monkeypatch.setattr("cenote.profile.measure.clock_ghz", lambda: 3.0)
    monkeypatch.setattr("cenote.diagnosis.diagnose._PROFILE_SECONDS", 0.01)
    monkeypatch.setattr("cenote.diagnosis.context.SECONDS", 0.0)


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A convolution that has several algorithms."""
    model, inputs = convolution(16, 16, 28)
    path = tmp_path_factory.mktemp("models") / "layer.onnx"
    onnx.save(model, path)
    return path, inputs


def test_a_model_is_diagnosed(layer: tuple[Path, dict[str, Any]]) -> None:
    path, inputs = layer
    model = cenote.load(path, threads=1)
    found = model.diagnose(inputs)
    assert found.profile.steps
    assert found.findings == found.profile.findings
    treated, best = model.treat(found, inputs, tolerance=0.01)
    expected, answer = model.run(inputs)["y0"], best.run(inputs)["y0"]
    np.testing.assert_allclose(answer, expected, atol=0.01 * float(np.abs(expected).max()))
    assert {each.kept for each in treated.treatments} <= {True, False}


def algorithm(model: cenote.Model) -> str:
    """That of the convolution."""
    return next(
        step.algorithm for step in model.plan.describe().steps if step.node == "y0" and step.operations
    )


def test_an_algorithm_can_be_named(layer: tuple[Path, dict[str, Any]]) -> None:
    path, inputs = layer
    plain = cenote.load(path, threads=1)
    other = "winograd_f4" if algorithm(plain) == "direct" else "direct"
    named = load_with(path, LoadOptions(algorithms={"y0": other}, threads=1))
    assert algorithm(named) == other
    np.testing.assert_allclose(named.run(inputs)["y0"], plain.run(inputs)["y0"], atol=1e-4)
    # Out of the cache, of which each choice has a part.
    again = load_with(path, LoadOptions(algorithms={"y0": other}, threads=1))
    assert np.array_equal(again.run(inputs)["y0"], named.run(inputs)["y0"])
    assert np.array_equal(cenote.load(path, threads=1).run(inputs)["y0"], plain.run(inputs)["y0"])


@pytest.mark.parametrize(
    ("algorithms", "said"), [({"y0": "magic"}, "magic.*direct"), ({"nowhere": "direct"}, "nowhere")]
)
def test_algorithms_that_do_not_fit_are_refused(
    layer: tuple[Path, dict[str, Any]], algorithms: dict[str, str], said: str
) -> None:
    with pytest.raises(ArgumentError, match=said):
        load_with(layer[0], LoadOptions(algorithms=algorithms, threads=1))


def test_a_model_can_be_had_under_other_options(layer: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    path, inputs = layer
    named = cenote.load(path, threads=2, precision="exact").changed(algorithms={"y0": "direct"}, threads=1)
    assert (named.threads, named.precision) == (1, "exact")
    more = named.changed(denormals="flush")
    assert more.plan.describe().steps == named.plan.describe().steps, "the algorithms stay"
    assert more.denormals == "flush"
    plan = tmp_path / "layer.cenote"
    named.save(plan, path)
    read = cenote.load(plan, threads=2)
    assert np.array_equal(read.run(inputs)["y0"], named.run(inputs)["y0"])
    assert read.changed(threads=1).threads == 1
    with pytest.raises(UnsupportedError, match="plan file"):
        read.changed(algorithms={"y0": "direct"})
    with open(path, "rb") as file:
        opened = cenote.load(file)
    with pytest.raises(UnsupportedError, match="open file"):
        opened.changed(threads=1)


def test_every_cause_has_samples() -> None:
    assert sorted(SAMPLES) == sorted(cause.name for cause in CAUSES)


@pytest.mark.parametrize("kind", ["planted", "healthy"])
@pytest.mark.parametrize("cause", SAMPLES)
def test_samples_load_and_run(cause: str, kind: str) -> None:
    if (cause, kind) in HUGE:
        pytest.skip("larger than caches by its nature: bench.causes runs it")
    sample: Sample = getattr(SAMPLES[cause], kind)()
    small = sample.model.ByteSize() + sum(array.nbytes for array in sample.inputs.values()) < LARGE
    if not small or cause in ("faults", "throttled"):
        pytest.skip("large, or makes a control group: bench.causes runs it")
    content = sample.model.SerializeToString()
    with sample.around():
        model = load_with(content, LoadOptions(**sample.options))
        assert all(np.isfinite(array).all() for array in model.run(sample.inputs).values())
