"""Exported C libraries beside the model in Python, one thread, call by call in turns: times, bits and sizes.

    python -m bench.anywhere.c_library [--models …] [--target x86-64-v3]

A C compiler links each static library as a shared one with -nostdlib, so that a symbol that is nowhere is an error.
The model is planned for the figures that exports are planned for, so that both have the same bits.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import cenote
from bench.files import MODEL_FOLDER, ModelFiles
from bench.networks import NETWORKS
from cenote.codegen import jit
from cenote.export.targets import TARGETS

SECONDS = 1.0  # of a network's calls, at least RUNS of each
RUNS = 15


def linked(folder: Path) -> ctypes.CDLL:
    """Return the static library, as a shared one that needs no other."""
    flags = ["-shared", "-nostdlib", "-Wl,--no-undefined", "-Wl,--whole-archive"]
    path = folder / "linked.so"
    subprocess.run(
        ["cc", *flags, str(folder / "libnet.a"), "-Wl,--no-whole-archive", "-o", str(path)], check=True
    )
    return ctypes.CDLL(str(path))


def measure(files: ModelFiles, target: str) -> dict[str, Any]:
    """Return a network's figures."""
    x = files.read("x").astype(np.float32)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        begin = time.perf_counter()
        cenote.export_model(files.onnx, folder, target=target, name="net")
        took = time.perf_counter() - begin
        library = linked(folder)
        model = cenote.load(files.onnx, threads=1, tune="off")
        y = model(x)
        library.net_workspace.restype = ctypes.c_size_t
        result, workspace = np.full_like(y, np.nan), np.full(library.net_workspace(), 0xFF, np.uint8)
        beside = folder / "net.bin"  # of networks with many weights; a map begins at a page
        weights = [np.memmap(beside, np.uint8, "r")] if beside.exists() else []
        pointers = [ctypes.c_void_p(each.ctypes.data) for each in (x, result, *weights, workspace)]
        run = library.net_run
        assert run(*pointers) == 0
        own, python = in_turns(lambda: run(*pointers), lambda: model(x))
        return {
            "name": files.name,
            "same_bits": result.tobytes() == y.tobytes(),
            "library": {"median": statistics.median(own), "least": min(own)},
            "model": {"median": statistics.median(python), "least": min(python)},
            "ratio": statistics.median(b / a for a, b in zip(own, python, strict=True)),
            "export_seconds": took,
            "archive_bytes": (folder / "libnet.a").stat().st_size,
            "workspace_bytes": workspace.nbytes,
        }


def in_turns(first: Any, second: Any) -> tuple[list[float], list[float]]:
    """Return the milliseconds of two functions that are called in turns."""
    found: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + SECONDS
    while len(found[0]) < RUNS or time.perf_counter() < end:
        for function, times in zip((first, second), found, strict=True):
            begin = time.perf_counter()
            function()
            times.append(1e3 * (time.perf_counter() - begin))
    return found


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.anywhere.c_library", description=__doc__)
    parser.add_argument(
        "--folder", type=Path, default=MODEL_FOLDER, help="where bench.export wrote the networks"
    )
    parser.add_argument("--models", default=",".join(NETWORKS))
    parser.add_argument("--target", default="x86-64-v3")
    arguments = parser.parse_args()
    jit.host_target = lambda: TARGETS[arguments.target]
    for name in arguments.models.split(","):
        print(json.dumps(measure(ModelFiles(name, arguments.folder), arguments.target)), flush=True)


if __name__ == "__main__":
    main()
