"""ncnn, from the ONNX file through pnnx, with float32 weights and arithmetic."""

import os
import subprocess
import tempfile
from pathlib import Path

import ncnn
import numpy as np

from bench.engines.base import ModelEngine, UnavailableError
from bench.files import ModelFiles


class Model(ModelEngine):
    """Whole models."""

    distribution = "ncnn"

    def prepare(self, work: ModelFiles) -> None:
        if not work.converted("ncnn.bin").exists():
            convert(work)

    def load(self, work: ModelFiles, threads: int) -> None:
        self.net = ncnn.Net()
        options = self.net.opt
        options.num_threads = threads
        options.use_vulkan_compute = False
        options.use_fp16_packed = options.use_fp16_storage = options.use_fp16_arithmetic = False
        self.net.load_param(str(work.converted("ncnn.param")))
        self.net.load_model(str(work.converted("ncnn.bin")))

    def run(self, x: np.ndarray) -> np.ndarray:
        extractor = self.net.create_extractor()
        # Without the clone, ncnn may work in place in the caller's array.
        extractor.input("in0", ncnn.Mat(x, batch_index=0).clone())
        _, out = extractor.extract("out0")
        y: np.ndarray = out.numpy(batch_index=0)
        return y

    def outputs(self, y: np.ndarray) -> tuple[np.ndarray, ...]:
        return (np.array(y),)


def convert(work: ModelFiles) -> None:
    """Runs pnnx, which leaves seven files, of which two are wanted."""
    import pnnx

    shape = ",".join(map(str, work.read("x").shape))
    with tempfile.TemporaryDirectory(dir=work.folder) as scratch:
        model = Path(scratch) / "model.onnx"
        model.symlink_to(work.onnx.resolve())
        command = [pnnx.EXEC_PATH, str(model), f"inputshape=[{shape}]", "fp16=0"]
        subprocess.run(
            command, cwd=scratch, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
        )
        produced = {suffix: Path(scratch) / f"model.{suffix}" for suffix in ("ncnn.param", "ncnn.bin")}
        if not all(path.exists() for path in produced.values()):
            raise UnavailableError("pnnx could not convert the model")
        for suffix, path in produced.items():  # the weights last: they are what `prepare` looks for
            os.replace(path, work.converted(suffix))
