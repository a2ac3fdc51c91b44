"""The benchmark of cold starts by phases: one start of a tiny model, a failure, the table."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from bench.cold_networks import COLUMNS, found_in, main, markdown
from bench.process import ROOT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A network of open sizes, and one that is none."""
    shutil.copy(ROOT / "src" / "cenote" / "data" / "fashion.onnx", tmp_path / "fashion.any.onnx")
    (tmp_path / "broken.any.onnx").write_bytes(b"no model")
    for name in ("fashion", "broken", "without"):
        np.savez(tmp_path / f"{name}.npz", x=np.zeros((1, 1, 28, 28), np.float32))
    return tmp_path


def test_the_networks_are_those_with_an_input_and_a_file(folder: Path) -> None:
    assert [files.name for files in found_in([folder], "any.onnx", "")] == ["broken", "fashion"]
    assert [files.name for files in found_in([folder], "any.onnx", "fashion,without")] == ["fashion"]
    assert found_in([folder], "onnx", "") == []


def test_a_start_is_timed_by_phases_and_a_failure_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--folders", str(folder), "--open", "--output", str(folder)])
    assert "broken: cenote.core.errors.ModelError" in capsys.readouterr().out
    head, _, row, *_ = (folder / "cold_networks.md").read_text().splitlines()
    assert [cell.strip() for cell in head.split("|")[2:-1]] == [*COLUMNS]
    cells = [cell.strip() for cell in row.split("|")[1:-1]]
    assert cells[0] == "fashion"
    seconds = dict(zip(COLUMNS, map(float, cells[1:]), strict=True))
    answer = seconds.pop("answer")
    assert seconds["kernels"] > 0
    assert sum(seconds.values()) - seconds["CPU"] == pytest.approx(answer, abs=0.05)


def test_the_table_ends_with_medians() -> None:
    starts = {name: dict.fromkeys(COLUMNS, seconds) for name, seconds in (("a", 1.0), ("b", 4.0), ("c", 2.0))}
    rows = [line.split("|")[1:3] for line in markdown(starts).splitlines()[2:]]
    assert [(name.strip(), float(cell)) for name, cell in rows] == [
        ("b", 4.0), ("c", 2.0), ("a", 1.0), ("**median of 3**", 2.0), ("**largest**", 4.0),
    ]  # fmt: skip
