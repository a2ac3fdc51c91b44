"""Some cases of each kind, and those that once found something. `python -m tests.fuzz` runs more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.__main__ import KINDS, regressions

ROOT = Path(__file__).resolve().parents[2]
# Cases of each kind, the same ones every time: some seconds on one core, with kernels that must be compiled first.
FEW = {
    "models": 60,
    "functional": 60,
    "graphs": 16,
    "sizes": 5,
    "quantized": 30,
    "exports": 8,
    "calls": 80,
    "plans": 25,
    "callers": 2,
    "kills": 3,
    "forks": 2,
    "failures": 1,
}


def outcome(*arguments: str) -> str:
    """What a run reports; fails with its findings."""
    command = [sys.executable, "-m", "tests.fuzz", "--jobs", "1", *arguments]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert ran.returncode == 0, f"{ran.stdout[-8000:]}\n{ran.stderr[-2000:]}"
    return ran.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_few_cases(kind: str) -> None:
    assert f"{kind}: {FEW[kind]} cases" in outcome(
        "--kind", kind, "--cases", str(FEW[kind]), "--seed", "1000"
    )


@pytest.mark.parametrize("kind", sorted(regressions()))
def test_what_was_found_before(kind: str) -> None:
    assert f"{kind}: {len(regressions()[kind])} cases" in outcome("--kind", kind, "--regressions")
