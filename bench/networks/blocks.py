"""Building blocks that several families share."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

import torch
from torch import nn

Size: TypeAlias = int | tuple[int, int]
Activation: TypeAlias = type[nn.Module] | None

_sizes_stay_open = ContextVar("sizes_stay_open", default=False)


@contextmanager
def open_sizes() -> Iterator[None]:
    """While this lasts, networks are traced with their sizes open: `extents` writes none down."""
    token = _sizes_stay_open.set(True)
    try:
        yield
    finally:
        _sizes_stay_open.reset(token)


def extents(x: torch.Tensor) -> tuple[int, ...]:
    """A tensor's shape as plain integers, or the exporter writes chains of Shape and Gather nodes for constants."""
    return tuple(x.shape) if _sizes_stay_open.get() else tuple(int(size) for size in x.shape)


def same_padding(kernel: Size) -> Size:
    """Padding that keeps height and width at stride 1, for odd kernels."""
    if isinstance(kernel, int):
        return kernel // 2
    return kernel[0] // 2, kernel[1] // 2


def convolution(
    channels_in: int,
    channels_out: int,
    kernel: Size = 3,
    stride: int = 1,
    padding: Size | None = None,
    *,
    groups: int = 1,
    activation: Activation = nn.ReLU,
    normalise: bool = True,
    epsilon: float = 1e-5,
) -> nn.Sequential:
    """Convolution, then batch-norm (which takes the place of the bias), then an activation."""
    padding = same_padding(kernel) if padding is None else padding
    layers: list[nn.Module] = [
        nn.Conv2d(channels_in, channels_out, kernel, stride, padding, groups=groups, bias=not normalise)
    ]
    if normalise:
        layers.append(nn.BatchNorm2d(channels_out, eps=epsilon))
    if activation is not None:
        layers.append(activation())
    return nn.Sequential(*layers)


def classifier(features: int, classes: int = 1000, *, dropout: bool = False) -> list[nn.Module]:
    """Global average, flatten, linear: how most networks since 2014 end."""
    regulariser = [nn.Dropout()] if dropout else []
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), *regulariser, nn.Linear(features, classes)]


class Branches(nn.Module):
    """Runs every branch on the same input and joins their outputs along channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(x) for branch in self.branches], dim=1)


class Shortcut(nn.Module):
    """Adds the input to the body's output: a residual connection without a projection."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = x + self.body(x)
        return out


def with_shortcut(body: nn.Module, apply: bool) -> nn.Module:
    """The body, inside a residual connection where its input and output have the same shape."""
    return Shortcut(body) if apply else body
