"""Files of models in 8 bits for the benchmarks, as ONNX Runtime's tool quantises them."""

from pathlib import Path
from typing import Any

import numpy as np

from bench.calibration import pictures
from bench.files import ModelFiles
from bench.pool_reference import error

# An answer is right that is at most so many times as far from the floats' as the model in 8 bits itself. With random
# weights a number that rounds the other way early moves later ones: engines differ by a third of that distance.
FURTHER = 1.5


class _Pictures:
    """Calibration data as onnxruntime.quantization takes it."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.left = pictures(shape)

    def get_next(self) -> dict[str, Any] | None:
        return next(({"x": x} for x in self.left), None)


def quantize(files: ModelFiles) -> ModelFiles:
    """Writes the model in 8 bits, unless it is there: u8 activations, s8 weights per filter, QDQ form."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    made = ModelFiles(f"{files.name}.int8", files.folder)
    if not made.arrays.exists():
        prepared = files.converted("prepared.onnx")
        quant_pre_process(files.onnx, prepared, skip_symbolic_shape=True)
        quantize_static(
            prepared,
            made.onnx,
            _Pictures(files.read("x").shape),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
        prepared.unlink()
        # The truth stays that of the floats, in float64.
        with np.load(files.arrays) as archive:
            cost = own_error(made.onnx, archive["x"], archive["y64"])
            np.savez(made.arrays, **archive, tolerance=FURTHER * cost)
    return made


def own_error(model: Path, x: np.ndarray, truth: np.ndarray) -> float:
    """Returns what 8 bits cost: largest error / largest output, of a plain run."""
    return error((run_plainly(model, x),), (truth,))


def run_plainly(model: Path, x: np.ndarray) -> np.ndarray:
    """Returns the first output by ONNX Runtime node by node, whose sums are floats: nothing saturates on any CPU."""
    y: np.ndarray = plain_session(model).run(None, {"x": x})[0]
    return y


def plain_session(model: Path | bytes) -> Any:
    """Returns an ONNX Runtime session that computes node by node."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
