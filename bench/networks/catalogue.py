"""Which networks there are: constructor, input shape, and whether batch-norm stays in the file."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from bench.networks import inception, mobile, newer, plain, residual, yolo


@dataclass(frozen=True)
class Network:
    """How to construct one benchmark network and what it eats."""

    construct: Callable[[], nn.Module]
    input_shape: tuple[int, ...] = (1, 3, 224, 224)
    # Exporters fold batch-norm into the convolution before it. Three networks keep the nodes, because a
    # file from a training pipeline often has them and an engine must fold (or, in DenseNet, run) them itself.
    keep_batch_norm: bool = False


NETWORKS: dict[str, Network] = {
    "lenet5": Network(plain.lenet5, (1, 1, 28, 28)),
    "alexnet": Network(plain.alexnet),
    "vgg16": Network(plain.vgg16),
    "vgg16_bn": Network(plain.vgg16_bn, keep_batch_norm=True),
    "resnet18": Network(residual.resnet18),
    "resnet50": Network(residual.resnet50, keep_batch_norm=True),
    "mobilenet_v2": Network(mobile.mobilenet_v2),
    "squeezenet1_1": Network(plain.squeezenet1_1),
    "densenet121": Network(residual.densenet121, keep_batch_norm=True),
    "googlenet": Network(inception.googlenet),
    "inception_v3": Network(inception.inception_v3, (1, 3, 299, 299)),
    "shufflenet_v2_x1": Network(mobile.shufflenet_v2_x1),
    "efficientnet_b0": Network(mobile.efficientnet_b0),
    "yolov8n": Network(yolo.YoloV8Nano, (1, 3, 640, 640)),
    # Not among the fourteen that bench.models measures.
    "unet": Network(newer.UNet, (1, 3, 256, 256)),
    "convnext_tiny": Network(newer.convnext_tiny),
    "vit_small": Network(newer.VisionTransformer),
    "efficientnet_lite0": Network(mobile.efficientnet_lite0),
    "crnn": Network(newer.ConvolutionalRecurrent, (1, 1, 32, 320)),
}


def names() -> list[str]:
    """All network names, in the order in which reports list them."""
    return list(NETWORKS)
