"""What must be true of the files of a release before anybody installs them."""

from __future__ import annotations

import email.message
import email.parser
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from cenote import __version__
from release.built import Files
from release.commands import ROOT, Fault, run

LARGEST = {"wheel": 12_000_000, "runtime": 3_500_000, "source": 12_000_000}  # bytes
# Machine code in a wheel of any platform is data: kernels for x86-64, chosen among at run time, never loaded elsewhere.
TAG = "py3-none-any"
LICENSES = ("LICENSE", "LICENSE-fashion-mnist.txt")  # the project's, and that of the data in the package
# What the documentation runs from a source distribution.
SOURCES = ("tests", "docs", "bench", "examples", "bundle", "release", "packaging", "Makefile", "mkdocs.yml")


def distributions(files: Files, kernels: bool) -> None:
    """Raise Fault at the first of the files that is not right."""
    run(
        sys.executable, "-m", "twine", "check", "--strict", *files
    )  # metadata, and whether the README renders
    sizes(files)
    wheel(files.wheel, "cenote", LICENSES, kernels)
    wheel(files.runtime, "cenote-runtime", LICENSES[:1], kernels=False)
    source(files.source)
    if f"## {__version__}" not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"):
        raise Fault(f"CHANGELOG.md has no section {__version__}")


def sizes(files: Files) -> None:
    for kind, most in LARGEST.items():
        path: Path = getattr(files, kind)
        if path.stat().st_size > most:
            raise Fault(f"{path.name} has {path.stat().st_size:,} bytes; at most {most:,} are meant")


def wheel(path: Path, name: str, licenses: Sequence[str], kernels: bool) -> None:
    """One wheel: its tag, name, version and licences, and whether the kernels are inside."""
    with zipfile.ZipFile(path) as archive:
        members = archive.namelist()
        metadata = metadata_of(archive.read(next(m for m in members if m.endswith(".dist-info/METADATA"))))
    if not path.stem.endswith(TAG):
        raise Fault(f"{path.name} is not for any platform ({TAG})")
    same_version(path, name, metadata)
    held = {Path(member).name for member in members if ".dist-info/" in member}
    if missing := set(licenses) - held:
        raise Fault(f"{path.name} lacks {', '.join(sorted(missing))} beside its metadata")
    if kernels and "cenote/data/kernels.bundle" not in members:
        raise Fault(f"{path.name} has no compiled kernels")
    if strange := [member for member in members if member.endswith((".so", ".pyc"))]:
        raise Fault(f"{path.name} holds {strange[0]}")


def source(path: Path) -> None:
    """The source distribution: what its pages speak of is there, and nothing that git ignores."""
    with tarfile.open(path) as archive:
        members = archive.getnames()
        information = archive.extractfile(next(m for m in members if m.endswith("/PKG-INFO")))
        assert information is not None
        same_version(path, "cenote", metadata_of(information.read()))
    tops = {member.split("/")[1] for member in members if "/" in member}
    if missing := set(SOURCES) - tops:
        raise Fault(f"{path.name} lacks {', '.join(sorted(missing))}")
    if strange := [member for member in members if made_here(member)]:
        raise Fault(f"{path.name} holds {strange[0]}")


def made_here(member: str) -> bool:
    """Whether a file was written in this checkout by Python, a benchmark or an example: none of the project's."""
    hidden = {part for part in member.split("/") if part.startswith(".")} - {".ci", ".gitignore"}
    return bool(hidden) or "__pycache__" in member or member.endswith(".bundle")


def metadata_of(raw: bytes) -> email.message.Message:
    return email.parser.BytesParser().parsebytes(raw)


def same_version(path: Path, name: str, metadata: email.message.Message) -> None:
    found = (metadata["Name"], metadata["Version"])
    if found != (name, __version__):
        raise Fault(f"{path.name} calls itself {' '.join(found)}, not {name} {__version__}")
