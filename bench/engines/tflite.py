"""Engines that load a TensorFlow Lite file as it is and take its NHWC input."""

from pathlib import Path
from typing import Any

import numpy as np

from bench.engines.base import Engine


class Cenote(Engine[Any]):
    """Cenote's own reader."""

    distribution = "cenote"

    def version(self) -> str:
        import cenote

        return cenote.__version__

    def load(self, work: Path, threads: int) -> None:
        import cenote

        self.model = cenote.load(work, threads=threads)

    def run(self, x: np.ndarray) -> Any:
        return self.model(x)


class LiteRT(Engine[Any]):
    """LiteRT, with XNNPACK as it is by default."""

    distribution = "ai-edge-litert"

    def load(self, work: Path, threads: int) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self.interpreter = Interpreter(str(work), num_threads=threads)
        self.interpreter.allocate_tensors()
        self.entry = self.interpreter.get_input_details()[0]["index"]
        self.exit = self.interpreter.get_output_details()[0]["index"]

    def run(self, x: np.ndarray) -> Any:
        self.interpreter.set_tensor(self.entry, x)
        self.interpreter.invoke()
        return self.interpreter.get_tensor(self.exit)
