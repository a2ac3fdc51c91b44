"""Networks of parallel branches: GoogLeNet and Inception v3."""

from functools import partial
from itertools import pairwise

from torch import nn

from bench.networks.blocks import Branches, classifier
from bench.networks.blocks import convolution as any_convolution

# Both networks were published with this epsilon in batch-norm.
convolution = partial(any_convolution, epsilon=1e-3)


def googlenet_module(
    channels: int, single: int, three: tuple[int, int], five: tuple[int, int], pooled: int
) -> nn.Module:
    """Four branches; the one named "five" runs 3x3 filters in the networks that people actually use."""
    return Branches(
        convolution(channels, single, 1),
        nn.Sequential(convolution(channels, three[0], 1), convolution(three[0], three[1], 3)),
        nn.Sequential(convolution(channels, five[0], 1), convolution(five[0], five[1], 3)),
        nn.Sequential(nn.MaxPool2d(3, 1, 1, ceil_mode=True), convolution(channels, pooled, 1)),
    )


def googlenet() -> nn.Module:
    """GoogLeNet with batch-norm, without the auxiliary heads."""
    shrink = partial(nn.MaxPool2d, stride=2, ceil_mode=True)
    return nn.Sequential(
        convolution(3, 64, 7, 2), shrink(3), convolution(64, 64, 1), convolution(64, 192, 3), shrink(3),
        googlenet_module(192, 64, (96, 128), (16, 32), 32),
        googlenet_module(256, 128, (128, 192), (32, 96), 64),
        shrink(3),
        googlenet_module(480, 192, (96, 208), (16, 48), 64),
        googlenet_module(512, 160, (112, 224), (24, 64), 64),
        googlenet_module(512, 128, (128, 256), (24, 64), 64),
        googlenet_module(512, 112, (144, 288), (32, 64), 64),
        googlenet_module(528, 256, (160, 320), (32, 128), 128),
        shrink(2),
        googlenet_module(832, 256, (160, 320), (32, 128), 128),
        googlenet_module(832, 384, (192, 384), (48, 128), 128),
        *classifier(1024, dropout=True),
    )  # fmt: skip


def chain(*widths: int, kernels: tuple[int | tuple[int, int], ...]) -> nn.Sequential:
    """Convolutions one after another: widths has one entry more than kernels."""
    steps = zip(pairwise(widths), kernels, strict=True)
    return nn.Sequential(*(convolution(before, after, kernel) for (before, after), kernel in steps))


def pooled_branch(channels: int, width: int) -> nn.Sequential:
    """3x3 average at stride 1, padding counted, then a 1x1."""
    return nn.Sequential(nn.AvgPool2d(3, 1, 1), convolution(channels, width, 1))


def module_35(channels: int, pooled: int) -> nn.Module:
    """The module for 35x35 maps."""
    return Branches(
        convolution(channels, 64, 1),
        chain(channels, 48, 64, kernels=(1, 5)),
        chain(channels, 64, 96, 96, kernels=(1, 3, 3)),
        pooled_branch(channels, pooled),
    )


def reduction_35_to_17(channels: int) -> nn.Module:
    """Halves the map with convolutions and a max-pool side by side."""
    return Branches(
        convolution(channels, 384, 3, 2, 0),
        nn.Sequential(chain(channels, 64, 96, kernels=(1, 3)), convolution(96, 96, 3, 2, 0)),
        nn.MaxPool2d(3, 2),
    )


def module_17(channels: int, width: int) -> nn.Module:
    """The module for 17x17 maps: 7x7 filters as 1x7 after 7x1."""
    row, column = (1, 7), (7, 1)
    return Branches(
        convolution(channels, 192, 1),
        chain(channels, width, width, 192, kernels=(1, row, column)),
        chain(channels, width, width, width, width, 192, kernels=(1, column, row, column, row)),
        pooled_branch(channels, 192),
    )


def reduction_17_to_8(channels: int) -> nn.Module:
    """Halves the map again."""
    deep = chain(channels, 192, 192, 192, kernels=(1, (1, 7), (7, 1)))
    return Branches(
        nn.Sequential(convolution(channels, 192, 1), convolution(192, 320, 3, 2, 0)),
        nn.Sequential(deep, convolution(192, 192, 3, 2, 0)),
        nn.MaxPool2d(3, 2),
    )


def module_8(channels: int) -> nn.Module:
    """The module for 8x8 maps: its 3x3 filters are split into a row and a column side by side."""

    def row_and_column() -> nn.Module:
        return Branches(convolution(384, 384, (1, 3)), convolution(384, 384, (3, 1)))

    return Branches(
        convolution(channels, 320, 1),
        nn.Sequential(convolution(channels, 384, 1), row_and_column()),
        nn.Sequential(chain(channels, 448, 384, kernels=(1, 3)), row_and_column()),
        pooled_branch(channels, 192),
    )


def inception_v3() -> nn.Module:
    """Inception v3 for 299x299 images, without the auxiliary head."""
    return nn.Sequential(
        convolution(3, 32, 3, 2, 0), convolution(32, 32, 3, 1, 0), convolution(32, 64, 3), nn.MaxPool2d(3, 2),
        convolution(64, 80, 1), convolution(80, 192, 3, 1, 0), nn.MaxPool2d(3, 2),
        module_35(192, 32), module_35(256, 64), module_35(288, 64), reduction_35_to_17(288),
        module_17(768, 128), module_17(768, 160), module_17(768, 160), module_17(768, 192),
        reduction_17_to_8(768),
        module_8(1280), module_8(2048),
        *classifier(2048, dropout=True),
    )  # fmt: skip
