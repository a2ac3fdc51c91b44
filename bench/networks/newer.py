"""Networks beyond the fourteen of `bench.models`: a U-Net, ConvNeXt, a vision transformer, a reader of text lines."""

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

from bench.networks.blocks import convolution


def double_convolution(channels: int, width: int) -> nn.Sequential:
    """Two 3x3 convolutions."""
    return nn.Sequential(convolution(channels, width), convolution(width, width))


class UNet(nn.Module):
    """U-Net: four times down by pooling, four times up by transposed convolution, joined level by level."""

    def __init__(self, width: int = 32, levels: int = 4, classes: int = 2) -> None:
        super().__init__()
        widths = [width << level for level in range(levels + 1)]
        self.down = nn.ModuleList(
            double_convolution(before, after) for before, after in zip([3, *widths], widths, strict=False)
        )
        pairs = list(pairwise(widths))[::-1]
        self.up = nn.ModuleList(nn.ConvTranspose2d(deep, shallow, 2, 2) for shallow, deep in pairs)
        self.joined = nn.ModuleList(double_convolution(2 * shallow, shallow) for shallow, _ in pairs)
        self.last = nn.Conv2d(width, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        maps: list[torch.Tensor] = []
        for down in self.down:
            maps.append(down(functional.max_pool2d(maps[-1], 2) if maps else x))
        y = maps.pop()
        for up, joined in zip(self.up, self.joined, strict=True):
            y = joined(torch.cat([maps.pop(), up(y)], dim=1))
        out: torch.Tensor = self.last(y)
        return out


class ChannelNorm(nn.LayerNorm):
    """Layer normalisation over the channels of a map."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Scale(nn.Module):
    """A learned factor per channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.empty(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


class ConvNeXtBlock(nn.Module):
    """Depthwise 7x7, then a layer of two linear maps with the channels last."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.body = nn.Sequential(
            nn.LayerNorm(channels, eps=1e-6),
            nn.Linear(channels, 4 * channels),
            nn.GELU(),
            nn.Linear(4 * channels, channels),
            Scale(channels),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(self.depthwise(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def convnext_tiny() -> nn.Module:
    """ConvNeXt-T."""
    widths, depths = (96, 192, 384, 768), (3, 3, 9, 3)
    layers: list[nn.Module] = []
    for stage, (width, depth) in enumerate(zip(widths, depths, strict=True)):
        if stage == 0:
            layers += [nn.Conv2d(3, width, 4, 4), ChannelNorm(width, eps=1e-6)]
        else:
            layers += [ChannelNorm(widths[stage - 1], eps=1e-6), nn.Conv2d(widths[stage - 1], width, 2, 2)]
        layers += [ConvNeXtBlock(width) for _ in range(depth)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(768, eps=1e-6), nn.Linear(768, 1000)]
    return nn.Sequential(*layers, *head)


class Attention(nn.Module):
    """Self-attention of several heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.each = heads, width // heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, tokens, width = x.shape
        parts = self.qkv(x).reshape(n, tokens, 3, self.heads, self.each).permute(2, 0, 3, 1, 4)
        q, k, v = parts[0], parts[1], parts[2]
        weights = (q * self.each**-0.5 @ k.transpose(-2, -1)).softmax(-1)
        out: torch.Tensor = self.out((weights @ v).transpose(1, 2).reshape(n, tokens, width))
        return out


class Encoder(nn.Module):
    """A block of a transformer, normalised first."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.before, self.attention = nn.LayerNorm(width, eps=1e-6), Attention(width, heads)
        self.body = nn.Sequential(
            nn.LayerNorm(width, eps=1e-6), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.before(x))
        out: torch.Tensor = x + self.body(x)
        return out


class VisionTransformer(nn.Module):
    """ViT for 224 x 224 pixels in patches of 16 x 16; by default ViT-S."""

    def __init__(self, width: int = 384, depth: int = 12, heads: int = 6, classes: int = 1000) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(torch.empty(1, 1, width))
        self.positions = nn.Parameter(torch.empty(1, 197, width))
        self.blocks = nn.Sequential(*(Encoder(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        patches = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(patches.shape[0], -1, -1), patches], dim=1)
        y = self.norm(self.blocks(tokens + self.positions))
        out: torch.Tensor = self.head(y[:, 0])
        return out


class ConvolutionalRecurrent(nn.Module):
    """CRNN: a line of text 32 pixels high becomes columns of features, which two bidirectional LSTMs read."""

    def __init__(self, hidden: int = 256, classes: int = 97) -> None:
        super().__init__()
        widths = (64, 128, 256, 256, 512, 512)
        pools: dict[int, tuple[int, int]] = {0: (2, 2), 1: (2, 2), 3: (2, 1), 5: (2, 1)}
        layers: list[nn.Module] = []
        for index, (before, after) in enumerate(pairwise((1, *widths))):
            layers.append(convolution(before, after))
            if index in pools:
                layers.append(nn.MaxPool2d(pools[index], pools[index]))
        self.columns = nn.Sequential(*layers, convolution(512, 512, (2, 1), padding=(0, 0)))
        self.reader = nn.LSTM(512, hidden, num_layers=2, bidirectional=True)
        self.letters = nn.Linear(2 * hidden, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        columns = self.columns(x).squeeze(2).permute(2, 0, 1)
        read, _ = self.reader(columns)
        out: torch.Tensor = self.letters(read).log_softmax(-1)
        return out
