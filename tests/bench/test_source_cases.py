"""The table of the source system's cases. Nothing is timed."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import cenote
from bench import source_cases
from cenote.diagnosis.tried import Tried
from cenote.profile.fields import Treatment
from tests.diagnosis.causes.models import model, noise
from tests.profile.samples import ROOFS


def small() -> source_cases.Case:
    x, w = noise(1, 4, 8, 8), noise(8, 4, 3, 3)
    return model([("Conv", ["x", "w"], ["y"], {})], {"x": x.shape}, ["y"], {"w": w}), {"x": x}


@pytest.mark.parametrize("kept", [True, False])
def test_what_was_kept_stands_in_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kept: bool
) -> None:
    def treat(self: cenote.Model, found: Any, inputs: Mapping[str, Any]) -> tuple[Any, cenote.Model]:
        tried = Tried(Treatment(threads=1), (0.5, 1.0, 1.5), kept=kept, why="planted")
        return replace(found, treatments=(tried,)), cenote.load(small()[0].SerializeToString(), threads=1)

    monkeypatch.setattr("cenote.profile.measure.roofs", lambda threads: ROOFS)
    monkeypatch.setattr("cenote.profile.measure.clock_ghz", lambda: 3.0)
    monkeypatch.setattr(cenote.Model, "treat", treat)
    monkeypatch.setattr(source_cases, "CASES", {"small": (small, "much")})
    monkeypatch.setattr(sys, "argv", ["source_cases", "--threads", "1", "--output", str(tmp_path)])
    source_cases.main()
    (row,) = json.loads((tmp_path / "source_cases.json").read_text())
    assert row["kept"] == ("{'threads': 1}" if kept else "nothing")
    assert (row["case"], row["threads"], row["the source claims"]) == ("small", 1, "much")
    assert 0 < row["memory, MB"] < 1
    assert row["kept"] in (tmp_path / "source_cases.md").read_text()
    assert row["kept"] in capsys.readouterr().out
