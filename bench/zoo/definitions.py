"""The zoo's architectures as torch modules: one input, the first output, seeded weights, statistics of real batches."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from bench.zoo.architectures import Architecture

SEED = 3
BATCHES, BATCH = 3, 4  # from which statistics of batch norms are taken
SPREAD = 0.1  # of parameters that a definition starts at one value
_DEFINED_IN_NATIVE_CODE = (
    "nms(Tensor a, Tensor b, float c) -> Tensor",
    "qnms(Tensor a, Tensor b, float c) -> Tensor",
)
# The smallest configurations that projects publish: definitions of transformers take a configuration, not arguments.
CONFIGURATIONS: Mapping[str, Mapping[str, object]] = {
    "SegformerForSemanticSegmentation": {},
    "YolosForObjectDetection": {
        "hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768, "image_size": [224, 224],
        "use_mid_position_embeddings": False,
    },
    "Wav2Vec2Model": {
        "hidden_size": 192, "num_hidden_layers": 4, "num_attention_heads": 3, "intermediate_size": 768,
        "conv_dim": (128,) * 7,
    },
    "WhisperEncoder": {"d_model": 192, "encoder_layers": 2, "encoder_attention_heads": 3, "encoder_ffn_dim": 768},
    "EncodecEncoder": {"num_filters": 16, "hidden_size": 64},
    "SpeechT5HifiGan": {"upsample_initial_channel": 128},
    "ASTModel": {
        "hidden_size": 192, "num_hidden_layers": 12, "num_attention_heads": 3, "intermediate_size": 768,
        "max_length": 256,
    },
}  # fmt: skip


def without_native_code() -> torch.library.Library | None:
    """Let torchvision be imported beside a build of torch that its native operators were not made for: none is used.
    They are defined as long as what is returned lives; where torchvision's own load, there is nothing to define."""
    try:
        importlib.import_module("torchvision")
    except RuntimeError:  # "operator torchvision::nms does not exist"
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
    else:
        return None
    library = torch.library.Library("torchvision", "FRAGMENT")
    for definition in _DEFINED_IN_NATIVE_CODE:
        library.define(definition)
    return library


def _torchvision(name: str, **arguments: Any) -> nn.Module:
    weightless: dict[str, object] = {"weights": None}
    for home in ("models", "models.segmentation", "models.video"):
        module = importlib.import_module(f"torchvision.{home}")
        if hasattr(module, name):
            break
    weightless |= {"weights_backbone": None} if home == "models.segmentation" else {}
    weightless |= {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
    made: nn.Module = getattr(module, name)(**weightless, **arguments)
    return made


def _timm(name: str, **arguments: Any) -> nn.Module:
    made: nn.Module = importlib.import_module("timm").create_model(name, exportable=True, **arguments)
    return made


def _smp(name: str, **arguments: Any) -> nn.Module:
    home = importlib.import_module("segmentation_models_pytorch")
    made: nn.Module = getattr(home, name)("resnet18", encoder_weights=None, **arguments)
    return made


def _pytorchcv(name: str, **arguments: Any) -> nn.Module:
    speech = name.startswith(("jasper", "quartznet"))
    arguments |= {"from_audio": False, "return_text": False} if speech else {}
    made: nn.Module = importlib.import_module("pytorchcv.model_provider").get_model(name, **arguments)
    return _WholeLength(made) if speech else made


def _monai(name: str, **arguments: Any) -> nn.Module:
    made: nn.Module = getattr(importlib.import_module("monai.networks.nets"), name)(**arguments)
    return _AtStep(made, torch.tensor([10])) if name == "DiffusionModelUNet" else made


def _diffusers(name: str, **arguments: Any) -> nn.Module:
    made: nn.Module = getattr(importlib.import_module("diffusers"), name)(**arguments)
    return _AtStep(made, torch.tensor(10)) if name == "UNet2DModel" else made


def _spandrel(name: str, **arguments: Any) -> nn.Module:
    made: nn.Module = getattr(importlib.import_module(f"spandrel.architectures.{name}"), name)(**arguments)
    return made


def _transformers(name: str, **_: Any) -> nn.Module:
    home = importlib.import_module("transformers")
    settings = CONFIGURATIONS[name]
    if name == "WhisperEncoder":
        whole = home.WhisperModel(home.WhisperConfig(**settings, decoder_layers=1))
        made: nn.Module = whole.encoder
    elif name == "EncodecEncoder":
        made = home.EncodecModel(home.EncodecConfig(**settings)).encoder
    else:
        kind = getattr(home, name)
        made = kind(kind.config_class(**settings))
    return made


def _own(name: str, **arguments: Any) -> nn.Module:
    made: nn.Module = getattr(importlib.import_module("bench.zoo.own"), name)(**arguments)
    return made


MAKERS: Mapping[str, Callable[..., nn.Module]] = {
    "torchvision": _torchvision, "timm": _timm, "smp": _smp, "pytorchcv": _pytorchcv, "monai": _monai,
    "diffusers": _diffusers, "spandrel": _spandrel, "transformers": _transformers, "own": _own,
}  # fmt: skip


class _AtStep(nn.Module):
    """A network of diffusion at one step of its schedule."""

    def __init__(self, module: nn.Module, step: torch.Tensor) -> None:
        super().__init__()
        self.module = module
        self.register_buffer("step", step)

    def forward(self, x: torch.Tensor) -> Any:
        return self.module(x, self.step)


class _WholeLength(nn.Module):
    """A network of speech that masks what lies beyond the length of each line, on lines of full length."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: torch.Tensor) -> Any:
        return self.module(x, torch.full((x.shape[0],), x.shape[2]))


class _Plain(nn.Module):
    """The first output alone, where an architecture returns a dictionary or several."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.module(x)
        while not isinstance(made, torch.Tensor):
            made = next(iter(made.values())) if isinstance(made, Mapping) else made[0]
        return made


def module_of(one: Architecture) -> nn.Module:
    """The architecture for inference, with seeded weights and the statistics of seeded inputs."""
    torch.manual_seed(SEED)
    module = _Plain(MAKERS[one.project](one.definition, **dict(one.arguments)))
    _spread(module)
    return _with_statistics(module, one).eval()


def _spread(module: nn.Module) -> None:
    """Move parameters that a definition starts at one value, as scales of residuals at 0 or 1e-6: a network would
    otherwise compute less than a trained one."""
    for parameter in module.parameters():
        if parameter.is_floating_point() and bool((parameter == parameter.flatten()[0]).all()):
            noise = torch.randn(parameter.shape) * SPREAD
            parameter.data = torch.where(parameter.data.abs() > SPREAD, parameter.data, 0.0) + noise


def _with_statistics(module: nn.Module, one: Architecture) -> nn.Module:
    """Let batch norms, and nothing else, see a few batches in training mode and average their statistics."""
    module.eval()
    norms = [part for part in module.modules() if isinstance(part, _BatchNorm)]
    for part in norms:
        part.train()
        part.momentum = None
        part.reset_running_stats()
    if norms:
        with torch.no_grad():
            for number in range(BATCHES):
                module(torch.from_numpy(natural((BATCH, *one.shape[1:]), number)))
    return module


def natural(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Noise whose amplitude falls with frequency, as in pictures and sound, of mean 0 and deviation 1, float32; of
    shapes without axes of space white noise."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal(shape)
    if axes := [axis for axis in range(2, len(shape)) if shape[axis] > 1]:
        squares = sum(
            np.fft.fftfreq(shape[axis]).reshape([-1 if other == axis else 1 for other in range(len(shape))])
            ** 2
            for axis in axes
        )
        spectrum = np.fft.fftn(noise, axes=axes)
        noise = np.fft.ifftn(spectrum / np.sqrt(squares + 1 / max(shape[2:]) ** 2), axes=axes).real
    made: np.ndarray = ((noise - noise.mean()) / noise.std()).astype(np.float32)
    return made
