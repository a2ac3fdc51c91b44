"""Converts benchmark networks for LiteRT, once: `python -m bench.convert_litert [--quantize] [names]`.

A program of its own because the converter (litert-torch) drags in many packages that pin others; it can run
in another environment than the benchmarks, which only need ai-edge-litert.
"""

import argparse
import os
from pathlib import Path

import litert_torch
import numpy as np
import torch

from bench.calibration import pictures
from bench.files import MODEL_FOLDER, ModelFiles
from bench.networks import names, restore


def convert(files: ModelFiles) -> None:
    """Writes `<name>.tflite` with channels-last input."""
    module = litert_torch.to_channel_last_io(restore(files.name, files.weights), args=[0])
    sample = torch.from_numpy(np.ascontiguousarray(files.read("x").transpose(0, 2, 3, 1)))
    part = files.converted("part.tflite")
    litert_torch.convert(module, (sample,)).export(str(part))
    os.replace(part, files.converted("tflite"))


def quantize(files: ModelFiles) -> None:
    """Writes `<name>.int8.tflite`: s8 activations, s8 weights per filter, calibrated on the pictures of all tools."""
    from ai_edge_quantizer import quantizer, recipe

    made = quantizer.Quantizer(files.converted("tflite"), recipe.static_wi8_ai8())
    examples = [
        {"args_0": np.ascontiguousarray(x.transpose(0, 2, 3, 1))} for x in pictures(files.read("x").shape)
    ]
    ranges = made.calibrate({"serving_default": examples})
    part = files.converted("int8.part.tflite")
    part.write_bytes(made.quantize(ranges).quantized_model)
    os.replace(part, files.converted("int8.tflite"))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.convert_litert", description="Convert for LiteRT.")
    parser.add_argument("names", nargs="*", default=names(), help="networks (default: all)")
    parser.add_argument("--folder", type=Path, default=MODEL_FOLDER, help="where bench.export wrote them")
    parser.add_argument(
        "--quantize", action="store_true", help="in 8 bits too (needs ai-edge-quantizer), for bench.quantized"
    )
    arguments = parser.parse_args()
    for name in arguments.names:
        files = ModelFiles(name, arguments.folder)
        if not files.converted("tflite").exists():
            convert(files)
        if arguments.quantize and not files.converted("int8.tflite").exists():
            quantize(files)
        print(f"{name}: done", flush=True)


if __name__ == "__main__":
    main()
