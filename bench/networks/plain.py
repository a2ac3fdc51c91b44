"""Networks that are (nearly) one straight line of layers: LeNet-5, AlexNet, VGG-16, SqueezeNet."""

from torch import nn

from bench.networks.blocks import Branches, convolution


def lenet5() -> nn.Module:
    """LeNet-5 on 28x28 digits, with ReLU and max-pooling as it is usually built today."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(),
        nn.Linear(120, 84), nn.ReLU(),
        nn.Linear(84, 10),
    )  # fmt: skip


def fully_connected(features: int) -> list[nn.Module]:
    """The three wide linear layers that hold most weights of AlexNet and VGG."""
    return [
        nn.Linear(features, 4096), nn.ReLU(), nn.Dropout(),
        nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(),
        nn.Linear(4096, 1000),
    ]  # fmt: skip


def alexnet() -> nn.Module:
    """AlexNet in its one-tower form."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(),
        nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(),
        nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Flatten(), *fully_connected(256 * 6 * 6),
    )  # fmt: skip


def vgg(normalise: bool) -> nn.Module:
    """VGG-16: five stages of 3x3 convolutions, each closed by a 2x2 max-pool."""
    layers: list[nn.Module] = []
    channels = 3
    for width, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(depth):
            layers.append(convolution(channels, width, normalise=normalise))
            channels = width
        layers.append(nn.MaxPool2d(2, 2))
    return nn.Sequential(*layers, nn.Flatten(), *fully_connected(512 * 7 * 7))


def vgg16() -> nn.Module:
    """VGG-16 without batch-norm."""
    return vgg(normalise=False)


def vgg16_bn() -> nn.Module:
    """VGG-16 with batch-norm after every convolution."""
    return vgg(normalise=True)


def fire(channels: int, squeezed: int, expanded: int) -> nn.Module:
    """SqueezeNet's module: a narrow 1x1, then a 1x1 and a 3x3 side by side."""
    return nn.Sequential(
        convolution(channels, squeezed, 1, normalise=False),
        Branches(
            convolution(squeezed, expanded, 1, normalise=False),
            convolution(squeezed, expanded, 3, normalise=False),
        ),
    )


def squeezenet1_1() -> nn.Module:
    """SqueezeNet 1.1; its pools use ceil mode."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, stride=2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True),
        fire(64, 16, 64), fire(128, 16, 64), nn.MaxPool2d(3, 2, ceil_mode=True),
        fire(128, 32, 128), fire(256, 32, 128), nn.MaxPool2d(3, 2, ceil_mode=True),
        fire(256, 48, 192), fire(384, 48, 192), fire(384, 64, 256), fire(512, 64, 256),
        nn.Dropout(), convolution(512, 1000, 1, normalise=False), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip
