"""`cenote check-operator`: a table, what was seen, and the exit code."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from cenote.core.extensions import registry
from tests.cli.conftest import Command
from tests.shop_classes import SHRINK


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder at hand; nothing is registered."""
    for name in ("_registered", "_installed", "_classes"):
        monkeypatch.setattr(registry, name, {})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "shop_checked", raising=False)


@pytest.mark.parametrize("module", ["shop_checked", "shop_checked.py"])
def test_a_sound_operator(cenote_command: Command, module: str) -> None:
    Path("shop_checked.py").write_text(SHRINK)
    ended = cenote_command("check-operator", module)
    assert ended.code == 0, ended.err
    assert ended.out.startswith("shop.shrink: Shrink (")
    assert "all is well, on " in ended.out


def test_a_class_that_no_node_of_onnx_becomes(cenote_command: Command) -> None:
    """Decoders and rewrites of others make it; a module may register nothing else."""
    assert SHRINK.count("    from_onnx = ") == 1
    lines = [line for line in SHRINK.splitlines() if not line.startswith("    from_onnx = ")]
    Path("shop_checked.py").write_text("\n".join(lines))
    ended = cenote_command("check-operator", "shop_checked.py")
    assert ended.code == 0, ended.err
    assert ended.out.startswith("shop.shrink: Shrink (")


def test_a_fault_is_said_and_ends_with_1(cenote_command: Command) -> None:
    Path("shop_checked.py").write_text(
        SHRINK.replace("narrow(np.maximum", "narrow(x.dtype.itemsize + np.maximum")
    )
    ended = cenote_command("check-operator", "shop_checked.py")
    assert ended.code == 1
    assert "failed: float64: compute gives something else for the same numbers in float64" in ended.out
    found = json.loads(cenote_command("check-operator", "shop_checked.py", "--json").out)
    assert [report["ok"] for report in found] == [False]


def test_a_module_without_a_class_is_refused(cenote_command: Command) -> None:
    text = 'import cenote\n\n\n@cenote.register("shop.F")\ndef f(x):\n    return x\n'
    Path("shop_checked.py").write_text(text)
    ended = cenote_command("check-operator", "shop_checked.py")
    assert ended.code == 1
    assert "registers no class" in ended.err
