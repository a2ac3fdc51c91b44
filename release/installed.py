"""Each distribution in an empty environment, tried as its user would try it."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cenote import __version__
from release.built import Files
from release.commands import Fault, run
from tests.pythons import VERSIONS, found

TRIAL = Path(__file__).with_name("trial.py")
PIP = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet")


def everywhere(files: Files, named: Sequence[str]) -> None:
    """Install and try the wheels under each Python, the source distribution under the first."""
    pythons = found(named)
    if not pythons:
        raise Fault("no Python from 3.11 on was found to install the wheels in")
    for version in () if named else (each for each in VERSIONS if each not in pythons):
        print(f"Python {version}: not installed here, not tried", flush=True)
    for number, (version, python) in enumerate(pythons.items()):
        with tempfile.TemporaryDirectory(prefix="release-") as folder:
            tried = [files.wheel, files.runtime] if number else [files.source, files.wheel, files.runtime]
            for file in tried:
                print(f"Python {version}: {attempt(python, file, Path(folder))}", flush=True)


def attempt(python: str, file: Path, folder: Path) -> str:
    """What came of it, in a line. The plan file that the wheel's trial leaves in `folder` is what the runtime runs."""
    own = environment(python, file, folder)
    printed = run(own.with_name("cenote"), "--version", folder=folder, alone=True)
    if __version__ not in printed:
        raise Fault(f"{file.name}: cenote --version prints {printed.strip()}, not {__version__}")
    said = run(own, TRIAL, "runtime" if "runtime" in file.name else "cenote", folder=folder, alone=True)
    return f"{file.name}: {said.strip()}"


def environment(python: str, file: Path, folder: Path) -> Path:
    """The Python of a new environment with `file` and what it requires."""
    made = folder / "env"
    shutil.rmtree(made, ignore_errors=True)
    run(python, "-m", "venv", made)
    own = made / "bin" / "python"
    run(own, *PIP, file, folder=folder, alone=True)
    return own


def packages(file: Path, folder: Path) -> Path:
    """The Python of an environment that holds `file` and what it requires, nothing else: not even pip."""
    own = environment(sys.executable, file, folder)
    run(own, "-m", "pip", "uninstall", "--quiet", "--yes", "setuptools", "pip", folder=folder, alone=True)
    return own
