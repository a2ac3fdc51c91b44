"""MNN, CPU backend, "high" precision (float32), from the ONNX file through its own converter."""

import os

import MNN
import numpy as np
from MNN import expr

from bench.engines.base import ModelEngine, UnavailableError
from bench.files import ModelFiles


class Model(ModelEngine):
    """Whole models."""

    distribution = "mnn"

    def prepare(self, work: ModelFiles) -> None:
        if not work.converted("mnn").exists():
            convert(work)

    def load(self, work: ModelFiles, threads: int) -> None:
        settings = {"backend": "CPU", "precision": "high", "numThread": threads}
        self.manager = MNN.nn.create_runtime_manager((settings,))
        path = str(work.converted("mnn"))
        self.module = MNN.nn.load_module_from_file(path, ["x"], ["y"], runtime_manager=self.manager)

    def run(self, x: np.ndarray) -> np.ndarray:
        value = expr.placeholder(list(x.shape), expr.NCHW, expr.float)
        value.write(x)
        y: np.ndarray = self.module.forward(value).read()
        return y


def convert(work: ModelFiles) -> None:
    """Runs MNN's converter; its command-line program would do the same and then report usage."""
    from MNN.tools import mnnconvert

    target = work.converted("mnn.part")
    options = ["-f", "ONNX", "--modelFile", str(work.onnx), "--MNNModel", str(target), "--bizCode", "bench"]
    mnnconvert.convert(["mnnconvert", *options])
    if not target.exists():
        raise UnavailableError("MNN's converter could not convert the model")
    os.replace(target, work.converted("mnn"))
