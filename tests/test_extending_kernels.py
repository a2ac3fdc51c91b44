"""The tutorial on kernels runs from top to bottom in an empty folder, with the files of the wheel alone; the model of
its end runs from a plan file, without the tutorial's module and without a compiler."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.wheel import ROOT, installed

PAGE = (ROOT / "docs" / "extending_kernels.md").read_text(encoding="utf-8")
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def python(site: Path, folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, cwd=folder,
        env=os.environ | {"PYTHONPATH": str(site)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the page's programs as one module, on smaller arrays: NumPy takes seconds of the full ones."""
    folder = tmp_path_factory.mktemp("tutorial")
    programs = PROGRAM.findall(PAGE)
    assert len(programs) == 4
    text = "\n".join(programs).replace("(4, 64, 224, 224)", "(1, 16, 112, 112)").replace("-1, 224", "-1, 112")
    (folder / "tutorial.py").write_text(text)
    (folder / "try_it.py").write_text(TRIAL)
    return folder


TRIAL = """
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from cenote.serving import Batcher
from tutorial import model

arrays = {name: np.random.default_rng(3).standard_normal(shape).astype(np.float32)
          for name, shape in {"a": (1, 8, 30, 40), "b": (3, 8, 7, 5), "c": (1, 8, 224, 224)}.items()}
one = {name: model(x) for name, x in arrays.items()}
for name, x in arrays.items():
    assert np.allclose(one[name], np.maximum(x - 0.25, 0).mean((2, 3), keepdims=True), atol=1e-6)
assert " 0 on the host" in str(model.plan), model.plan
with Batcher(model) as served, ThreadPoolExecutor(4) as callers:
    for y in callers.map(lambda _: served.run({"x": arrays["a"]}), range(20)):
        assert np.allclose(y["y"], one["a"], atol=1e-6), "another answer when served"
model.save("shop.cenote")
np.savez("one.npz", **arrays, **{f"{name}_y": y for name, y in one.items()})
child = os.fork()
if child == 0:
    os._exit(0 if all(np.array_equal(model(x), one[name]) for name, x in arrays.items()) else 1)
assert os.waitpid(child, 0)[1] == 0, "other bits in a forked process"
"""
FROM_PLAN = """
import sys
for name in ("llvmlite", "onnx", "tutorial"):
    sys.modules[name] = None
import numpy as np
import cenote
for threads in (1, 2):
    model, known = cenote.load("shop.cenote", threads=threads), np.load("one.npz")
    for name in "abc":
        assert np.array_equal(model(known[name]), known[f"{name}_y"]), (name, threads)
print(model.plan)
"""


def test_the_tutorial_runs_with_the_wheel_alone(tutorial: Path, tmp_path: Path) -> None:
    site = installed(tmp_path / "site")
    said = python(site, tutorial, "tutorial.py")
    assert re.search(r"^\d+\.\d times as fast as NumPy$", said, re.MULTILINE)
    python(site, tutorial, "try_it.py")
    assert "soft_threshold" in python(site, tutorial, "-c", FROM_PLAN)
