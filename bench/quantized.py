"""Models in 8 bits: writes them as ONNX Runtime's tool quantises them, then measures them as `bench.models` does.
`python -m bench.quantized --help`"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.arguments import chosen_engines, shared_parser
from bench.engines import MODEL_ENGINES
from bench.files import MODEL_FOLDER, ModelFiles, require
from bench.models import run
from bench.pool_reference import error

QUANTIZED = "mobilenet_v2,squeezenet1_1,efficientnet_b0,resnet18,resnet50,unet,vit_small"
# An answer is right that is at most so many times as far from the floats' as the model in 8 bits itself. With random
# weights a number that rounds the other way early moves later ones: engines differ by a third of that distance.
FURTHER = 1.5
PICTURES = 4  # for the ranges of activations; weights and pictures are random, so more would change nothing


class _Pictures:
    """Calibration data of onnxruntime.quantization: seeded normal noise, as the benchmark's input is."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.left = self._made(shape)

    @staticmethod
    def _made(shape: tuple[int, ...]) -> Iterator[dict[str, Any]]:
        for seed in range(PICTURES):
            yield {"x": np.random.default_rng(seed).standard_normal(shape).astype(np.float32)}

    def get_next(self) -> dict[str, Any] | None:
        return next(self.left, None)


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
            np.savez(
                made.arrays, **archive, tolerance=FURTHER * own_error(made.onnx, archive["x"], archive["y64"])
            )
    return made


def own_error(model: Path, x: np.ndarray, truth: np.ndarray) -> float:
    """Returns what 8 bits cost: largest error / largest output, of ONNX Runtime node by node, whose sums are floats."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return error(session.run(None, {"x": x}), (truth,))


def main() -> None:
    """Command line."""
    parser = shared_parser("python -m bench.quantized", "Measure models in 8 bits.", MODEL_ENGINES)
    parser.add_argument("--models", default=QUANTIZED, help=f"names (default: {QUANTIZED})")
    parser.add_argument("--folder", type=Path, default=MODEL_FOLDER, help="where bench.export wrote them")
    arguments = parser.parse_args()
    specs = chosen_engines(parser, arguments.engines, MODEL_ENGINES)
    models = [ModelFiles(name, arguments.folder.resolve()) for name in arguments.models.split(",")]
    require(parser, models)
    run([*models, *map(quantize, models)], specs, arguments)


if __name__ == "__main__":
    main()
