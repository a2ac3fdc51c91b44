"""The benchmark of cold starts: one start of a tiny model, answers that are checked, the table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.cold_start import Setting, Start, check, markdown, measure, start_once
from bench.process import ROOT

FASHION = ROOT / "src" / "cenote" / "data" / "fashion.onnx"


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(None, tmp_path, tmp_path)


def test_a_start_is_timed_and_answers(setting: Setting, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 1, 28, 28), np.float32))
    found = [
        start_once(engine, FASHION, tmp_path / "x.npy", tmp_path / "cache", setting)
        for engine in ("checkout", "checkout", "onnxruntime")
    ]
    for y, (loaded, answered, cpu) in found:
        assert y.shape == (1, 10)
        assert 0 < loaded < answered
        assert cpu > 0
    assert any((tmp_path / "cache").iterdir()), "the second start found what the first one left"
    check(found[0][0], found[2][0])


def test_a_wrong_answer_and_a_failure_are_told(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="wrong answer"):
        check(np.ones(3), np.array([1, 1, 1.1]))
    with pytest.raises(ValueError, match="wrong answer"):
        check(np.ones(3), np.full(3, np.nan))
    with pytest.raises(ValueError, match="wrong answer"):
        check(np.ones(3), np.ones(4))
    broken = setting.scratch / "broken.onnx"
    broken.write_bytes(b"no model")
    known = (broken, np.zeros((1, 1), np.float32), None)
    monkeypatch.setattr("bench.cold_start.files_of", lambda name, setting: known)
    (start,) = measure("broken", ["checkout"], 2, setting)
    assert "ModelError" in start.failure
    assert start.answered == []
    assert "ModelError" in markdown([start])


def test_the_table_has_medians() -> None:
    start = Start("net", "wheel", [1.0, 2.0, 9.0], [2.0, 3.0, 10.0], [5.0, 6.0, 7.0], [0.1, 0.2, 0.3])
    assert markdown([start]).splitlines()[-1] == "| net | wheel | 2.00 | 3.00 | 2.00 | 6.00 | 0.20 |"
