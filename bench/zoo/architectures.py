"""The zoo's list: an architecture a line, with the project that defines it. No project is imported here.

`torchvision`, `timm` and `smp` (segmentation-models-pytorch) are needed to export alone (`bench.zoo.export`).
"""

from __future__ import annotations

from dataclasses import dataclass

SMALLEST, LARGEST = 96, 320  # pixels of a side, from which sizes are drawn


@dataclass(frozen=True)
class Architecture:
    """A definition, by project and name. `multiple`: what height and width must be multiples of; `smallest`: the least
    side; `arguments`: of the definition."""

    project: str
    definition: str
    multiple: int = 1
    smallest: int = SMALLEST
    arguments: tuple[tuple[str, object], ...] = ()

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.project}-{self.definition}".lower()


def _each(project: str, names: str, multiple: int = 1, **arguments: object) -> list[Architecture]:
    return [
        Architecture(project, name, multiple, arguments=tuple(arguments.items())) for name in names.split()
    ]


ARCHITECTURES = {
    one.name: one
    for one in (
        *_each(
            "torchvision",
            "squeezenet1_1 resnet18 resnext50_32x4d mobilenet_v2 mobilenet_v3_large mnasnet0_5 densenet121"
            " shufflenet_v2_x1_0 efficientnet_b0 regnet_y_400mf convnext_tiny lraspp_mobilenet_v3_large"
            " deeplabv3_mobilenet_v3_large fcn_resnet50",
        ),
        *(Architecture("torchvision", name, smallest=128) for name in ("googlenet", "inception_v3")),
        *_each(
            "timm",
            "tf_efficientnet_b0 tf_mobilenetv3_small_100 resnet26t resnetv2_50 seresnet50 skresnet18 resnest14d"
            " res2net50_26w_4s dpn68 ese_vovnet19b_dw ghostnet_100 repvgg_a0 mobileone_s0 mixnet_s tinynet_e lcnet_050"
            " rexnet_100 cspresnet50 cs3darknet_m hgnet_tiny selecsls42 xception41 legacy_xception poolformer_s12"
            " convmixer_768_32 inception_next_tiny starnet_s1 dm_nfnet_f0 mobilenetv4_conv_small",
        ),
        # These halve maps and join them again, or attend to parts of them.
        *_each("timm", "dla34 hrnet_w18_small fastvit_t8 edgenext_xx_small pvt_v2_b0", 32),
        *_each("smp", "Unet Linknet FPN UnetPlusPlus MAnet PAN DeepLabV3Plus", 32),
    )
}
