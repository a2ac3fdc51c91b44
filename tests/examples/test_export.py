"""The examples that call an exported network: they name what Cenote names."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import cenote
from tests.export.libraries import needs_cc

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "export"
DATA = Path(cenote.__file__).parent / "data"
COMPILERS = {
    "classify.c": ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I", "out"],
    "classify.rs": ["rustc", "-O", "-L", "out"],
}


@needs_cc
@pytest.mark.parametrize("source", COMPILERS)
def test_an_example_names_the_clothes(source: str, tmp_path: Path) -> None:
    compiler, *flags = COMPILERS[source]
    if (
        shutil.which(compiler) is None
        or subprocess.run([compiler, "--version"], capture_output=True).returncode
    ):
        pytest.skip(f"no {compiler}")
    cenote.export_model(DATA / "fashion.onnx", tmp_path / "out", target="x86-64", name="fashion")
    library = ["out/libfashion.a"] if source.endswith(".c") else []
    program = tmp_path / "classify"
    command = [compiler, *flags, str(EXAMPLES / source), *library, "-o", str(program)]
    subprocess.run(command, cwd=tmp_path, check=True)
    model = cenote.load(DATA / "fashion.onnx")
    labels = [label.strip() for label in model.metadata["labels"].split(",")]
    with np.load(DATA / "pictures.npz") as content:
        pictures = content["pictures"][:3]
    for picture in pictures:
        (tmp_path / "x.pgm").write_bytes(b"P5 28 28 255\n" + picture.tobytes())
        found = subprocess.run([program, "x.pgm"], cwd=tmp_path, capture_output=True, text=True, check=True)
        scores = model(picture[None, None].astype(np.float32) / np.float32(255))
        assert found.stdout.strip() == labels[int(scores.argmax())]
    (tmp_path / "x.pgm").write_bytes(b"P5 28 28 255\n" + bytes(100))
    refused = subprocess.run([program, "x.pgm"], cwd=tmp_path, capture_output=True, text=True)
    assert refused.returncode == 2
    assert "usage" in refused.stderr
