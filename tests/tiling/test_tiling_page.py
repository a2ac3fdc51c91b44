"""docs/tiling.md: its programs run, its commands too, its picture is what the command draws."""

from __future__ import annotations

import re
import shlex
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

import cenote
from tests.cli.conftest import Command, cenote_command
from tests.tiling.volumes import residual_volumes

__all__ = ["cenote_command"]

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "tiling.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^cenote (.*)$", PAGE, re.MULTILINE)


def test_programs_run() -> None:
    names: dict[str, Any] = {}
    programs = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(programs) == 5
    for program in programs:
        exec(program, names)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(
    command: str, cenote_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Path(cenote.__file__).parent / "data" / "fashion.onnx"
    monkeypatch.chdir(tmp_path)
    words = [str(model) if word == "model.onnx" else word for word in shlex.split(command)]
    done = cenote_command(*words)
    assert (done.code, done.err) == (0, "")
    for written in tmp_path.glob("*.svg"):
        assert ElementTree.parse(written).getroot().tag.endswith("svg")
        drawn = (ROOT / "docs" / "pictures" / "tiling.svg").read_text(encoding="utf-8")
        assert written.read_text(encoding="utf-8") == drawn


def test_there_are_commands() -> None:
    assert len(COMMANDS) == 7


@pytest.mark.parametrize("strategy", ["three-stage", "search"])
def test_a_network_of_volumes_has_a_page(strategy: str) -> None:
    """Every row of the table leads to a picture, which equal layers share."""
    model = cenote.tiling.plan_model(residual_volumes(), hardware="npu", strategy=strategy)
    passes = 3 if strategy == "search" else 1  # of the mean over whole maps
    assert len(model.plans) == 20 + passes
    assert all(plan.fits and plan.cycles >= plan.lower_bound for plan in model.plans)
    page = cenote.tiling.page(model)
    links = re.findall(r'href="#(p\d+)"', page)
    pictures = re.findall(r'<figure id="(p\d+)"', page)
    assert len(links) == len(model.plans) + 3
    assert set(links) == set(pictures)
    assert len(pictures) == len(set(pictures)) < len(model.plans)
    assert f"{model.bytes_moved:,}" in page
    assert f"{model.cycles:,}" in page


def test_options_that_mean_nothing_are_refused(cenote_command: Command) -> None:
    model = str(Path(cenote.__file__).parent / "data" / "fashion.onnx")
    done = cenote_command("tile", model, "--kernel", "3")
    assert (done.code, "--kernel means nothing to a model" in done.err) == (1, True)
    done = cenote_command("tile", "maxpool", "--input", "1x1x8x8", "--kernel", "2", "--node", "pool")
    assert (done.code, "--node means nothing to a layer" in done.err) == (1, True)
