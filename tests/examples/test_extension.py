"""The example of an extension, installed by pip beside the wheel's files: its own tests pass there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.wheel import ROOT, installed

EXAMPLE = ROOT / "examples" / "extension"


def python(*arguments: str, path: list[Path], folder: Path) -> subprocess.CompletedProcess[str]:
    """A process in a folder that has these folders of modules."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, cwd=folder, check=False
    )


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the extension is installed."""
    pytest.importorskip("setuptools", reason="it builds the extension")
    folder = tmp_path_factory.mktemp("packages")
    # The build writes into its source.
    source = shutil.copytree(EXAMPLE, tmp_path_factory.mktemp("source") / "extension")
    alone = ("--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-build-isolation")
    done = python(
        "-m", "pip", "install", *alone, "--target", str(folder), str(source), path=[], folder=source
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_its_own_tests_pass_where_it_is_installed(packages: Path, tmp_path: Path) -> None:
    shutil.copy(EXAMPLE / "test_extension.py", tmp_path)
    tests = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_extension.py")
    done = python(*tests, path=[packages, installed(tmp_path / "site")], folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_it_the_model_is_refused_with_the_ways(tmp_path: Path) -> None:
    shutil.copy(EXAMPLE / "test_extension.py", tmp_path)
    code = "import cenote, test_extension as t\ncenote.load(t.model())"
    done = python("-c", code, path=[installed(tmp_path / "site")], folder=tmp_path)
    last = done.stderr.strip().splitlines()[-1]
    assert "operator example.Shrink (opset 1) is not supported" in last
    assert "operators={" in last
