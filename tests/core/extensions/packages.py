"""Packages written into a folder, as those of users."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest


def written(folder: Path, files: Mapping[str, str], patch: pytest.MonkeyPatch) -> None:
    """Write files into a folder from which modules are imported until the end of the test, and forgotten then."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    patch.syspath_prepend(folder)
    for name in {Path(name).parts[0].removesuffix(".py") for name in files}:
        patch.setitem(sys.modules, name, None)  # what the end of the test goes back to
        del sys.modules[name]


def distribution(folder: Path, name: str, points: Mapping[str, str]) -> None:
    """Write what tells that a package is installed, with entry points of the group `cenote.operators`."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{point} = {value}" for point, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[cenote.operators]", *lines, ""]))
