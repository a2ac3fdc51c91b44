"""Writes the networks that take any batch and picture size: `<name>.any.onnx` in bench/.models.

    python -m bench.export_any_size              all six
    python -m bench.export_any_size yolov8n

Five are the benchmark networks with the weights that `bench.export` saved; the detector comes with its decoder. The
sixth, the text recogniser, is trained and lies in a package, from which pip fetches it.
"""

import argparse
import shutil
import warnings

import onnx
import torch
from torch import nn

from bench.any_size import ANY_SIZE, AnySize
from bench.export import OPSET
from bench.files import ModelFiles
from bench.networks import NETWORKS, restore
from bench.networks.yolo import BoxDecoder, YoloV8Nano
from examples.real_models import fetch

RECOGNISER = "text_recognition"  # its name in examples/real_models.py
TRACED_AT = (2, 3, 320, 256)


def module_of(name: str) -> nn.Module:
    """The network in torch, with its saved weights."""
    module = restore(name, ModelFiles(name).weights)
    return BoxDecoder(module).eval() if isinstance(module, YoloV8Nano) else module


def export(network: AnySize) -> None:
    """Exports by tracing with batch, height and width as symbols, or fetches."""
    network.folder.mkdir(parents=True, exist_ok=True)
    if network.lines:
        shutil.copy(fetch(RECOGNISER), network.onnx)
        return
    mode = torch.onnx.TrainingMode
    keep = NETWORKS[network.name].keep_batch_norm
    symbols = {0: "n", 2: "h", 3: "w"}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tracing exporter is deprecated
        torch.onnx.export(
            module_of(network.name),
            (torch.zeros(TRACED_AT),),
            str(network.onnx),
            opset_version=OPSET,
            input_names=["x"],
            output_names=["y"],
            dynamic_axes={"x": symbols, "y": {0: "n"}},
            training=mode.PRESERVE if keep else mode.EVAL,
            dynamo=False,
        )
    onnx.checker.check_model(str(network.onnx))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.export_any_size", description=__doc__)
    parser.add_argument("names", nargs="*", default=list(ANY_SIZE), help="networks (default: all)")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(ANY_SIZE))
    if unknown:
        parser.error(f"no such network: {', '.join(unknown)}; there are {', '.join(ANY_SIZE)}")
    for name in arguments.names:
        export(ANY_SIZE[name])
        print(f"{name}: {ANY_SIZE[name].onnx.stat().st_size:,} bytes", flush=True)


if __name__ == "__main__":
    main()
