"""Cenote itself, used as any other user would."""

from importlib import metadata
from typing import Any, ClassVar, Literal

import numpy as np

import cenote
from bench.cases import PoolCase
from bench.engines.base import Arrays, ModelEngine, PoolEngine
from bench.files import ModelFiles


def version_of() -> str:
    """The installed version, or what a checkout on the path is."""
    try:
        return metadata.version("cenote")
    except metadata.PackageNotFoundError:
        return "source"


class KernelCounter:
    """Counts the kernels that LLVM compiles from its construction on, in this process or in workers for it."""

    def __init__(self) -> None:
        from cenote.codegen import jit  # not at the top: importing Cenote is timed

        self.kernels = 0
        self.watch = jit.watching(self.count)
        self.watch.__enter__()  # for as long as the process lives

    def count(self, done: int, total: int) -> None:
        """Called after each kernel."""
        self.kernels += 1


class FastModel(ModelEngine):
    """Whole models, precision "fast": the default."""

    distribution = "cenote"
    precision: ClassVar[Literal["fast", "exact", "bfloat16"]] = "fast"
    counter: "KernelCounter | None" = None

    def version(self) -> str:
        return version_of()

    def prepare(self, work: ModelFiles) -> None:
        # Fills the kernel cache, so that `load` shows what every load but the first costs.
        cenote.load(str(work.onnx), threads=1, precision=self.precision)(work.read("x"))

    def load(self, work: ModelFiles, threads: int) -> None:
        self.model = cenote.load(str(work.onnx), threads=threads, precision=self.precision)

    def run(self, x: np.ndarray) -> Any:
        return self.model(x)

    def settle(self) -> None:
        from cenote.plans.later import finish  # not at the top: importing Cenote is timed

        finish()

    def compiled(self) -> int:
        if self.counter is None:
            self.counter = KernelCounter()
        return self.counter.kernels


class FixedSizeModel(FastModel):
    """Of a file of open sizes, the one of the same network whose size is fixed."""

    def load(self, work: ModelFiles, threads: int) -> None:
        super().load(work.of_fixed_size, threads)


class ExactModel(FastModel):
    """Whole models without Winograd."""

    precision = "exact"


class BfloatModel(FastModel):
    """Whole models with products and values of bfloat16."""

    precision = "bfloat16"


class Pool(PoolEngine):
    """cenote.functional, into memory that is allocated once where there is one result."""

    distribution = "cenote"

    def version(self) -> str:
        return version_of()

    def load(self, work: PoolCase, threads: int) -> None:
        self.call = call_of(work, threads)

    def run(self, x: np.ndarray) -> Any:
        return self.call(x)

    def outputs(self, y: Any) -> Arrays:
        return tuple(y) if isinstance(y, tuple | list) else (np.asarray(y),)


def call_of(case: PoolCase, threads: int) -> Any:
    """The function of one array that does what the case says."""
    from cenote import functional

    out = np.empty(case.output_shape, np.float32)
    if case.kind == "global average":
        return lambda x: functional.global_avg_pool(x, out=out, threads=threads)
    if case.kind == "adaptive average":
        size = (case.adaptive_size,) * case.rank
        return lambda x: functional.adaptive_avg_pool2d(x, size, out=out, threads=threads)
    window = (case.kernel, case.stride, case.padding)
    if case.indices:
        return lambda x: functional.max_pool2d(x, *window, return_indices=True, threads=threads)
    if case.kind == "max":
        maximum = getattr(functional, f"max_pool{case.rank}d")
        return lambda x: maximum(x, *window, out=out, threads=threads)
    average = getattr(functional, f"avg_pool{case.rank}d")
    counted = case.count_padding
    return lambda x: average(x, *window, count_include_pad=counted, out=out, threads=threads)
