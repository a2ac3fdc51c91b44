"""Converts benchmark networks for LiteRT, once: `python -m bench.convert_litert [names]`.

A program of its own because the converter (litert-torch) drags in many packages that pin others; it can run
in another environment than the benchmarks, which only need ai-edge-litert.
"""

import argparse
import os
from pathlib import Path

import litert_torch
import numpy as np
import torch

from bench.files import MODEL_FOLDER, ModelFiles
from bench.networks import names, restore


def convert(files: ModelFiles) -> None:
    """Writes `<name>.tflite` with channels-last input."""
    module = litert_torch.to_channel_last_io(restore(files.name, files.weights), args=[0])
    sample = torch.from_numpy(np.ascontiguousarray(files.read("x").transpose(0, 2, 3, 1)))
    part = files.converted("part.tflite")
    litert_torch.convert(module, (sample,)).export(str(part))
    os.replace(part, files.converted("tflite"))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.convert_litert", description="Convert for LiteRT.")
    parser.add_argument("names", nargs="*", default=names(), help="networks (default: all)")
    parser.add_argument("--folder", type=Path, default=MODEL_FOLDER, help="where bench.export wrote them")
    arguments = parser.parse_args()
    for name in arguments.names:
        files = ModelFiles(name, arguments.folder)
        if not files.converted("tflite").exists():
            convert(files)
        print(f"{name}: done", flush=True)


if __name__ == "__main__":
    main()
