"""The benchmark networks have the sizes that were published for them."""

import pytest

torch = pytest.importorskip("torch")

from bench.files import ALL_MODELS  # noqa: E402
from bench.networks import NETWORKS  # noqa: E402

# Without auxiliary heads; vgg16_bn has no bias before batch-norm; yolov8n without the fixed weights of its decoder.
PARAMETERS = {
    "lenet5": 61_706,
    "alexnet": 61_100_840,
    "vgg16": 138_357_544,
    "vgg16_bn": 138_361_768,
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "mobilenet_v2": 3_504_872,
    "squeezenet1_1": 1_235_496,
    "densenet121": 7_978_856,
    "googlenet": 6_624_904,
    "inception_v3": 23_834_568,
    "shufflenet_v2_x1": 2_278_604,
    "efficientnet_b0": 5_288_548,
    "yolov8n": 3_157_184,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_parameter_counts(name: str):
    with torch.device("meta"):
        module = NETWORKS[name].construct()
    assert sum(weight.numel() for weight in module.parameters()) == PARAMETERS[name]


def test_every_network_is_measured():
    assert sorted(ALL_MODELS.split(",")) == sorted(NETWORKS)
