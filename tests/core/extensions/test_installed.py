"""Installed extensions are imported once, when they are asked for; one that is broken hurts no other."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from cenote.core.extensions import installed
from tests.core.extensions.packages import distribution, written


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "_done", False)
    monkeypatch.setattr(installed, "_failures", [])


def test_each_is_imported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None) -> None:
    log = tmp_path / "log"
    text = f"with open({str(log)!r}, 'a') as f:\n    f.write(__name__ + ' ')\n"
    written(tmp_path, {"first_27.py": text, "second_27.py": text + "def start(): pass\n"}, monkeypatch)
    distribution(tmp_path, "twice", {"a": "first_27", "b": "second_27:start"})
    installed.import_installed()
    installed.import_installed()
    assert log.read_text() == "first_27 second_27 "
    assert installed.failures() == ()


def test_a_broken_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None, caplog: pytest.LogCaptureFixture
) -> None:
    written(
        tmp_path,
        {"broken_27.py": "raise OSError('no licence')\n", "sound_27.py": "found = []\n"},
        monkeypatch,
    )
    distribution(tmp_path, "shop", {"a": "broken_27", "b": "missing_27", "c": "sound_27"})
    with caplog.at_level(logging.WARNING):
        installed.import_installed()
    first, second = installed.failures()
    assert first == "the extension a (broken_27) of shop 1.0 cannot be imported (OSError: no licence)"
    assert second.startswith(
        "the extension b (missing_27) of shop 1.0 cannot be imported (ModuleNotFoundError: "
    )
    assert first in caplog.text
    import sound_27  # type: ignore[import-not-found]

    assert sound_27.found == []


def test_what_is_asked_for_during_the_import_does_not_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None
) -> None:
    text = "from cenote.core.extensions import installed\ninstalled.import_installed()\n"
    written(tmp_path, {"asks_27.py": text}, monkeypatch)
    distribution(tmp_path, "asks", {"asks": "asks_27"})
    installed.import_installed()
    assert installed.failures() == ()
