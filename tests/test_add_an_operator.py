"""docs/add_an_operator.md, done: its files are written into a copy of the source, its programs run there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "add_an_operator.md"
BLOCK = re.compile(r"^<!-- (?P<order>.+?) -->\n```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the document touches."""
    ignored = shutil.ignore_patterns("__pycache__", ".*_cache", "data")
    for part in ("src", "tests"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def blocks() -> list[tuple[str, str]]:
    return [(found["order"], found["code"]) for found in BLOCK.finditer(DOCUMENT.read_text(encoding="utf-8"))]


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
    place = next(index for index, line in enumerate(lines) if line.startswith(anchor))
    path.write_text("".join((*lines[:place], code, *lines[place:])), encoding="utf-8")


def python(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder / "src"), str(folder)))}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def states(folder: Path, program: str) -> Iterator[str]:
    """What the program prints each time the document has come to a point where it says so."""
    for order, code in blocks():
        if order == "run":
            yield python(folder, "-c", program)
        else:
            apply(folder, order, code)
    yield python(folder, "-c", program)


def test_a_stranger_can_add_an_operator(checkout: Path) -> None:
    program = next(code for order, code in blocks() if order == "run")
    by_reference, by_kernel = states(checkout, program)
    assert by_reference.startswith("[-2.  0.  0.  0.  2.]")
    assert "host: soft_threshold has no kernel" in by_reference
    assert by_kernel.startswith("[-2.  0.  0.  0.  2.]")
    assert "SoftThresholdSpec__lanes_" in by_kernel
    assert "0 on the host" in by_kernel

    tests = python(checkout, "-m", "pytest", "tests/contract/test_lowerings.py", "-k", "soft_threshold")
    passed = re.search(r"(\d+) passed", tests)
    assert passed, tests
    assert int(passed[1]) >= 2, tests
    assert "failed" not in tests

    # The document promises that tests come by themselves: a fault in the kernel must fail them.
    kernel = checkout / "src" / "cenote" / "kernels" / "elementwise" / "soft_threshold.py"
    kernel.write_text(kernel.read_text(encoding="utf-8").replace("value + threshold", "value - threshold"))
    with pytest.raises(AssertionError, match="of the largest output"):
        python(checkout, "-m", "pytest", "tests/contract/test_lowerings.py", "-k", "soft_threshold")
