"""Cold starts of many networks, by phases. `python -m bench.cold_networks --help`

Each start is a process of its own with an empty cache folder: it imports NumPy and Cenote, loads one network of
`bench.export` or `bench.zoo.export` and answers once. The phases are wall seconds of the thread that asks: "modules"
are imports while loading, "kernels" the time it waits for object code (found or compiled), "rest" is reading, planning,
packing and running. "CPU" is that of all processes and threads until the last of them ends.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from bench.arguments import output_folder
from bench.cold_start import install
from bench.files import MODEL_FOLDER, ModelFiles
from bench.process import ROOT

COLUMNS = ("NumPy", "Cenote", "modules", "kernels", "rest", "answer", "CPU")

CHILD = """
import builtins, json, sys, threading, time
path, given = sys.argv[1:]
marks = [time.perf_counter()]
import numpy
marks.append(time.perf_counter())
import cenote
from cenote.codegen import jit
marks.append(time.perf_counter())
spent = {"modules": 0.0, "kernels": 0.0}
inside = []

def timed(function, phase):
    def run(*given, **named):
        if inside or threading.current_thread() is not threading.main_thread():
            return function(*given, **named)
        inside.append(phase)
        begin = time.perf_counter()
        try:
            return function(*given, **named)
        finally:
            spent[phase] += time.perf_counter() - begin
            inside.pop()
    return run

builtins.__import__ = timed(builtins.__import__, "modules")
jit.addresses = timed(jit.addresses, "kernels")
model = cenote.load(path)
y = model(numpy.load(given))
marks.append(time.perf_counter())
assert numpy.isfinite(y).all(), "an answer is not finite"
answer = marks[-1] - marks[0]
found = {"NumPy": marks[1] - marks[0], "Cenote": marks[2] - marks[1], **spent}
print(json.dumps({**found, "rest": answer - sum(found.values()), "answer": answer}))
"""


def start_once(files: ModelFiles, suffix: str, package: Path, scratch: Path) -> dict[str, float]:
    """Seconds by column. Raises RuntimeError when the process fails."""
    cache, given = scratch / "cache", scratch / "x.npy"
    np.save(given, files.read("x"))
    paths = [str(package), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "CENOTE_CACHE": str(cache),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    before = os.times()
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(files.converted(suffix)), str(given)],
        capture_output=True, text=True, check=False, env=environment, cwd=scratch,
    )  # fmt: skip
    after = os.times()
    shutil.rmtree(cache, ignore_errors=True)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"code {done.returncode}"])[-1])
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return {**json.loads(done.stdout), "CPU": used}


def markdown(starts: Mapping[str, Mapping[str, float]]) -> str:
    """The table: the networks from the slowest answer on, then the medians and the largest of each column."""
    rows = sorted(starts.items(), key=lambda item: -item[1]["answer"])
    found = {column: [row[column] for _, row in rows] for column in COLUMNS}
    rows.append((f"**median of {len(starts)}**", {column: median(found[column]) for column in COLUMNS}))
    rows.append(("**largest**", {column: max(found[column]) for column in COLUMNS}))
    lines = [f"| network | {' | '.join(COLUMNS)} |", "|---|" + "---:|" * len(COLUMNS)]
    lines += [f"| {name} | {' | '.join(f'{row[column]:.2f}' for column in COLUMNS)} |" for name, row in rows]
    return "\n".join(lines)


def found_in(folders: Sequence[Path], suffix: str, names: str) -> list[ModelFiles]:
    """The networks that lie there with an input: the named ones, or all."""
    paths = [path for folder in folders for path in sorted(folder.glob("*.npz"))]
    found = [
        ModelFiles(path.stem, path.parent) for path in paths if not names or path.stem in names.split(",")
    ]
    return [files for files in found if files.converted(suffix).exists()]


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m bench.cold_networks", description=__doc__)
    parser.add_argument(
        "--folders", type=Path, nargs="+", default=[MODEL_FOLDER],
        help="where bench.export and bench.zoo.export wrote models (default: bench/.models)",
    )  # fmt: skip
    parser.add_argument("--models", default="", help="names (default: all that are there)")
    parser.add_argument("--open", action="store_true", help="the files of open sizes")
    parser.add_argument("--wheel", type=Path, help="start from this wheel, not from the checkout")
    parser.add_argument("--rounds", type=int, default=1, help="starts of each, of which the medians count")
    parser.add_argument(
        "--output", type=Path, help="folder for cold_networks.md (default: bench/.results/TIME)"
    )
    given = parser.parse_args(arguments)
    output = output_folder(given.output)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # a checkout, too, is compiled to byte code once
    starts: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary)
        package = install(given.wheel, scratch / "site") if given.wheel else ROOT / "src"
        suffix = "any.onnx" if given.open else "onnx"
        for files in found_in([folder.resolve() for folder in given.folders], suffix, given.models):
            try:
                rounds = [start_once(files, suffix, package, scratch) for _ in range(given.rounds)]
            except RuntimeError as error:
                print(f"{files.name}: {error}", flush=True)
                continue
            starts[files.name] = {column: median(each[column] for each in rounds) for column in COLUMNS}
            print(f"{files.name}: {starts[files.name]['answer']:.2f}", flush=True)
    if not starts:
        parser.error(f"no network started from {', '.join(map(str, given.folders))}")
    table = markdown(starts)
    (output / "cold_networks.md").write_text(table + "\n")
    print(table)


if __name__ == "__main__":
    main()
