"""Where the benchmarks keep a model's files."""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

MODEL_FOLDER = Path(__file__).parent / ".models"
RESULT_FOLDER = Path(__file__).parent / ".results"
# Ordered as the reports list them: by multiply-adds. Names only, because the networks themselves need torch.
ALL_MODELS = (
    "lenet5,shufflenet_v2_x1,mobilenet_v2,squeezenet1_1,efficientnet_b0,alexnet,googlenet,resnet18,densenet121,"
    "resnet50,yolov8n,inception_v3,vgg16,vgg16_bn"
)

FURTHER_MODELS = "unet,convnext_tiny,vit_small"  # bench.cold_start measures them too
RECURRENT_MODELS = "crnn"  # only bench.real_models measures them
QUANTIZED_MODELS = "efficientnet_lite0"  # only bench.quantized measures them
OPEN_SUFFIX = ".any"  # ends the names of networks whose batch and sizes are open


@dataclass(frozen=True)
class ModelFiles:
    """The files of one model: the exported ones, and what peers' converters made of them."""

    name: str
    folder: Path = MODEL_FOLDER

    @property
    def of_open_sizes(self) -> "ModelFiles":
        """The same network exported with its batch and sizes open."""
        return ModelFiles(f"{self.name}{OPEN_SUFFIX}", self.folder)

    @property
    def of_fixed_size(self) -> "ModelFiles":
        """What `of_open_sizes` is of."""
        return ModelFiles(self.name.removesuffix(OPEN_SUFFIX), self.folder)

    @property
    def onnx(self) -> Path:
        """The model itself, input `x`, output `y`."""
        return self.folder / f"{self.name}.onnx"

    @property
    def arrays(self) -> Path:
        """NumPy archive of the input, the reference outputs, the count of multiply-adds, and perhaps a tolerance."""
        return self.folder / f"{self.name}.npz"

    @property
    def weights(self) -> Path:
        """Torch weights of the network that the model was exported from."""
        return self.folder / f"{self.name}.pt"

    def converted(self, suffix: str) -> Path:
        """Place of the model in a peer's own format."""
        return self.folder / f"{self.name}.{suffix}"

    def read(self, array: str) -> np.ndarray:
        """One of the arrays `x`, `y`, `y64`, `macs`."""
        with np.load(self.arrays) as archive:
            found: np.ndarray = archive[array]
        return found

    @property
    def tolerance(self) -> float | None:
        """Largest error, relative to the largest output, at which an answer is right; None: that of all models."""
        with np.load(self.arrays) as archive:
            return float(archive["tolerance"]) if "tolerance" in archive else None


def require(parser: argparse.ArgumentParser, models: list[ModelFiles]) -> None:
    """Stops early if a model has not been exported."""
    missing = [files.name for files in models if not files.arrays.exists()]
    if missing:
        parser.error(f"not there: {', '.join(missing)}; first run python -m bench.export {' '.join(missing)}")
