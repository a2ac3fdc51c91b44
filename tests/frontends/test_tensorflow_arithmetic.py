"""Operators of TensorFlow that ONNX has in another sense, in graphs written out here, against TensorFlow's formulas."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import cenote
from cenote.core.types import Array

PLACEHOLDER = 'node {{ name: "{0}" op: "Placeholder" attr {{ key: "dtype" value {{ type: {1} }} }} }}\n'
PAIR = 'node {{ name: "z" op: "{0}" input: "x" input: "y" attr {{ key: "T" value {{ type: {1} }} }} }}\n'


def run(folder: Path, op: str, kind: str, x: Array, y: Array) -> Array:
    """A graph of one operator on two inputs."""
    file = folder / f"{op}{kind}.pbtxt"
    file.write_text(
        PLACEHOLDER.format("x", kind) + PLACEHOLDER.format("y", kind) + PAIR.format(op, kind),
        encoding="utf-8",
    )
    made: Array = cenote.load(file, threads=1)(x=x, y=y)
    return made


def floor_mod(x: float, y: float) -> float:
    """TensorFlow's google_floor_fmod."""
    left = math.fmod(x, y)
    return left + y if left and (left < 0) != (y < 0) else left


@pytest.mark.parametrize("kind", ["DT_FLOAT", "DT_INT32"])
def test_floor_quotients_and_remainders(tmp_path: Path, kind: str) -> None:
    dtype = np.float32 if kind == "DT_FLOAT" else np.int32
    x = np.array([5, -5, 7, -7, 1, 0, 100], dtype)
    y = np.array([[2], [-3], [3]], dtype)
    if kind == "DT_FLOAT":
        y = np.array([[0.1], [-0.3], [2.5]], dtype)
    quotient, left = run(tmp_path, "FloorDiv", kind, x, y), run(tmp_path, "FloorMod", kind, x, y)
    for row, column in np.ndindex(quotient.shape):
        a, b = x[column].item(), y[row, 0].item()
        # Floats: rounded down after the division, which may round up to a whole number: 5 / 0.1 is 50.
        assert quotient[row, column] == (math.floor(dtype(a) / dtype(b)) if kind == "DT_FLOAT" else a // b)
        assert left[row, column] == dtype(floor_mod(a, b))
