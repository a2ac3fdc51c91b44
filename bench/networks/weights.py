"""Seeded weights: the same bits on every machine that runs the same torch."""

from pathlib import Path

import torch
from torch import nn

from bench.networks.catalogue import NETWORKS
from bench.networks.newer import Scale, VisionTransformer

# Large images calibrate on fewer samples: the statistics run over pixels too, and memory is finite.
LARGE_IMAGE = 400


def build(name: str, seed: int = 0) -> nn.Module:
    """The named network with seeded weights, calibrated and in evaluation mode."""
    with torch.device("meta"):  # torch's own initialisation is slow and would be thrown away
        module = NETWORKS[name].construct()
    module = module.to_empty(device="cpu")
    generator = torch.Generator().manual_seed(seed)
    for layer in module.modules():
        fill(layer, generator)
    calibrate(module, NETWORKS[name].input_shape, generator)
    return module.eval()


def restore(name: str, weights: Path) -> nn.Module:
    """The named network with the weights that `bench.export` saved."""
    with torch.device("meta"):
        module = NETWORKS[name].construct()
    module.load_state_dict(torch.load(weights, weights_only=True), assign=True)
    return module.eval()


def fill(layer: nn.Module, generator: torch.Generator) -> None:
    """He-normal weights, small biases, scales around one."""
    if isinstance(layer, nn.LayerNorm):
        nn.init.uniform_(layer.weight, 0.7, 1.3, generator=generator)
        nn.init.normal_(layer.bias, 0.0, 0.1, generator=generator)
    elif isinstance(layer, Scale | VisionTransformer):  # what they hold besides layers
        for parameter in layer.parameters(recurse=False):
            nn.init.normal_(parameter, 0.0, 0.1, generator=generator)
    elif isinstance(layer, nn.LSTM):
        bound = layer.hidden_size**-0.5
        for parameter in layer.parameters():
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
    elif isinstance(layer, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=generator)
        if layer.bias is not None:
            nn.init.normal_(layer.bias, 0.0, 0.05, generator=generator)
    elif isinstance(layer, nn.BatchNorm2d):
        nn.init.uniform_(layer.weight, 0.7, 1.3, generator=generator)
        nn.init.normal_(layer.bias, 0.0, 0.1, generator=generator)
        layer.reset_running_stats()
        layer.momentum = None  # running statistics become the plain average over calibration batches


def calibrate(module: nn.Module, shape: tuple[int, ...], generator: torch.Generator) -> None:
    """Sets the running statistics of every batch-norm from one forward pass over noise."""
    if not any(isinstance(layer, nn.BatchNorm2d) for layer in module.modules()):
        return
    batch = 4 if shape[-1] < LARGE_IMAGE else 2
    noise = torch.randn((batch, *shape[1:]), generator=generator)
    with torch.no_grad():
        module.train()(noise)
