"""The benchmark networks have the sizes that were published for them."""

import pytest

torch = pytest.importorskip("torch")

from bench.files import ALL_MODELS, FURTHER_MODELS, QUANTIZED_MODELS, RECURRENT_MODELS  # noqa: E402
from bench.networks import NETWORKS  # noqa: E402
from bench.networks.yolo import BOX_CHANNELS, CLASSES, BoxDecoder, YoloV8Nano  # noqa: E402

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
    "unet": 7_763_074,
    "convnext_tiny": 28_589_128,
    "vit_small": 22_050_664,
    "efficientnet_lite0": 4_652_008,
    "crnn": 8_230_433,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_parameter_counts(name: str):
    with torch.device("meta"):
        module = NETWORKS[name].construct()
    assert sum(weight.numel() for weight in module.parameters()) == PARAMETERS[name]


def test_every_network_is_measured():
    measured = ",".join((ALL_MODELS, FURTHER_MODELS, QUANTIZED_MODELS, RECURRENT_MODELS))
    assert sorted(measured.split(",")) == sorted(NETWORKS)


class Undecided(YoloV8Nano):
    """A detector to which every bin and every class is as likely as another."""

    def __init__(self) -> None:
        torch.nn.Module.__init__(self)
        self.boxes = [
            lambda feature: feature.new_zeros(feature.shape[0], BOX_CHANNELS, *feature.shape[2:])
        ] * 3
        self.classes = [lambda feature: feature.new_zeros(feature.shape[0], CLASSES, *feature.shape[2:])] * 3

    def features(self, x):
        return tuple(x[:, :, ::stride, ::stride] for stride in (8, 16, 32))


def test_boxes_lie_around_the_cells_that_see_them():
    found = BoxDecoder(Undecided())(torch.zeros(2, 3, 64, 96)).detach()
    assert found.shape == (2, 4 + CLASSES, 8 * 12 + 4 * 6 + 2 * 3)
    assert torch.equal(found[:, 4:], torch.full_like(found[:, 4:], 0.5))
    # Each edge is as far as the middle of the 16 bins, 7.5 cells: centre, then width and height, in pixels.
    torch.testing.assert_close(found[1, :4, 0], torch.tensor([4.0, 4.0, 120.0, 120.0]))
    torch.testing.assert_close(found[0, :4, 13], torch.tensor([12.0, 12.0, 120.0, 120.0]))
    torch.testing.assert_close(found[0, :4, -1], torch.tensor([80.0, 48.0, 480.0, 480.0]))
