"""Networks with shortcuts: ResNet adds them, DenseNet concatenates them."""

import torch
from torch import nn
from torch.nn import functional

from bench.networks.blocks import classifier, convolution


def basic_body(channels: int, width: int, stride: int) -> nn.Sequential:
    """Two 3x3 convolutions (ResNet-18 and 34)."""
    return nn.Sequential(convolution(channels, width, 3, stride), convolution(width, width, activation=None))


def bottleneck_body(channels: int, width: int, stride: int) -> nn.Sequential:
    """1x1 down, 3x3, 1x1 up to four times the width (ResNet-50); the stride sits on the 3x3."""
    return nn.Sequential(
        convolution(channels, width, 1),
        convolution(width, width, 3, stride),
        convolution(width, 4 * width, 1, activation=None),
    )


class ResidualBlock(nn.Module):
    """Body plus shortcut; the shortcut is projected where the shape changes."""

    def __init__(self, body: nn.Module, channels: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.body = body
        same_shape = stride == 1 and channels == channels_out
        self.shortcut = (
            nn.Identity() if same_shape else convolution(channels, channels_out, 1, stride, activation=None)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.body(x) + self.shortcut(x))


def resnet(depths: tuple[int, int, int, int], *, bottleneck: bool) -> nn.Module:
    """Four stages of residual blocks; each stage halves the map and doubles the width."""
    body = bottleneck_body if bottleneck else basic_body
    expansion = 4 if bottleneck else 1
    layers: list[nn.Module] = [convolution(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, depth in enumerate(depths):
        width = 64 << stage
        for position in range(depth):
            stride = 2 if position == 0 and stage > 0 else 1
            layers.append(ResidualBlock(body(channels, width, stride), channels, width * expansion, stride))
            channels = width * expansion
    return nn.Sequential(*layers, *classifier(channels))


def resnet18() -> nn.Module:
    """ResNet-18."""
    return resnet((2, 2, 2, 2), bottleneck=False)


def resnet50() -> nn.Module:
    """ResNet-50 with the stride on the 3x3 convolution ("v1.5")."""
    return resnet((3, 4, 6, 3), bottleneck=True)


class DenseLayer(nn.Module):
    """Appends `growth` new channels to its input; batch-norm and ReLU come before each convolution."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            convolution(channels, 4 * growth, 1),
            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, self.body(x)], dim=1)


def transition(channels: int) -> list[nn.Module]:
    """Between dense blocks: halve the channels, halve the map."""
    halve = nn.Conv2d(channels, channels // 2, 1, bias=False)
    return [nn.BatchNorm2d(channels), nn.ReLU(), halve, nn.AvgPool2d(2, 2)]


def densenet121(growth: int = 32) -> nn.Module:
    """DenseNet-121."""
    layers: list[nn.Module] = [convolution(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    depths = (6, 12, 24, 16)
    for stage, depth in enumerate(depths):
        for _ in range(depth):
            layers.append(DenseLayer(channels, growth))
            channels += growth
        if stage + 1 < len(depths):
            layers += transition(channels)
            channels //= 2
    return nn.Sequential(*layers, nn.BatchNorm2d(channels), nn.ReLU(), *classifier(channels))
