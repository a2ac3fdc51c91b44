"""Files written aside, and what a moment chosen badly for Ctrl-C leaves behind."""

from __future__ import annotations

import dataclasses
import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cenote
import cenote.ort
from cenote.core import files, target
from cenote.frontends.tensorflow.checkpoint import Checkpoint
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


def _nothing_to_read(folder: Path) -> list[Path]:
    """A named pipe that nobody writes to, a socket, a device and a folder."""
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(folder / "socket"))
    return [folder / "pipe", folder / "socket", Path("/dev/zero"), folder]


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    opened = set(os.listdir("/proc/self/fd"))
    for path in _nothing_to_read(tmp_path):
        with pytest.raises(OSError, match=f"{path} is not a regular file"):
            files.reading(path)
    assert set(os.listdir("/proc/self/fd")) == opened


def test_a_model_that_is_no_file_is_refused_by_name(tmp_path: Path) -> None:
    """At once, by whoever opens it, also where a weight is replaced and beside a SavedModel."""
    replacing = cenote.ort.SessionOptions()
    replacing.add_initializer("w", cenote.ort.OrtValue.ortvalue_from_numpy(np.ones(1, np.float32)))
    ways: list[Callable[[Path], Any]] = [
        cenote.load,
        cenote.unsupported,
        lambda path: cenote.load(path, format="tflite"),
        cenote.ort.InferenceSession,
        lambda path: cenote.ort.InferenceSession(path, replacing),
    ]
    for path in _nothing_to_read(tmp_path)[:3]:
        for way in ways:
            with pytest.raises(
                (cenote.ModelError, cenote.ort.errors.OrtError), match=f"{path} is not a regular file"
            ):
                way(path)
    os.mkfifo(tmp_path / "model.index")
    with pytest.raises(cenote.ModelError, match="is not a regular file"):
        Checkpoint(tmp_path / "model")


def test_a_served_model_that_is_no_file_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    os.mkfifo(tmp_path / "m" / "model.onnx")
    repository = cenote.serving.Repository(tmp_path, workers=1)
    with pytest.raises(cenote.ModelError, match=r"m/model\.onnx is not a regular file"):
        repository.load("m")
    assert "is not a regular file" in repository.index()[0]["reason"]


def test_a_full_disk_names_the_file_and_leaves_the_former_one(tmp_path: Path) -> None:
    path = tmp_path / "plan"
    path.write_bytes(b"before")
    with pytest.raises(OSError, match="No space left") as error, files.replacing(path):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert error.value.filename == str(path)
    assert path.read_bytes() == b"before"
    assert [*tmp_path.iterdir()] == [path]
