"""Files written aside, and what a moment chosen badly for Ctrl-C leaves behind."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from cenote.core import files, target
from tests.core.moments import interrupted


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_leaves_neither_files_nor_descriptors(tmp_path: Path) -> None:
    opened = set(os.listdir("/proc/self/fd"))
    for moment in range(1, 200):
        path = tmp_path / str(moment)
        try:
            with interrupted(moment, files.__file__), files.replacing(path) as file:
                file.write(b"whole")
        except KeyboardInterrupt:
            assert not path.exists() or path.read_bytes() == b"whole"
            assert not list(tmp_path.glob(".new-*")), moment
        else:
            break
    assert 5 < moment < 199, "every moment was tried"
    assert set(os.listdir("/proc/self/fd")) == opened


def test_ctrl_c_leaves_a_target_its_name() -> None:
    """Digests are made of its text, which must not shrink to "..."."""
    host = target.choose_target((), "x86_64-unknown-linux-gnu", "generic")
    whole = repr(host)
    for moment in range(1, 100):
        try:
            with interrupted(moment, target.__file__, dataclasses.__file__):
                repr(host)
        except KeyboardInterrupt:
            assert repr(host) == whole
    for field in dataclasses.fields(host):
        assert f"{field.name}={getattr(host, field.name)!r}" in whole
