"""Import, load and first answer of a process that finds empty caches. `python -m bench.cold_start --help`

What a container, a test or a serverless function waits for. The wheel (`make wheel`) is installed into a fresh folder.
Each start is a process of its own with an empty cache folder; engines take turns, and every answer is checked. "warm"
is a second process with the cache that the first one left. Times begin before NumPy is imported and end with the
answer; "CPU" is that of all processes and threads, compiling ones included.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np

from bench.arguments import output_folder
from bench.files import FURTHER_MODELS, MODEL_FOLDER, ModelFiles
from bench.process import ROOT
from examples.real_models import fetch

MODELS = (
    f"resnet50,mobilenet_v2,{FURTHER_MODELS},text_detection,text_direction,text_recognition,"
    "vgg16,inception_v3,densenet121"
)
ENGINES = ("onnxruntime", "wheel", "checkout")
# Trained models that come out of packages, and a size that rapidocr gives them.
FETCHED = {
    "text_detection": (1, 3, 736, 736), "text_direction": (1, 3, 48, 192), "text_recognition": (1, 3, 48, 320),
}  # fmt: skip
TOLERANCE = 1e-3  # largest error / largest output: the answers differ by far less, a wrong kernel by far more

CENOTE = """
import cenote
model = cenote.load(path)
marks.append(time.perf_counter())
y = next(iter(model.run({model.inputs[0].name: x}).values()))
"""
ONNXRUNTIME = """
import onnxruntime
options = onnxruntime.SessionOptions()
options.log_severity_level = 3
session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
marks.append(time.perf_counter())
y = session.run(None, {session.get_inputs()[0].name: x})[0]
"""
CHILD = """
import sys, time
marks, (path, given, answer) = [time.perf_counter()], sys.argv[1:]
import numpy
x = numpy.load(given)
ENGINE
marks.append(time.perf_counter())
numpy.save(answer, y)
print(marks[1] - marks[0], marks[2] - marks[0])
"""


@dataclass
class Start:
    """Starts of one engine with one model, in seconds: import and load, the answer, CPU; a list has an item a round."""

    model: str
    engine: str
    loaded: list[float] = field(default_factory=list)
    answered: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)
    failure: str = ""


@dataclass(frozen=True)
class Setting:
    """Where things are: the installed wheel, the models, a folder for files in between."""

    site: Path | None
    models: Path
    scratch: Path

    def paths(self, engine: str) -> list[Path]:
        """What the engine's process imports from first."""
        return {"wheel": [self.site or ROOT], "checkout": [ROOT / "src"]}.get(engine, [])


def files_of(name: str, setting: Setting) -> tuple[Path, np.ndarray, np.ndarray | None]:
    """The model, an input, and the answer if it is known."""
    if name in FETCHED:
        return fetch(name), np.random.default_rng(7).random(FETCHED[name], np.float32), None
    files = ModelFiles(name, setting.models)
    return files.onnx, files.read("x"), files.read("y64")


def start_once(
    engine: str, model: Path, x: Path, cache: Path, setting: Setting
) -> tuple[np.ndarray, list[float]]:
    """The answer, and seconds: loaded, answered, CPU. Raises RuntimeError when the process fails."""
    answer = setting.scratch / "y.npy"
    paths = [*map(str, setting.paths(engine)), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "CENOTE_CACHE": str(cache),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    code = CHILD.replace("ENGINE", ONNXRUNTIME if engine == "onnxruntime" else CENOTE)
    before = os.times()
    done = subprocess.run(
        [sys.executable, "-c", code, str(model), str(x), str(answer)],
        capture_output=True, text=True, check=False, env=environment, cwd=setting.scratch,
    )  # fmt: skip
    after = os.times()
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"code {done.returncode}"])[-1])
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return np.load(answer), [*map(float, done.stdout.split()), used]


def measure(name: str, engines: Sequence[str], rounds: int, setting: Setting) -> list[Start]:
    """All engines on one model, in turns; another one begins each round."""
    model, x, truth = files_of(name, setting)
    given = setting.scratch / "x.npy"
    np.save(given, x)
    starts = {engine: Start(name, engine) for engine in engines}
    for number in range(rounds):
        for engine in [*engines[number % len(engines) :], *engines[: number % len(engines)]]:
            start, cache = starts[engine], setting.scratch / "cache"
            if start.failure:
                continue
            try:
                for kept in ((), (start.warm,)):
                    y, (loaded, answered, used) = start_once(engine, model, given, cache, setting)
                    truth = y if truth is None else truth  # where nobody knows it, the first engine's answer
                    check(y, truth)
                    if kept:
                        start.warm.append(answered)
                    else:
                        start.loaded.append(loaded)
                        start.answered.append(answered)
                        start.cpu.append(used)
            except (RuntimeError, ValueError) as error:
                start.failure = str(error)
            finally:
                shutil.rmtree(cache, ignore_errors=True)
    return list(starts.values())


def check(y: np.ndarray, truth: np.ndarray) -> None:
    """Raises ValueError for a wrong answer."""
    error = np.abs(y - truth).max() / np.abs(truth).max() if y.shape == truth.shape else np.inf
    if not error <= TOLERANCE:
        raise ValueError(f"wrong answer: error {error:.1e}")


def markdown(starts: Sequence[Start]) -> str:
    """The table: medians, in seconds, and the least first answer."""
    lines = [
        "| model | engine | import and load | first answer | least | CPU | warm: first answer |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for start in starts:
        if start.failure:
            lines.append(f"| {start.model} | {start.engine} | {start.failure} | | | | |")
            continue
        cells = (
            median(start.loaded), median(start.answered), min(start.answered), median(start.cpu), median(start.warm)
        )  # fmt: skip
        shown = " | ".join(f"{cell:.2f}" for cell in cells)
        lines.append(f"| {start.model} | {start.engine} | {shown} |")
    return "\n".join(lines)


def install(wheel: Path, folder: Path) -> Path:
    """The wheel alone, in a folder of its own; what it needs, this Python has."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--target", str(folder), str(wheel)], check=True)
    return folder


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m bench.cold_start", description=__doc__)
    parser.add_argument("--models", default=MODELS, help=f"default: {MODELS}")
    parser.add_argument(
        "--engines", default=",".join(ENGINES), help=f"of {', '.join(ENGINES)} (default: all)"
    )
    parser.add_argument("--wheel", type=Path, help="default: the newest in dist/")
    parser.add_argument(
        "--folder", type=Path, default=MODEL_FOLDER, help="of the models (default: bench/.models)"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, help="folder for cold_start.md (default: bench/.results/TIME)")
    given = parser.parse_args(arguments)
    engines = [engine for engine in ENGINES if engine in given.engines.split(",")]
    built = sorted((ROOT / "dist").glob("cenote-*.whl"), key=lambda path: path.stat().st_mtime)
    wheel = given.wheel or (built[-1] if built else None)
    if "wheel" in engines and wheel is None:
        parser.error("there is no wheel: run make wheel first, or name one with --wheel")
    output = output_folder(given.output)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # a checkout, too, is compiled to byte code once
    with tempfile.TemporaryDirectory() as temporary:
        site = install(wheel, Path(temporary) / "site") if "wheel" in engines and wheel else None
        setting = Setting(site, given.folder.resolve(), Path(temporary))
        starts: list[Start] = []
        for name in given.models.split(","):
            starts += measure(name, engines, given.rounds, setting)
            print("\n".join(markdown(starts[-len(engines) :]).splitlines()[2:]), flush=True)
            (output / "cold_start.md").write_text(markdown(starts) + "\n")
            (output / "cold_start.json").write_text(json.dumps([vars(start) for start in starts], indent=1))


if __name__ == "__main__":
    main()
