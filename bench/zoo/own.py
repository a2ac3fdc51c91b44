"""Definitions of architectures that no project packages on its own, after their papers."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn


class DCGAN(nn.Sequential):
    """Generator of 64 x 64 pictures from 100 numbers (Radford et al., 2015)."""

    def __init__(self, width: int = 64) -> None:
        layers: list[nn.Module] = []
        channels = 100
        for number, factor in enumerate((8, 4, 2, 1)):
            stride, padding = (1, 0) if number == 0 else (2, 1)
            layers += [
                nn.ConvTranspose2d(channels, width * factor, 4, stride, padding, bias=False),
                nn.BatchNorm2d(width * factor),
                nn.ReLU(),
            ]
            channels = width * factor
        super().__init__(*layers, nn.ConvTranspose2d(channels, 3, 4, 2, 1), nn.Tanh())


class DeepSpeech2(nn.Module):
    """Spectrograms (batch, 1, bands, steps) to letters (batch, steps / 2, 29): convolutions and GRUs of both directions
    (Amodei et al., 2015)."""

    def __init__(self, bands: int = 64, width: int = 192) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(1, 32, (41, 11), (2, 2), (20, 5), bias=False),
            nn.BatchNorm2d(32),
            nn.Hardtanh(0, 20),
            nn.Conv2d(32, 32, (21, 11), (2, 1), (10, 5), bias=False),
            nn.BatchNorm2d(32),
            nn.Hardtanh(0, 20),
        )
        self.recurrent = nn.GRU(32 * bands // 4, width, 3, batch_first=True, bidirectional=True)
        self.letters = nn.Linear(2 * width, 29)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps = self.convolutions(x).flatten(1, 2).transpose(1, 2)
        letters: torch.Tensor = self.letters(self.recurrent(steps)[0])
        return letters


class LstmTagger(nn.Module):
    """Vectors (batch, steps, width) to classes of each step: two LSTMs of both directions."""

    def __init__(self, width: int = 64, hidden: int = 128, classes: int = 20) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(width, hidden, 2, batch_first=True, bidirectional=True)
        self.classes = nn.Linear(2 * hidden, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        classes: torch.Tensor = self.classes(self.recurrent(x)[0])
        return classes


class WaveNet(nn.Module):
    """Samples (batch, 1, count) to 256 classes of each: gated dilated causal convolutions
    (van den Oord et al., 2016)."""

    def __init__(self, width: int = 32, skip: int = 64, depth: int = 10) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, width, 1)
        self.gated = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=2**step) for step in range(depth))
        self.residual = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(depth))
        self.skips = nn.ModuleList(nn.Conv1d(width, skip, 1) for _ in range(depth))
        self.last = nn.Sequential(nn.ReLU(), nn.Conv1d(skip, 128, 1), nn.ReLU(), nn.Conv1d(128, 256, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        total = torch.zeros(())
        for step, (gated, residual, skip) in enumerate(
            zip(self.gated, self.residual, self.skips, strict=True)
        ):
            value, gate = gated(nn.functional.pad(x, (2**step, 0))).chunk(2, 1)
            y = torch.tanh(value) * torch.sigmoid(gate)
            total = total + skip(y)
            x = x + residual(y)
        classes: torch.Tensor = self.last(total)
        return classes


class PointNet(nn.Module):
    """Points (batch, 3, count) to 40 classes, without the transformations of space (Qi et al., 2017)."""

    def __init__(self) -> None:
        super().__init__()
        channels = (3, 64, 64, 64, 128, 1024)
        layers: list[nn.Module] = []
        for given, made in pairwise(channels):
            layers += [nn.Conv1d(given, made, 1), nn.BatchNorm1d(made), nn.ReLU()]
        self.each = nn.Sequential(*layers)
        self.all = nn.Sequential(nn.Linear(1024, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, 40))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        classes: torch.Tensor = self.all(self.each(x).amax(2))
        return classes
