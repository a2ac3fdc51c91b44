"""LiteRT (TensorFlow Lite with XNNPACK) on models that `bench.convert_litert` made, channels last."""

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from bench.engines.base import ModelEngine, UnavailableError
from bench.files import ModelFiles


class Model(ModelEngine):
    """Whole models."""

    distribution = "ai-edge-litert"

    def load(self, work: ModelFiles, threads: int) -> None:
        path = work.converted("tflite")
        if not path.exists():
            raise UnavailableError(
                f"no {path.name}: run python -m bench.convert_litert (see bench/README.md)"
            )
        self.interpreter = Interpreter(str(path), num_threads=threads)
        self.interpreter.allocate_tensors()
        self.entry = self.interpreter.get_input_details()[0]["index"]
        self.exit = self.interpreter.get_output_details()[0]["index"]

    def adopt(self, x: np.ndarray) -> np.ndarray:
        # The layout that LiteRT wants; given for free, so that no transposition is charged to it.
        return np.ascontiguousarray(x.transpose(0, 2, 3, 1))

    def run(self, x: np.ndarray) -> np.ndarray:
        self.interpreter.set_tensor(self.entry, x)
        self.interpreter.invoke()
        y: np.ndarray = self.interpreter.get_tensor(self.exit)
        return y
