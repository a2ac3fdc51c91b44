"""rapidocr's pipeline (detection, direction, recognition of text) as it is, and with Cenote under it.

What needs the package is imported when a pipeline is loaded: `pip install rapidocr-onnxruntime==1.4.4`.
"""

from importlib import metadata
from types import SimpleNamespace
from typing import Any

import numpy as np

from bench.engines.base import Engine


class OnnxRuntimePipeline(Engine[Any]):
    """rapidocr with the sessions that it makes itself."""

    distribution = "rapidocr-onnxruntime"

    def __init__(self) -> None:
        import rapidocr_onnxruntime  # with its dependencies: importing is not timed

        self.package = rapidocr_onnxruntime

    def load(self, work: Any, threads: int) -> None:
        self.pipeline = self.package.RapidOCR(intra_op_num_threads=threads, inter_op_num_threads=1)

    def run(self, x: np.ndarray) -> Any:
        """A page read: a list of [corners, text, score], from the top down."""
        lines, _ = self.pipeline(x)
        return lines or []

    def outputs(self, y: Any) -> Any:
        return y


class CenotePipeline(OnnxRuntimePipeline):
    """rapidocr with Cenote's models in the place of onnxruntime's sessions."""

    counter: Any = None

    def __init__(self) -> None:
        super().__init__()
        import cenote

        self.cenote = cenote

    def version(self) -> str:
        return f"{metadata.version(self.distribution)} on Cenote"

    def load(self, work: Any, threads: int) -> None:
        from rapidocr_onnxruntime.utils import infer_engine

        infer_engine.InferenceSession = lambda path, **_: Session(self.cenote.load(path, threads=threads))
        super().load(work, threads)

    def compiled(self) -> int:
        from bench.engines.cenote import KernelCounter

        if self.counter is None:
            self.counter = KernelCounter()
        kernels: int = self.counter.kernels
        return kernels


class Session:
    """What rapidocr uses of an onnxruntime.InferenceSession."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def run(self, names: Any, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
        outputs = self.model.run(feed)
        return [outputs[name] for name in names]

    def get_inputs(self) -> Any:
        return self.model.inputs

    def get_outputs(self) -> Any:
        return self.model.outputs

    def get_modelmeta(self) -> Any:
        return SimpleNamespace(custom_metadata_map=self.model.metadata)

    def get_providers(self) -> list[str]:
        return ["CPUExecutionProvider"]
