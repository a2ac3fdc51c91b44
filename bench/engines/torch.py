"""PyTorch on the CPU: eager modules, optionally compiled; pooling in both memory layouts."""

from typing import Any

import numpy as np
import torch
from torch.nn import functional

from bench.cases import PoolCase
from bench.engines.base import Arrays, ModelEngine, PoolEngine, UnavailableError
from bench.files import ModelFiles
from bench.networks import NETWORKS, restore


def use_threads(threads: int) -> None:
    """So many threads, and no gradients, for the whole process."""
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    torch.set_grad_enabled(False)


class Model(ModelEngine):
    """The eager module that the ONNX file was exported from."""

    distribution = "torch"

    def load(self, work: ModelFiles, threads: int) -> None:
        if work.name not in NETWORKS:
            raise UnavailableError("not one of the benchmark networks: no torch module")
        use_threads(threads)
        self.module: Any = restore(work.name, work.weights)

    def run(self, x: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            y: np.ndarray = self.module(torch.from_numpy(x)).numpy()
        return y


class CompiledModel(Model):
    """The same module through torch.compile, which needs a C++ compiler on the machine."""

    def load(self, work: ModelFiles, threads: int) -> None:
        super().load(work, threads)
        self.module = torch.compile(self.module)
        self.run(work.read("x"))  # compiles: part of loading, not of the first inference


class Pool(PoolEngine):
    """torch.nn.functional on contiguous tensors."""

    distribution = "torch"

    def load(self, work: PoolCase, threads: int) -> None:
        use_threads(threads)
        self.call = call_of(work)

    def adopt(self, x: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(x)

    def run(self, x: torch.Tensor) -> Any:
        with torch.inference_mode():
            return self.call(x)

    def outputs(self, y: Any) -> Arrays:
        tensors = y if isinstance(y, tuple) else (y,)
        return tuple(tensor.contiguous().numpy() for tensor in tensors)


class ChannelsLastPool(Pool):
    """The same functions on tensors that lie in memory with channels last."""

    def load(self, work: PoolCase, threads: int) -> None:
        if work.rank == 1:
            raise UnavailableError("torch has no channels-last format for three axes")
        super().load(work, threads)

    def adopt(self, x: np.ndarray) -> torch.Tensor:
        layout = torch.channels_last if x.ndim == 4 else torch.channels_last_3d
        return torch.from_numpy(x).contiguous(memory_format=layout)


def call_of(case: PoolCase) -> Any:
    """The function of one tensor that does what the case says."""
    if case.kind in ("global average", "adaptive average"):
        size = 1 if case.kind == "global average" else case.adaptive_size
        return lambda x: functional.adaptive_avg_pool2d(x, size)
    window: dict[str, Any] = {"kernel_size": case.kernel, "stride": case.stride, "padding": case.padding}
    if case.kind == "max":
        maximum: Any = (functional.max_pool1d, functional.max_pool2d, functional.max_pool3d)[case.rank - 1]
        return lambda x: maximum(x, **window, return_indices=case.indices)
    average: Any = (functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)[case.rank - 1]
    return lambda x: average(x, **window, count_include_pad=case.count_padding)
