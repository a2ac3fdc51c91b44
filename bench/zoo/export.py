"""Writes the zoo's architectures as ONNX with batch, height and width open: seeded weights, none trained.

    python -m bench.zoo.export FOLDER                    all
    python -m bench.zoo.export FOLDER timm-dla34 smp-unet

Needs torch, torchvision, timm and segmentation-models-pytorch; an architecture that cannot be exported is
named and left out.
"""

from __future__ import annotations

import argparse
import importlib
import warnings
from pathlib import Path
from typing import Any

import torch

from bench.zoo.architectures import ARCHITECTURES, Architecture

OPSET = 17
SEED = 3
TRACED_AT = (2, 3, 224, 192)
_DEFINED_IN_NATIVE_CODE = (
    "nms(Tensor a, Tensor b, float c) -> Tensor",
    "qnms(Tensor a, Tensor b, float c) -> Tensor",
)


def module_of(one: Architecture) -> torch.nn.Module:
    """The architecture with seeded weights and statistics, for inference."""
    torch.manual_seed(SEED)
    arguments = dict(one.arguments)
    if one.project == "torchvision":
        models = importlib.import_module("torchvision.models")
        segmentation = importlib.import_module("torchvision.models.segmentation")
        home = models if hasattr(models, one.definition) else segmentation
        weightless: dict[str, object] = {"weights": None}
        weightless |= {} if home is models else {"weights_backbone": None}
        weightless |= {"init_weights": True} if one.definition in ("googlenet", "inception_v3") else {}
        made = getattr(home, one.definition)(**weightless, **arguments)
    elif one.project == "timm":
        made = importlib.import_module("timm").create_model(one.definition, exportable=True, **arguments)
    else:
        home = importlib.import_module("segmentation_models_pytorch")
        made = getattr(home, one.definition)("resnet18", encoder_weights=None, **arguments)
    for part in made.modules():
        if (
            isinstance(part, torch.nn.BatchNorm2d)
            and part.running_var is not None
            and part.running_mean is not None
        ):
            torch.nn.init.uniform_(part.running_var, 0.5, 2.0)
            torch.nn.init.normal_(part.running_mean, std=0.1)
    ready: torch.nn.Module = made.eval()
    return ready


class _Plain(torch.nn.Module):
    """The first output alone, where an architecture returns a dictionary."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: torch.Tensor) -> Any:
        made = self.module(x)
        return made["out"] if isinstance(made, dict) else made


def export(one: Architecture, folder: Path) -> Path:
    """Write one architecture; returns its file."""
    path = folder / f"{one.name}.onnx"
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tracing exporter is deprecated
        torch.onnx.export(
            _Plain(module_of(one)).eval(), (torch.zeros(TRACED_AT),), str(path), opset_version=OPSET, dynamo=False,
            input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "n", 2: "h", 3: "w"}},
        )  # fmt: skip
    return path


def without_native_code() -> torch.library.Library:
    """Let torchvision be imported beside a build of torch that its native operators were not made for: none is used.
    They are defined as long as what is returned lives."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for definition in _DEFINED_IN_NATIVE_CODE:
        library.define(definition)
    return library


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.zoo.export", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=list(ARCHITECTURES), help="architectures (default: all)")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    native = without_native_code()
    for name in given.names:
        try:
            path = export(ARCHITECTURES[name], given.folder)
        except Exception as error:  # a definition that cannot be traced at open sizes
            print(
                f"{name}: not exported: {type(error).__name__}: {str(error).splitlines()[0][:150]}",
                flush=True,
            )
        else:
            print(f"{name}: {path.stat().st_size:,} bytes", flush=True)
    del native


if __name__ == "__main__":
    main()
