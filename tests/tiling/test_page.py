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

__all__ = ["cenote_command"]

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "tiling.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^cenote (.*)$", PAGE, re.MULTILINE)


def test_programs_run() -> None:
    names: dict[str, Any] = {}
    programs = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(programs) == 4
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
    assert len(COMMANDS) == 3
