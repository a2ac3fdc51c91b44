"""The copy of the package without the hook, and verdicts: nothing is measured."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bench.profiling import Verdicts, without_hook

CODE = """
from cenote.codegen import jit
from cenote.kernels.driver import Driver
text = Driver("cenote_run").emit(jit.host_target()).module()
print(sum("call" in line and "@note(" in line for line in text.splitlines()), "@note(" in text)
"""


def test_the_copy_notes_nothing(tmp_path: Path) -> None:
    checkout = Path(__file__).parents[2]
    for folder, said in ((checkout, "5 True"), (without_hook(checkout, tmp_path), "0 False")):
        environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
        command = [sys.executable, "-c", CODE]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == said


def test_verdicts_are_counted() -> None:
    verdicts = Verdicts()
    assert [verdicts.of(True), verdicts.of(False)] == ["holds", "FAILED"]
    assert str(verdicts) == "1 hold, 1 FAILED"
