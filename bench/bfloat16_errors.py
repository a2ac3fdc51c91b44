"""Errors of models in bfloat16 on several pictures: Cenote beside OpenVINO. `python -m bench.bfloat16_errors --help`

The largest error of one picture is that of one number among a thousand; on ResNet-50 it lies between 0.09 and 0.14 in
either engine, by picture. The root of the mean square, over several pictures, tells engines apart.
"""

import argparse
from pathlib import Path

import numpy as np
import onnxruntime

from bench.bfloat16 import MODELS
from bench.engines import cenote as ours
from bench.engines import openvino as theirs
from bench.files import MODEL_FOLDER, ModelFiles, require
from bench.report import table

ENGINES = {"Cenote": ours.BfloatModel, "OpenVINO": theirs.BfloatModel}


def pictures(files: ModelFiles, count: int) -> list[np.ndarray]:
    """The model's own input, and others of normally distributed numbers."""
    own = files.read("x")
    more = (np.random.default_rng(seed).standard_normal(own.shape) for seed in range(count - 1))
    return [own, *(x.astype(np.float32) for x in more)]


def errors(y: np.ndarray, want: np.ndarray) -> tuple[float, float]:
    """Root of the mean square of the error relative to that of the result, and the largest relative to the largest."""
    off = y.astype(np.float64) - want
    rms = float(np.sqrt((off**2).mean() / (want**2).mean()))
    return rms, float(np.abs(off).max() / np.abs(want).max())


def row(files: ModelFiles, count: int) -> list[str]:
    """Means over the pictures of both errors, and how many pictures have the smaller one with each engine."""
    session = onnxruntime.InferenceSession(files.onnx, providers=["CPUExecutionProvider"])
    given = pictures(files, count)
    wanted = [session.run(None, {"x": x})[0].astype(np.float64) for x in given]  # float32: off by 1e-5
    found = {}
    for name, kind in ENGINES.items():
        engine = kind()
        engine.load(files, 1)
        results = [errors(np.array(engine.run(x)), want) for x, want in zip(given, wanted, strict=True)]
        found[name] = np.array(results)
    cells = [f"{found[name][:, which].mean():.3g}" for which in (0, 1) for name in ENGINES]
    mine, others = found.values()
    return [files.name, *cells, *(f"{count_of} of {count}" for count_of in (mine < others).sum(0))]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.bfloat16_errors", description=__doc__)
    parser.add_argument("--models", default=MODELS, help=f"names (default: {MODELS})")
    parser.add_argument("--pictures", type=int, default=12, help="for each model (default: 12)")
    parser.add_argument("--folder", type=Path, default=MODEL_FOLDER, help="where bench.export wrote them")
    arguments = parser.parse_args()
    models = [ModelFiles(name, arguments.folder.resolve()) for name in arguments.models.split(",")]
    require(parser, models)
    header = ["", *(f"{what} of {name}" for what in ("rms", "largest") for name in ENGINES)]
    header += ["smaller rms of Cenote", "smaller largest of Cenote"]
    print(table(header, [row(files, arguments.pictures) for files in models]))


if __name__ == "__main__":
    main()
