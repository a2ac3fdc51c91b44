"""`cenote serve` where it cannot serve."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import cenote
from cenote.cli.app import app
from tests.serving.models import save_times


def test_without_kserve_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kserve", None)
    monkeypatch.delitem(sys.modules, "cenote.serving.adapter", raising=False)
    monkeypatch.delitem(sys.modules, "cenote.serving.network", raising=False)
    save_times(tmp_path / "m" / "model.onnx", 2)
    arguments = list(sys.argv)
    with pytest.raises(cenote.UnsupportedError, match=r"pip install 'cenote\[kserve\]'"):
        cenote.serving.serve(tmp_path)
    assert sys.argv == arguments
    answer = CliRunner().invoke(app, ["serve", str(tmp_path)])
    assert isinstance(answer.exception, cenote.UnsupportedError)


def test_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(cenote.ArgumentError, match="http_port"):
        cenote.serving.serve(tmp_path, http_port=70000)
    assert CliRunner().invoke(app, ["serve", str(tmp_path), "--max-queue", "0"]).exit_code == 2
