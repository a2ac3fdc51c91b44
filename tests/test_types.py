"""What a type checker says of programs that use Cenote: it finds misspelt options, and knows what comes out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from cenote.functional import arguments, types
from cenote.ops.pool.blur import BORDERS

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = """
import numpy as np
from numpy.typing import NDArray

import cenote
import cenote.functional as F

x: NDArray[np.float32] = np.zeros((1, 3, 8, 8), np.float32)
model = cenote.load("m.onnx", precision="exact", weights="bfloat16", tune="full")
model(x, x)
model([[1, 2.5]], sr=16000)
out: dict[str, NDArray[np.float32]] = model.run({"x": [1.0]})
steps = model.plan.describe().steps
y: NDArray[np.float32] = F.max_pool2d(x, 3, padding="same", semantics="onnx", nan="ignore")
z: NDArray[np.float32] = F.avg_pool2d(x, (3, 3), stride=[2, 2], padding=((1, 1), (0, 1)))
values, indices = F.max_pool2d(x, 2, return_indices=True)
boxes: NDArray[np.float32] = cenote.functional.roi_align(x, [np.zeros((1, 4), np.float32)], 7)

cenote.load("m.onnx", precision="exct")  # wrong
cenote.load("m.onnx", tune="ful")  # wrong
cenote.load("m.onnx", weights="bf16")  # wrong
cenote.load(3)  # wrong
model(print)  # wrong
model.run([x])  # wrong
F.max_pool2d(x, 3, padding="sam")  # wrong
F.max_pool2d(x, 3, layout="NCL")  # wrong
F.avg_pool2d(x, 3, semantics="tf")  # wrong
F.avg_pool2d([[1.0]], 3)  # wrong
F.blur_pool(x, border="mirror")  # wrong
words: str = F.max_pool2d(x, 2)  # wrong
"""


def test_a_type_checker_finds_what_is_wrong_and_nothing_else(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "program.py"]
    environment = os.environ | {"MYPYPATH": str(ROOT / "src"), "PYTHONPATH": ""}
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    found = {int(line) for line in re.findall(r"^program\.py:(\d+): error", done.stdout, re.MULTILINE)}
    wrong = {n for n, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")}
    assert found == wrong, done.stdout + done.stderr


def test_the_words_are_those_that_are_taken() -> None:
    assert set(get_args(types.Rules)) == set(arguments.SEMANTICS)
    for rank, kind in ((1, types.Layout1), (2, types.Layout2), (3, types.Layout3)):
        letters = arguments.LETTERS[rank]
        assert get_args(kind) == (f"NC{letters}", f"N{letters}C", letters)
    assert {"same", "same_lower", "valid"} == set(arguments.SAME)
    assert set(BORDERS) == {"reflect", "replicate", "zeros"}
