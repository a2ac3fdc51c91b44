"""Networks built on depthwise convolutions: MobileNetV2, ShuffleNetV2, EfficientNet-B0 and -lite0."""

import torch
from torch import nn

from bench.networks.blocks import Activation, classifier, convolution, extents, with_shortcut


def depthwise(channels: int, kernel: int, stride: int, activation: Activation) -> nn.Sequential:
    """A convolution in which every channel sees only itself."""
    return convolution(channels, channels, kernel, stride, groups=channels, activation=activation)


def inverted_residual(
    channels: int, channels_out: int, stride: int, expansion: int, kernel: int = 3
) -> nn.Module:
    """MobileNetV2's block: widen, depthwise, project without activation."""
    hidden = channels * expansion
    widen = [convolution(channels, hidden, 1, activation=nn.ReLU6)] if expansion != 1 else []
    body = nn.Sequential(
        *widen,
        depthwise(hidden, kernel, stride, nn.ReLU6),
        convolution(hidden, channels_out, 1, activation=None),
    )
    return with_shortcut(body, stride == 1 and channels == channels_out)


def mobilenet_v2() -> nn.Module:
    """MobileNetV2 at width 1."""
    stages = (  # expansion, channels, blocks, stride of the first block
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
        (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    )  # fmt: skip
    layers: list[nn.Module] = [convolution(3, 32, 3, 2, activation=nn.ReLU6)]
    channels = 32
    for expansion, width, depth, stride in stages:
        for position in range(depth):
            layers.append(inverted_residual(channels, width, stride if position == 0 else 1, expansion))
            channels = width
    layers.append(convolution(channels, 1280, 1, activation=nn.ReLU6))
    return nn.Sequential(*layers, *classifier(1280, dropout=True))


def shuffle_channels(x: torch.Tensor) -> torch.Tensor:
    """Interleaves the two halves of the channels."""
    batch, channels, height, width = extents(x)
    split = x.view(batch, 2, channels // 2, height, width)
    return split.transpose(1, 2).reshape(batch, channels, height, width)


class ShuffleUnit(nn.Module):
    """ShuffleNetV2's block: half of the channels pass through, or both halves shrink the map."""

    def __init__(self, channels: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.width = half = channels_out // 2
        self.shrinks = stride > 1
        if self.shrinks:
            narrow = depthwise(channels, 3, stride, None)
            self.side = nn.Sequential(narrow, convolution(channels, half, 1))
        entering = channels if self.shrinks else half
        self.main = nn.Sequential(
            convolution(entering, half, 1), depthwise(half, 3, stride, None), convolution(half, half, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.shrinks:
            return shuffle_channels(torch.cat([self.side(x), self.main(x)], dim=1))
        kept, worked = x.split([self.width, self.width], dim=1)
        return shuffle_channels(torch.cat([kept, self.main(worked)], dim=1))


def shufflenet_v2_x1() -> nn.Module:
    """ShuffleNetV2 at width 1."""
    layers: list[nn.Module] = [convolution(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 24
    for width, depth in ((116, 4), (232, 8), (464, 4)):
        for position in range(depth):
            layers.append(ShuffleUnit(channels, width, 2 if position == 0 else 1))
            channels = width
    return nn.Sequential(*layers, convolution(channels, 1024, 1), *classifier(1024))


class SqueezeExcitation(nn.Module):
    """Scales each channel by a gate computed from the channel means."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, squeezed, 1),
            nn.SiLU(),
            nn.Conv2d(squeezed, channels, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scaled: torch.Tensor = x * self.gate(x)
        return scaled


def mobile_block(channels: int, channels_out: int, kernel: int, stride: int, expansion: int) -> nn.Module:
    """EfficientNet's block: an inverted residual with SiLU and squeeze-and-excitation."""
    hidden = channels * expansion
    widen = [convolution(channels, hidden, 1, activation=nn.SiLU)] if expansion != 1 else []
    body = nn.Sequential(
        *widen,
        depthwise(hidden, kernel, stride, nn.SiLU),
        SqueezeExcitation(hidden, max(1, channels // 4)),
        convolution(hidden, channels_out, 1, activation=None),
    )
    return with_shortcut(body, stride == 1 and channels == channels_out)


EFFICIENTNET_STAGES = (  # expansion, channels, blocks, stride of the first block, kernel
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3),
)  # fmt: skip


def efficientnet_b0() -> nn.Module:
    """EfficientNet-B0."""
    layers: list[nn.Module] = [convolution(3, 32, 3, 2, activation=nn.SiLU)]
    channels = 32
    for expansion, width, depth, stride, kernel in EFFICIENTNET_STAGES:
        for position in range(depth):
            layers.append(mobile_block(channels, width, kernel, stride if position == 0 else 1, expansion))
            channels = width
    layers.append(convolution(channels, 1280, 1, activation=nn.SiLU))
    return nn.Sequential(*layers, *classifier(1280, dropout=True))


def efficientnet_lite0() -> nn.Module:
    """EfficientNet-lite0, made to be quantised: B0 without squeeze-and-excitation, ReLU6 in the place of SiLU."""
    layers: list[nn.Module] = [convolution(3, 32, 3, 2, activation=nn.ReLU6)]
    channels = 32
    for expansion, width, depth, stride, kernel in EFFICIENTNET_STAGES:
        for position in range(depth):
            first = stride if position == 0 else 1
            layers.append(inverted_residual(channels, width, first, expansion, kernel))
            channels = width
    layers.append(convolution(channels, 1280, 1, activation=nn.ReLU6))
    return nn.Sequential(*layers, *classifier(1280, dropout=True))
