"""What accompanies a release: a bill of materials, notes, checksums."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tempfile
from pathlib import Path

from cenote import __version__
from release.built import RUNTIME, Files
from release.commands import ROOT, Fault, run
from release.installed import packages

NOTES = ROOT / "docs" / "release_notes.md"
SCHEMA = "1.6"


def write(folder: Path, files: Files) -> None:
    """Write them beside the distributions."""
    for file, project in ((files.wheel, ROOT), (files.runtime, RUNTIME)):
        materials(file, project / "pyproject.toml", folder)
    (folder / "NOTES.md").write_text(notes(), encoding="utf-8")
    sums = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in sorted(folder.iterdir())
    ]
    (folder / "SHA256SUMS").write_text("\n".join(sums) + "\n", encoding="utf-8")


def materials(file: Path, project: Path, folder: Path) -> None:
    """CycloneDX's bill of materials: this wheel, and what `pip install` of it brings, with versions and licences."""
    target = folder / f"{file.name.partition('-py3')[0]}.cdx.json"
    with tempfile.TemporaryDirectory(prefix="release-") as environment:
        own = packages(file, Path(environment))
        run(
            Path(sys.executable).with_name("cyclonedx-py"), "environment", own,
            "--pyproject", project, "--mc-type", "library", "--spec-version", SCHEMA,
            "--output-reproducible", "--output-format", "JSON", "--output-file", target,
        )  # fmt: skip
    bill = json.loads(target.read_text(encoding="utf-8"))
    # The program reads pyproject.toml, where the version is not.
    bill["metadata"]["component"] |= {
        "version": __version__,
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(file.read_bytes()).hexdigest()}],
    }
    target.write_text(json.dumps(bill, indent=1) + "\n", encoding="utf-8")


def notes() -> str:
    """The section of this version among the release notes."""
    text = NOTES.read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(__version__)}\b.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if not found:
        raise Fault(f"{NOTES.name} has no section {__version__}")
    return found.group()
