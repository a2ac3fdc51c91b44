"""Where the benchmarks keep a model's files."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

MODEL_FOLDER = Path(__file__).parent / ".models"
RESULT_FOLDER = Path(__file__).parent / ".results"


@dataclass(frozen=True)
class ModelFiles:
    """The files of one model: the exported ones, and what peers' converters made of them."""

    name: str
    folder: Path = MODEL_FOLDER

    @property
    def onnx(self) -> Path:
        """The model itself, input `x`, output `y`."""
        return self.folder / f"{self.name}.onnx"

    @property
    def arrays(self) -> Path:
        """NumPy archive of the input, the reference outputs and the count of multiply-adds."""
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
