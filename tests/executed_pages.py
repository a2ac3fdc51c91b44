"""Pages that say what to write where: their blocks go into a copy of the source, their programs run there."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(
    r"^<!-- (?P<order>.+?) -->\n```(?:python|markdown)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)


def copied(folder: Path) -> Path:
    """A copy of the source, into which blocks are written."""
    ignored = shutil.ignore_patterns("__pycache__", ".*_cache", "data")
    for part in ("src", "tests", "docs"):
        shutil.copytree(ROOT / part, folder / part, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def blocks(page: str) -> list[tuple[str, str]]:
    """The blocks of a page of docs/ as (order, code)."""
    return section(page, "")


def _blocks_of(text: str) -> list[tuple[str, str]]:
    return [(found["order"], found["code"]) for found in BLOCK.finditer(text)]


def section(page: str, anchor: str) -> list[tuple[str, str]]:
    """The blocks of a section, by the anchor that links to it; without an anchor those of the whole page."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = {
        re.sub(r"[^a-z0-9]+", "-", part.partition("\n")[0].lower()): part for part in text.split("\n## ")[1:]
    }
    return _blocks_of(found[anchor] if anchor else text)


def touched(blocks: list[tuple[str, str]]) -> set[str]:
    """The files that blocks add or change."""
    orders = {order.partition(", before: ")[0] for order, _ in blocks} - {"run"}
    return {order.removeprefix("new file: ").removeprefix("in ") for order in orders}


def apply(folder: Path, order: str, code: str) -> None:
    """Write a block where its comment says."""
    kind, _, rest = order.partition(" ")
    if kind == "new":
        path = folder / rest.removeprefix("file: ")
        assert not path.exists(), f"{path.name} exists: the document adds something that is there"
        path.write_text(code, encoding="utf-8")
        return
    name, _, anchor = rest.partition(", before: ")
    path = folder / name
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    place = next((index for index, line in enumerate(lines) if line.startswith(anchor)), None)
    assert place is not None, f"{name} has no line that begins with: {anchor}"
    path.write_text("".join((*lines[:place], code, *lines[place:])), encoding="utf-8")


def replace(path: Path, old: str, new: str) -> None:
    """Put a fault into a file of the copy, and forget its bytecode.

    Python takes bytecode for current if it is of a file of the same second and size: a fault as long as what it
    replaces, written in the second in which a program first ran, would never be seen.
    """
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{path.name} does not hold: {old}"
    path.write_text(text.replace(old, new), encoding="utf-8")
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def python(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder / "src"), str(folder)))}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def follow(folder: Path, page: str) -> list[str]:
    """Write every block of a page into the copy, in order; return what its programs print where they stand."""
    printed: list[str] = []
    for order, code in blocks(page):
        if order == "run":
            printed.append(python(folder, "-c", code))
        else:
            apply(folder, order, code)
    return printed
