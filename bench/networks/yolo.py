"""YOLOv8 nano: a detector, the one benchmark network whose graph is not a chain of stages."""

from functools import partial

import torch
from torch import nn

from bench.networks.blocks import Shortcut, convolution, extents

block = partial(convolution, kernel=1, activation=nn.SiLU, epsilon=1e-3)

CLASSES = 80
BINS = 16
BOX_CHANNELS = 4 * BINS  # four box edges, each a distribution over the bins
STRIDES = (8.0, 16.0, 32.0)  # pixels per cell of the three maps


def bottleneck(channels: int, shortcut: bool) -> nn.Module:
    """Two 3x3 convolutions, inside a residual connection in the backbone only."""
    body = nn.Sequential(block(channels, channels, kernel=3), block(channels, channels, kernel=3))
    return Shortcut(body) if shortcut else body


class SplitBottlenecks(nn.Module):
    """Keeps every intermediate result of a chain of bottlenecks and joins them all ("C2f")."""

    def __init__(self, channels: int, channels_out: int, depth: int = 1, shortcut: bool = False) -> None:
        super().__init__()
        self.width = half = channels_out // 2
        self.enter = block(channels, channels_out)
        self.leave = block((2 + depth) * half, channels_out)
        self.chain = nn.ModuleList(bottleneck(half, shortcut) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = list(self.enter(x).split([self.width, self.width], dim=1))
        for link in self.chain:
            parts.append(link(parts[-1]))
        joined: torch.Tensor = self.leave(torch.cat(parts, dim=1))
        return joined


class PoolPyramid(nn.Module):
    """Three 5x5 max-pools in a row stand in for windows of 5, 9 and 13 ("SPPF")."""

    def __init__(self, channels: int, channels_out: int) -> None:
        super().__init__()
        self.enter = block(channels, channels // 2)
        self.leave = block(2 * channels, channels_out)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        levels = [self.enter(x)]
        for _ in range(3):
            levels.append(self.pool(levels[-1]))
        joined: torch.Tensor = self.leave(torch.cat(levels, dim=1))
        return joined


def head(channels: int, width: int, channels_out: int) -> nn.Sequential:
    """Two 3x3 convolutions and a 1x1 with bias: one output map of the detector."""
    return nn.Sequential(
        block(channels, width, kernel=3), block(width, width, kernel=3), nn.Conv2d(width, channels_out, 1)
    )


class YoloV8Nano(nn.Module):
    """YOLOv8n up to its raw heads: box bins and class logits of the three scales, flattened and joined."""

    def __init__(self) -> None:
        super().__init__()
        self.to_stride_8 = nn.Sequential(
            block(3, 16, kernel=3, stride=2),
            block(16, 32, kernel=3, stride=2), SplitBottlenecks(32, 32, 1, True),
            block(32, 64, kernel=3, stride=2), SplitBottlenecks(64, 64, 2, True),
        )  # fmt: skip
        self.to_stride_16 = nn.Sequential(
            block(64, 128, kernel=3, stride=2), SplitBottlenecks(128, 128, 2, True)
        )
        self.to_stride_32 = nn.Sequential(
            block(128, 256, kernel=3, stride=2), SplitBottlenecks(256, 256, 1, True), PoolPyramid(256, 256)
        )
        self.enlarge = nn.Upsample(scale_factor=2, mode="nearest")
        self.up_16, self.up_8 = SplitBottlenecks(384, 128), SplitBottlenecks(192, 64)
        self.shrink_8, self.down_16 = block(64, 64, kernel=3, stride=2), SplitBottlenecks(192, 128)
        self.shrink_16, self.down_32 = block(128, 128, kernel=3, stride=2), SplitBottlenecks(384, 256)
        widths = (64, 128, 256)
        self.boxes = nn.ModuleList(head(width, 64, BOX_CHANNELS) for width in widths)
        self.classes = nn.ModuleList(head(width, CLASSES, CLASSES) for width in widths)

    def features(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The three maps that the heads read: backbone, then a path up and a path down."""
        stride_8 = self.to_stride_8(x)
        stride_16 = self.to_stride_16(stride_8)
        stride_32 = self.to_stride_32(stride_16)
        middle = self.up_16(torch.cat([self.enlarge(stride_32), stride_16], dim=1))
        fine = self.up_8(torch.cat([self.enlarge(middle), stride_8], dim=1))
        medium = self.down_16(torch.cat([self.shrink_8(fine), middle], dim=1))
        coarse = self.down_32(torch.cat([self.shrink_16(medium), stride_32], dim=1))
        return fine, medium, coarse

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch = extents(x)[0]
        scales = zip(self.features(x), self.boxes, self.classes, strict=True)
        maps = [torch.cat([box(feature), label(feature)], dim=1) for feature, box, label in scales]
        return torch.cat([scale.view(batch, BOX_CHANNELS + CLASSES, -1) for scale in maps], dim=2)


class BoxDecoder(nn.Module):
    """YOLOv8 with its decoder, written as the network's authors export it for any size: class scores and boxes in
    pixels. The anchors are computed from the sizes of the maps inside the graph (Shape, Range, Expand, Concat)."""

    def __init__(self, network: YoloV8Nano) -> None:
        super().__init__()
        self.network = network
        # Expectation over the bins of an edge: a 1x1 convolution with the weights 0, 1, 2, … ("DFL").
        self.expectation = nn.Conv2d(BINS, 1, 1, bias=False)
        self.expectation.weight.data[:] = torch.arange(BINS, dtype=torch.float).view(1, BINS, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        network = self.network
        features = network.features(x)
        scales = zip(features, network.boxes, network.classes, strict=True)
        maps = [torch.cat([box(feature), label(feature)], dim=1) for feature, box, label in scales]
        flat = torch.cat([scale.view(x.shape[0], BOX_CHANNELS + CLASSES, -1) for scale in maps], dim=2)
        edges, scores = flat.split((BOX_CHANNELS, CLASSES), dim=1)
        batch, _, count = edges.shape
        bins = edges.view(batch, 4, BINS, count).transpose(2, 1).softmax(1)
        distances = self.expectation(bins).view(batch, 4, count)
        anchors, strides = anchor_points(features)
        before, after = distances.chunk(2, dim=1)
        low, high = anchors.unsqueeze(0) - before, anchors.unsqueeze(0) + after
        boxes = torch.cat(((low + high) / 2, high - low), dim=1) * strides
        return torch.cat((boxes, scores.sigmoid()), dim=1)


def anchor_points(features: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """Middles of all cells of all maps, (2, cells), and the stride of each cell, (1, cells)."""
    points, strides = [], []
    for feature, stride in zip(features, STRIDES, strict=True):
        _, _, height, width = feature.shape
        x = torch.arange(end=width, device=feature.device, dtype=feature.dtype) + 0.5
        y = torch.arange(end=height, device=feature.device, dtype=feature.dtype) + 0.5
        rows, columns = torch.meshgrid(y, x, indexing="ij")
        points.append(torch.stack((columns, rows), -1).view(-1, 2))
        strides.append(torch.full((height * width, 1), stride, dtype=feature.dtype, device=feature.device))
    return torch.cat(points).transpose(0, 1), torch.cat(strides).transpose(0, 1)
