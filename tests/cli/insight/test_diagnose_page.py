"""The programs and commands of docs/why_is_it_slow.md, one after the other."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from cenote.diagnosis.diagnose import UNEXPLAINED
from cenote.diagnosis.registry import CAUSES
from tests.cli.conftest import Command
from tests.profile.samples import ROOFS

PAGE = Path(__file__).parents[3] / "docs" / "why_is_it_slow.md"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cenote_command: Command) -> None:
    monkeypatch.setattr("cenote.profile.measure.roofs", lambda threads: ROOFS)
    monkeypatch.setattr("cenote.profile.measure.clock_ghz", lambda: 3.0)
    monkeypatch.setattr("cenote.diagnosis.diagnose._PROFILE_SECONDS", 0.01)
    monkeypatch.setattr("cenote.diagnosis.context.SECONDS", 0.0)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}
    commands = []
    for language, content in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if language == "python":
            exec(content, namespace)
            continue
        for line in content.splitlines():
            command, *arguments = shlex.split(line)
            assert command == "cenote"
            ended = cenote_command(*arguments)
            assert ended.code == 0, f"{line}: {ended.err}"
            commands.append(arguments[0])
    assert commands == ["profile", "diagnose", "diagnose", "bench", "diagnose", "bench", "compare"]


def test_the_page_names_every_cause() -> None:
    rows = re.findall(r"^\| (`.*?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert sorted(named) == sorted([UNEXPLAINED, *(cause.name for cause in CAUSES)])
