"""Models for tests of serving: one that waits to be let go, and files of small ones."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

from cenote.core.types import Array, Declared

ROWS = (Declared("x", np.dtype(np.float32), ("n", None)),)


class Doubling:
    """Gives 2 x, but raises where a number is negative. Held, it waits at the start of each run; notes rows of runs."""

    inputs = ROWS

    def __init__(self, held: bool = False) -> None:
        self.runs: list[int] = []
        self.entered = threading.Semaphore(0)
        self.go = threading.Event()
        if not held:
            self.go.set()

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        x = inputs["x"]
        self.runs.append(len(x))
        self.entered.release()
        assert self.go.wait(60)
        if (x < 0).any():
            raise ValueError(f"negative: {x.min()}")
        return {"y": 2 * x}


def save_times(path: Path, factor: float, rows: int | str = "n") -> Path:
    """An ONNX file of y = factor * x, x: float32[rows,4]."""
    path.parent.mkdir(parents=True, exist_ok=True)
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "factor"], ["y"])],
        "times",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 4])],
        [numpy_helper.from_array(np.float32([factor]), "factor")],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path
