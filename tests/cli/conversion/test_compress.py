"""`cenote compress`: data from files, options, what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx

from tests.cli.conftest import Command
from tests.quantization.networks import classifier, examples


def test_files_options_and_json(tmp_path: Path, cenote_command: Command) -> None:
    onnx.save(classifier(), tmp_path / "float.onnx")
    np.save(tmp_path / "x.npy", examples(4))
    given = ["compress", tmp_path / "float.onnx", tmp_path / "x.npy", "--for", "size", "--within", "0.5"]
    ended = cenote_command(*given, "-o", tmp_path / "a.onnx", "--treatment", "int8", "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert found["calibrated"]
    assert {each["treatment"] for each in found["changes"]} == {"int8"}
    assert (tmp_path / "a.onnx").exists()


def test_an_unknown_treatment_is_one_line(tmp_path: Path, cenote_command: Command) -> None:
    onnx.save(classifier(), tmp_path / "float.onnx")
    ended = cenote_command(
        "compress", tmp_path / "float.onnx", "-o", tmp_path / "a.onnx", "--treatment", "zip"
    )
    assert ended.code == 1
    assert "treatments: 'zip'" in ended.err
