"""Writes the zoo's architectures as ONNX, with fixed sizes and with open ones.

    python -m bench.zoo.export FOLDER                    all
    python -m bench.zoo.export FOLDER timm-dla34 smp-unet
    python -m bench.zoo.export FOLDER --open-answers smp-manet

For each architecture: `<name>.onnx` of the timed size; `<name>.npz` with the input `x`, torch's output `y`, the output
`y64` of the same weights in float64, the multiply-adds `macs` and the `tolerance` of answers; `<name>.any.onnx` with
the batch and what else can vary open; `<name>.pt`, the weights, from which `bench.zoo.convert_litert` goes on. With
--open-answers `<name>.any.npz` with the answers in float64 at the sizes of `bench.zoo.checks`, `y64_0` and so on, and
their own `tolerance`: minutes for a network, wanted where two engines differ.

Needs torch and the projects of the list: torchvision, timm, segmentation-models-pytorch, pytorchcv, monai, spandrel,
transformers and diffusers. What cannot be exported is named and left out.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from bench.files import ModelFiles
from bench.verdict import TOLERANCE
from bench.zoo.architectures import ARCHITECTURES, Architecture
from bench.zoo.checks import open_inputs
from bench.zoo.definitions import module_of, natural, without_native_code

OPSET = 17
INPUT_SEED = 7
# Of torch's own error in float32: weights that were never trained amplify rounding, in some networks beyond 1e-4.
SLACK = 8


def write(module: nn.Module, shape: tuple[int, ...], path: Path, names: dict[int, str]) -> None:
    """Export by tracing, with these axes open; the file appears when it is whole."""
    part = path.with_suffix(".part")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tracing exporter is deprecated
        torch.onnx.export(
            module, (torch.from_numpy(natural(shape, INPUT_SEED)),), str(part), opset_version=OPSET, dynamo=False,
            input_names=["x"], output_names=["y"], dynamic_axes={"x": names} if names else None,
        )  # fmt: skip
    os.replace(part, path)


def open_axes(one: Architecture) -> dict[int, str]:
    """The open axes, with a name of each."""
    batch = {0: "n"} if one.any_batch else {}
    return {**batch, **{axis: "dhw"[axis - len(one.shape)] for axis in one.open_axes}}


def export(one: Architecture, folder: Path) -> str:
    """Write all files of one architecture; returns why the open one is missing, "" where it is not."""
    files, module, missing = ModelFiles(one.name, folder), module_of(one), ""
    torch.save(module.state_dict(), files.weights)
    write(module, one.shape, files.onnx, {})
    try:
        write(module, one.traced_at, files.of_open_sizes.onnx, open_axes(one))
    except Exception as problem:  # a definition that cannot be traced at open sizes
        missing = f"{type(problem).__name__}: {(str(problem).splitlines() or [''])[0][:150]}"
    x = natural(one.shape, INPUT_SEED)
    with torch.no_grad():
        with FlopCounterMode(display=False) as counter:
            y = module(torch.from_numpy(x)).numpy()
        y64 = in_float64(module, x)
    error = float(np.abs(y - y64).max() / np.abs(y64).max())
    np.savez(
        files.arrays, x=x, y=y, y64=y64, macs=counter.get_total_flops() // 2,
        tolerance=max(TOLERANCE, SLACK * error),
    )  # fmt: skip
    return missing


def export_answers(one: Architecture, folder: Path) -> None:
    """Write the answers in float64 at open sizes, of an architecture that has been exported."""
    module, files = module_of(one), ModelFiles(one.name, folder).of_open_sizes
    module.load_state_dict(torch.load(ModelFiles(one.name, folder).weights))
    inputs = open_inputs(one)
    with torch.no_grad():
        found = [module(torch.from_numpy(x)).numpy() for x in inputs]
        exact = [in_float64(module, x) for x in inputs]
    errors = [np.abs(y - y64).max() / np.abs(y64).max() for y, y64 in zip(found, exact, strict=True)]
    answers: dict[str, Any] = {f"y64_{index}": y64 for index, y64 in enumerate(exact)}
    np.savez(files.arrays, tolerance=max(TOLERANCE, SLACK * float(max(errors))), **answers)


def in_float64(module: nn.Module, x: np.ndarray) -> np.ndarray:
    """The answer of the same weights in float64. Turns the module into a float64 one."""
    torch.set_default_dtype(torch.float64)
    try:
        y: np.ndarray = module.double()(torch.from_numpy(x).double()).numpy()
    finally:
        torch.set_default_dtype(torch.float32)
    return y


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.zoo.export", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=list(ARCHITECTURES), help="architectures (default: all)")
    parser.add_argument(
        "--open-answers", action="store_true", help="write answers at open sizes, nothing else"
    )
    parser.add_argument("--again", action="store_true", help="write again what is there already")
    given = parser.parse_intermixed_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    native = without_native_code()
    for name in given.names if given.open_answers else ():
        export_answers(ARCHITECTURES[name], given.folder)
    for name in () if given.open_answers else given.names:
        if ModelFiles(name, given.folder).arrays.exists() and not given.again:
            continue
        begin = time.perf_counter()
        try:
            missing = export(ARCHITECTURES[name], given.folder)
        except Exception as problem:
            told = f"not exported: {type(problem).__name__}: {(str(problem).splitlines() or [''])[0][:150]}"
        else:
            told = f"{time.perf_counter() - begin:.1f} s" + (
                f", not at open sizes: {missing}" if missing else ""
            )
        print(f"{name}: {told}", flush=True)
    del native


if __name__ == "__main__":
    main()
