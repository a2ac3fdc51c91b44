"""Converts the zoo's networks for LiteRT, once: `python -m bench.zoo.convert_litert FOLDER [names]`.

A program of its own because the converter (litert-torch) drags in many packages that pin others: it runs in an
environment that has it beside the projects of the zoo. A network that does not convert leaves `<name>.tflite.txt`
with the reason.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import litert_torch
import numpy as np
import torch

from bench.files import ModelFiles
from bench.zoo.architectures import ARCHITECTURES
from bench.zoo.definitions import module_of, without_native_code


def convert(files: ModelFiles) -> None:
    """Write `<name>.tflite`, of pictures with channels last."""
    module = module_of(ARCHITECTURES[files.name])
    module.load_state_dict(torch.load(files.weights))
    x = files.read("x")
    if x.ndim == 4:
        module = litert_torch.to_channel_last_io(module, args=[0])
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    part = files.converted("part.tflite")
    with torch.no_grad():
        litert_torch.convert(module, (torch.from_numpy(x),)).export(str(part))
    os.replace(part, files.converted("tflite"))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.zoo.convert_litert", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=list(ARCHITECTURES), help="architectures (default: all)")
    given = parser.parse_args()
    native = without_native_code()
    for name in given.names:
        files = ModelFiles(name, given.folder)
        reason = files.converted("tflite.txt")
        if not files.arrays.exists() or files.converted("tflite").exists() or reason.exists():
            continue
        try:
            convert(files)
        except Exception as problem:  # a definition that the converter cannot take
            told = f"{type(problem).__name__}: {(str(problem).strip().splitlines() or [''])[0][:150]}"
            reason.write_text(told + "\n")
        else:
            told = f"{files.converted('tflite').stat().st_size:,} bytes"
        print(f"{name}: {told}", flush=True)
    del native


if __name__ == "__main__":
    main()
