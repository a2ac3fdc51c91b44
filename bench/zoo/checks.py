"""Answers of the zoo's networks: of the timed size against float64, of open sizes against ONNX Runtime and, where the
two differ by more than the tolerance, against float64."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bench.classes import classes_of, sizes_of
from bench.engines import MODEL_ENGINES
from bench.engines.base import Arrays
from bench.files import ModelFiles
from bench.process import EngineError, EngineProcess
from bench.zoo.architectures import Architecture
from cenote.core.errors import CenoteError

SIZES, SEED = 5, 5
OURS, PEER = MODEL_ENGINES["cenote"], MODEL_ENGINES["onnxruntime"]


@dataclass
class Check:
    """One file's answers. Errors are the largest difference / the largest value, over all sizes; None: no answer.

    `error`: of Cenote, from float64, or from ONNX Runtime at open sizes, where float64 was not asked; `peer`: ONNX
    Runtime's own, from float64. `tolerance`: that of float64 at open sizes; None: that of the network. `failure`: what
    Cenote said, or that its process ended; `peer_failure`: likewise. `same_bits`: whether one and two threads gave the
    same. `classes`: plans that the sizes needed. `host_steps`: by operator.
    """

    error: float | None = None
    peer: float | None = None
    failure: str = ""
    peer_failure: str = ""
    same_bits: bool = True
    classes: int = 0
    host_steps: dict[str, int] = field(default_factory=dict)
    tolerance: float | None = None

    def is_right(self, tolerance: float) -> bool:
        """Whether every answer came, was right, and came of one plan for all threads."""
        allowed = self.tolerance or tolerance
        return not self.failure and self.same_bits and self.error is not None and self.error <= allowed


def difference(found: Arrays, truth: Arrays) -> float:
    """Largest difference / largest value of the first outputs; infinite where shapes differ or a value is no number."""
    y, expected = found[0].astype(np.float64), truth[0].astype(np.float64)
    if y.shape != expected.shape:
        return float("inf")
    largest = float(np.abs(y - expected).max() / max(np.abs(expected).max(), 1e-30))
    return largest if np.isfinite(largest) else float("inf")


def answers(ours: bool, files: ModelFiles, inputs: list[np.ndarray], threads: int) -> list[Arrays]:
    """The outputs of an engine, loaded once in a process of its own."""
    spec = OURS if ours else PEER
    process = EngineProcess(spec, threads)
    try:
        process.call("start", spec, threads)
        process.call("load", files, threads)
        return [process.call("first", x)[1] for x in inputs]
    finally:
        process.close()


def check_fixed(one: Architecture, folder: Path) -> Check:
    """The file of the timed size, on one thread and two, against float64."""
    files, found = ModelFiles(one.name, folder), Check()
    x, truth = files.read("x"), (files.read("y64"),)
    try:
        alone, both = (answers(True, files, [x], threads)[0] for threads in (1, 2))
    except EngineError as problem:
        found.failure = str(problem)
    else:
        found.error = difference(alone, truth)
        found.same_bits = alone[0].tobytes() == both[0].tobytes()
        planned(found, one.name, files.onnx, [one.shape])
    try:
        found.peer = difference(answers(False, files, [x], 1)[0], truth)
    except EngineError as problem:
        found.peer_failure = str(problem)
    return found


def open_inputs(one: Architecture) -> list[np.ndarray]:
    """The inputs at open sizes."""
    shapes = sizes_of(one, SIZES, SEED)
    return [np.random.default_rng(SEED).standard_normal(shape, np.float32) for shape in shapes]


def check_open(one: Architecture, folder: Path, tolerance: float) -> Check:
    """The file of open sizes, loaded once and run at several, against ONNX Runtime, or float64 where they differ."""
    files, found = ModelFiles(one.name, folder).of_open_sizes, Check()
    inputs = open_inputs(one)
    try:
        theirs = answers(False, files, inputs, 2)
    except EngineError as problem:
        found.peer_failure, theirs = str(problem), []
    try:
        ours = answers(True, files, inputs, 2)
    except EngineError as problem:
        found.failure = str(problem)
        return found
    if theirs:
        found.error = max(map(difference, ours, theirs))
        if found.error > tolerance and files.arrays.exists():
            exact = [(files.read(f"y64_{index}"),) for index in range(len(inputs))]
            found.error, found.peer = (max(map(difference, each, exact)) for each in (ours, theirs))
            found.tolerance = files.tolerance
    planned(found, one.name, files.onnx, [x.shape for x in inputs])
    return found


def planned(found: Check, name: str, path: Path, shapes: list[tuple[int, ...]]) -> None:
    """Add how many classes of plans the sizes needed, and the steps that run in Python."""
    try:
        classes = classes_of(name, path, shapes)
    except CenoteError as problem:
        found.failure = str(problem)
        return
    found.failure, found.classes, found.host_steps = classes.failure, len(classes.splits), dict(classes.hosts)
