"""Models of any inputs and outputs, by name: Cenote, which also tells what its NumPy steps take, ONNX Runtime and
OpenVINO.

The work is the path of a file; `run` takes a dict of arrays.
"""

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest.mock import patch

import numpy as np

from bench.engines.base import Arrays, Engine

Inputs = Mapping[str, np.ndarray]


class CenoteModel(Engine[Any]):
    """Cenote, as any user would call it."""

    distribution = "cenote"

    def __init__(self) -> None:
        import cenote

        self.cenote = cenote

    def version(self) -> str:
        from bench.engines.cenote import version_of

        return version_of()

    def load(self, work: Any, threads: int) -> None:
        self.model = self.cenote.load(work, threads=threads)

    def adopt(self, x: Any) -> Inputs:
        self.run(x)  # a file that leaves sizes open is compiled when it first sees them
        return x

    def run(self, x: Inputs) -> Arrays:
        return tuple(self.model.run(x).values())

    def outputs(self, y: Arrays) -> Arrays:
        return y

    def shares(self, x: Inputs, runs: int) -> dict[str, float]:
        """The share of a run's time that each step outside of native code takes, medians over so many runs."""
        rows: list[dict[str, float]] = []
        totals: list[float] = []
        for _ in range(runs):
            with timed_host_steps() as seconds:
                begin = time.perf_counter()
                self.run(x)
                totals.append(time.perf_counter() - begin)
            rows.append(dict(seconds))
        total = float(np.median(totals))
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: float(np.median([row.get(name, 0.0) for row in rows])) / total for name in names}


@contextlib.contextmanager
def timed_host_steps() -> Iterator[dict[str, float]]:
    """While it lasts, seconds of each step that NumPy computes, and of each node between two stages."""
    from cenote.graph.interpreter import run_node
    from cenote.runtime.steps import HostStep

    seconds: dict[str, float] = defaultdict(float)

    def timed(function: Callable[..., Any], name: Callable[[Any], str]) -> Callable[..., Any]:
        def call(first: Any, *rest: Any) -> Any:
            begin = time.perf_counter()
            try:
                return function(first, *rest)
            finally:
                seconds[name(first)] += time.perf_counter() - begin

        return call

    run = timed(HostStep.run, lambda step: f"{step.operator} [{step.label}]")
    node = timed(run_node, lambda each: f"{each.op} [{each.title}, between stages]")
    with patch.object(HostStep, "run", run), patch("cenote.graph.cut.run_node", node):
        yield seconds


class OnnxRuntimeModel(Engine[Any]):
    """ONNX Runtime with all graph optimisations."""

    distribution = "onnxruntime"

    def load(self, work: Any, threads: int) -> None:
        from bench.engines.onnxruntime import session_of

        self.session = session_of(work, threads)

    def run(self, x: Inputs) -> Arrays:
        return tuple(self.session.run(None, x))

    def outputs(self, y: Arrays) -> Arrays:
        return y


class OpenVinoModel(Engine[Any]):
    """OpenVINO, for latency."""

    distribution = "openvino"

    def load(self, work: Any, threads: int) -> None:
        import openvino

        from bench.engines.openvino import compiled

        self.model = compiled(openvino.Core().read_model(work), threads)

    def run(self, x: Inputs) -> Arrays:
        return tuple(np.array(y) for y in self.model(dict(x)).values())

    def outputs(self, y: Arrays) -> Arrays:
        return y
