"""OpenVINO, CPU device, one stream, float32, or bfloat16, its default where a CPU has it; inputs and outputs shared
with NumPy, so nothing is copied."""

from typing import Any

import numpy as np
import openvino
from openvino import opset8

from bench.cases import PoolCase
from bench.engines.base import Arrays, ModelEngine, PoolEngine
from bench.engines.pool_onnx import pool_onnx, within_plane
from bench.files import ModelFiles


def compiled(model: openvino.Model, threads: int, precision: str = "f32") -> openvino.CompiledModel:
    """The model compiled for latency on so many threads."""
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": "1",
        "INFERENCE_NUM_THREADS": str(threads),
        # On some CPUs the default is bfloat16, which would be another race.
        "INFERENCE_PRECISION_HINT": precision,
    }
    return openvino.Core().compile_model(model, "CPU", settings)


class Model(ModelEngine):
    """Whole models."""

    distribution = "openvino"
    precision = "f32"

    def load(self, work: ModelFiles, threads: int) -> None:
        model = openvino.Core().read_model(work.onnx)
        self.request = compiled(model, threads, self.precision).create_infer_request()

    def run(self, x: np.ndarray) -> np.ndarray:
        y: np.ndarray = self.request.infer([x], share_inputs=True, share_outputs=True)[0]
        return y


class BfloatModel(Model):
    """Whole models in bfloat16."""

    precision = "bf16"


class Pool(PoolEngine):
    """Pooling as a model of one operator."""

    distribution = "openvino"

    def load(self, work: PoolCase, threads: int) -> None:
        self.case = work
        self.request = compiled(model_of(work), threads).create_infer_request()

    def run(self, x: np.ndarray) -> Any:
        return self.request.infer([x], share_inputs=True, share_outputs=True)

    def outputs(self, y: Any) -> Arrays:
        return within_plane(self.case, tuple(np.array(array) for array in y.to_tuple()))


def model_of(case: PoolCase) -> openvino.Model:
    """The case as an OpenVINO model; adaptive pooling, which ONNX lacks, is built directly."""
    if case.kind != "adaptive average":
        return openvino.Core().read_model(pool_onnx(case))
    x = opset8.parameter(list(case.shape), np.float32, name="x")
    size = opset8.constant(np.array([case.adaptive_size] * case.rank, np.int64))
    return openvino.Model([opset8.adaptive_avg_pool(x, size)], [x], "adaptive")
