"""LiteRT (TensorFlow Lite with XNNPACK) on models that `bench.convert_litert` made, channels last."""

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from bench.engines.base import Arrays, ModelEngine, UnavailableError
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
        self.given = self.interpreter.get_input_details()[0]
        self.made = self.interpreter.get_output_details()[0]
        self.entry, self.exit = self.given["index"], self.made["index"]

    def adopt(self, x: np.ndarray) -> np.ndarray:
        # The layout that LiteRT wants, and numbers of a model in 8 bits; given for free, so that neither is charged.
        # Sounds and volumes are converted as they are.
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if x.ndim == 4 else x
        if self.given["dtype"] == np.float32:
            return x
        scale, zero = self.given["quantization"]
        limits = np.iinfo(self.given["dtype"])
        return np.clip(np.rint(x / scale) + zero, limits.min, limits.max).astype(limits.dtype)

    def run(self, x: np.ndarray) -> np.ndarray:
        self.interpreter.set_tensor(self.entry, x)
        self.interpreter.invoke()
        y: np.ndarray = self.interpreter.get_tensor(self.exit)
        return y

    def outputs(self, y: np.ndarray) -> Arrays:
        if y.dtype == np.float32:
            return (y,)
        scale, zero = self.made["quantization"]
        return (((y.astype(np.float32) - zero) * scale).astype(np.float32),)
