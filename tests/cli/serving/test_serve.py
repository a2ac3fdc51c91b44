"""`cenote serve` where it cannot serve."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from typer.main import get_command
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
    with pytest.raises(cenote.UnsupportedError, match=r"pip install kserve"):
        cenote.serving.serve(tmp_path)
    assert sys.argv == arguments
    answer = CliRunner().invoke(app, ["serve", str(tmp_path)])
    assert isinstance(answer.exception, cenote.UnsupportedError)


def test_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(cenote.ArgumentError, match="http_port"):
        cenote.serving.serve(tmp_path, http_port=70000)
    assert CliRunner().invoke(app, ["serve", str(tmp_path), "--max-queue", "0"]).exit_code == 2


SERVING = Path(__file__).resolve().parents[3] / "packaging" / "serving"


@pytest.mark.parametrize("file", ["Dockerfile", "cenote.service"])
def test_files_around_a_server_call_it_rightly(file: str) -> None:
    """The commands in them, and their options, are there."""
    text = re.sub(r'", "|CMD \["|"\]', " ", (SERVING / file).read_text())
    calls = re.findall(r"cenote (serve|health)\b([^\n;]*)", re.sub(r"(?m)^#.*", "", text))
    assert {name for name, _ in calls} == {"serve", "health"}
    for name, words in calls:
        known = {option for each in get_command(app).commands[name].params for option in each.opts}  # type: ignore[attr-defined]
        assert {*re.findall(r"--[a-z-]+", words)} <= known


def test_a_proxy_knows_the_ports_of_the_server() -> None:
    text = (SERVING / "nginx.conf").read_text()
    ports = {each.name: each.default for each in get_command(app).commands["serve"].params}  # type: ignore[attr-defined]
    assert f"http://127.0.0.1:{ports['http_port']};" in text
    assert f"grpc://127.0.0.1:{ports['grpc_port']};" in text
