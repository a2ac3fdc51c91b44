"""ONNX Runtime, CPU provider: plain sessions for models, io-binding with preallocated outputs for pooling."""

import numpy as np
import onnxruntime

from bench.cases import PoolCase
from bench.engines.base import Arrays, ModelEngine, PoolEngine
from bench.engines.pool_onnx import pool_onnx, within_plane
from bench.files import ModelFiles


def session_of(model: str | bytes, threads: int) -> onnxruntime.InferenceSession:
    """A session with all graph optimisations, on so many threads."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class Model(ModelEngine):
    """Whole models."""

    distribution = "onnxruntime"

    def load(self, work: ModelFiles, threads: int) -> None:
        self.session = session_of(str(work.onnx), threads)
        self.input = self.session.get_inputs()[0].name
        self.wanted = [output.name for output in self.session.get_outputs()]

    def run(self, x: np.ndarray) -> np.ndarray:
        y: np.ndarray = self.session.run(self.wanted, {self.input: x})[0]
        return y


class Pool(PoolEngine):
    """Pooling into memory that is bound once."""

    distribution = "onnxruntime"

    def load(self, work: PoolCase, threads: int) -> None:
        self.case = work
        self.session = session_of(pool_onnx(work), threads)
        self.results = [np.empty(work.output_shape, np.float32)]
        if work.indices:
            self.results.append(np.empty(work.output_shape, np.int64))

    def adopt(self, x: np.ndarray) -> onnxruntime.IOBinding:
        binding = self.session.io_binding()
        self.values = [onnxruntime.OrtValue.ortvalue_from_numpy(x)]
        binding.bind_ortvalue_input("x", self.values[0])
        for output, array in zip(self.session.get_outputs(), self.results, strict=True):
            kind, place = array.dtype.type, array.ctypes.data
            binding.bind_output(output.name, "cpu", 0, kind, array.shape, place)
        return binding

    def run(self, x: onnxruntime.IOBinding) -> None:
        self.session.run_with_iobinding(x)

    def outputs(self, y: None) -> Arrays:
        return within_plane(self.case, tuple(self.results))
