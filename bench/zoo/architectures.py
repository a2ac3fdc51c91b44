"""The zoo's list: an architecture a line, with the project that defines it. No project is imported here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Arguments = tuple[tuple[str, object], ...]
PICTURE = (1, 3, 224, 224)
SIDES = (96, 320)  # pixels of a side, from which open sizes are drawn
LEAST_SIDES = (128, 320)  # of those that pool maps of a sixteenth


@dataclass(frozen=True)
class Architecture:
    """A definition by project and name, with the arguments of its constructor.

    `shape`: of the input that is timed. `open_axes`: axes beside the batch that may have any extent from `sides`, as
    far as a multiple of `multiple`; no axes where the definition writes an extent into its weights or its graph.
    `any_batch`: the batch is open too.
    """

    project: str
    definition: str
    shape: tuple[int, ...] = PICTURE
    open_axes: tuple[int, ...] = (2, 3)
    multiple: int = 1
    sides: tuple[int, int] = SIDES
    arguments: Arguments = ()
    any_batch: bool = True

    @property
    def name(self) -> str:
        """The name of its files."""
        return f"{self.project}-{self.definition}".lower()

    @property
    def traced_at(self) -> tuple[int, ...]:
        """A shape with no two equal open extents, so that tracing at open sizes cannot confuse them."""
        extents = list(self.shape)
        extents[0] = 2 if self.any_batch else self.shape[0]
        for number, axis in enumerate(self.open_axes):
            step = -(-32 // self.multiple) * self.multiple
            extents[axis] = max(self.sides[0], extents[axis] - number * step)
        return tuple(extents)


def _each(project: str, names: str, **settings: Any) -> Iterator[Architecture]:
    for name in names.split():
        yield Architecture(project, name, **settings)


def _one(
    project: str, name: str, shape: tuple[int, ...], axes: tuple[int, ...] = (2, 3), multiple: int = 1,
    sides: tuple[int, int] = SIDES, **arguments: object,
) -> Architecture:  # fmt: skip
    return Architecture(project, name, shape, axes, multiple, sides, tuple(arguments.items()))


def _classifiers() -> Iterator[Architecture]:
    """Pictures to classes: convolutions, mixers and attention."""
    yield from _each(
        "torchvision",
        "squeezenet1_1 resnet18 resnext50_32x4d mobilenet_v2 mobilenet_v3_large mnasnet0_5 densenet121"
        " shufflenet_v2_x1_0 efficientnet_b0 regnet_y_400mf convnext_tiny",
    )
    yield from _each("torchvision", "googlenet inception_v3", sides=LEAST_SIDES)
    yield from _each(
        "timm",
        "tf_efficientnet_b0 tf_mobilenetv3_small_100 resnet26t resnetv2_50 seresnet50 skresnet18 resnest14d"
        " res2net50_26w_4s dpn68 ese_vovnet19b_dw ghostnet_100 repvgg_a0 mobileone_s0 mixnet_s tinynet_e lcnet_050"
        " rexnet_100 cspresnet50 cs3darknet_m hgnet_tiny selecsls42 xception41 legacy_xception poolformer_s12"
        " convmixer_768_32 inception_next_tiny starnet_s1 dm_nfnet_f0 mobilenetv4_conv_small",
    )
    # These halve maps and join them again, or attend to parts of them.
    yield from _each(
        "timm", "dla34 hrnet_w18_small fastvit_t8 edgenext_xx_small pvt_v2_b0 mambaout_femto", multiple=32
    )
    # Positions, windows or the order of tokens are fixed by their definitions.
    yield from _each(
        "timm",
        "deit_tiny_patch16_224 swin_tiny_patch4_window7_224 mixer_s32_224 xcit_nano_12_p16_224 levit_128s"
        " visformer_tiny gmlp_ti16_224 focalnet_tiny_srf efficientformer_l1"
        " mobilevit_xxs sequencer2d_s mvitv2_tiny hiera_tiny_224",
        open_axes=(),
    )
    yield from _each("timm", "repvit_m0_9 efficientvit_b0")
    yield from _each("timm", "botnet26t_256", shape=(1, 3, 256, 256), open_axes=())
    yield from _each(
        "pytorchcv",
        "fishnet99 octresnet10_ad2 condensenet74_c4_g4 peleenet menet108_8x1_g3 sqnxt23_w1",
        open_axes=(),
    )
    yield from _each("pytorchcv", "nin_cifar10 pyramidnet110_a48_cifar10", shape=(1, 3, 32, 32), open_axes=())


def _maps() -> Iterator[Architecture]:
    """Pictures to maps: segmentation, poses, key points, boxes, depth."""
    yield from _each("torchvision", "lraspp_mobilenet_v3_large deeplabv3_mobilenet_v3_large fcn_resnet50")
    yield from _each("smp", "Unet Linknet FPN UnetPlusPlus MAnet PAN DeepLabV3Plus", multiple=32)
    yield from _each("pytorchcv", "lwopenpose2d_mobilenet_cmupan_coco lffd20x5s320v2_widerface")
    # Maps, not the best 40 places: with untrained weights the scores of two differ by 8e-7, and rounding swaps them.
    yield _one("pytorchcv", "centernet_resnet18_voc", PICTURE, (2, 3), 32, return_heatmap=True)
    yield _one("pytorchcv", "bisenet_resnet18_celebamaskhq", PICTURE, (), in_size=(224, 224))
    yield _one("pytorchcv", "cgnet_cityscapes", PICTURE, (), in_size=(224, 224))
    yield _one("transformers", "SegformerForSemanticSegmentation", PICTURE, (2, 3), 32)
    yield _one("transformers", "YolosForObjectDetection", PICTURE, ())


def _pictures() -> Iterator[Architecture]:
    """To pictures: super-resolution, restoration, generators, diffusion."""
    patch = (1, 3, 96, 96)
    small = (32, 128)
    yield _one("spandrel", "ESRGAN", (1, 3, 48, 48), sides=(24, 64), num_blocks=3)
    yield _one("spandrel", "Compact", patch, sides=small)
    yield _one("spandrel", "SPAN", patch, sides=small, num_in_ch=3, num_out_ch=3)
    yield _one(
        "spandrel", "SwinIR", (1, 3, 48, 48), (), embed_dim=60, depths=[2, 2], num_heads=[6, 6], window_size=8,
        img_size=48, upscale=2, upsampler="pixelshuffledirect",
    )  # fmt: skip
    yield _one(
        "spandrel",
        "NAFNet",
        (1, 3, 128, 128),
        multiple=16,
        enc_blk_nums=[1, 1, 1, 2],
        dec_blk_nums=[1, 1, 1, 1],
    )
    yield _one("spandrel", "DnCNN", (1, 1, 128, 128), sides=small)
    yield _one("own", "DCGAN", (1, 100, 1, 1), ())
    yield _one(
        "monai", "Generator", (1, 64), (), latent_shape=(64,), start_shape=(64, 8, 8), channels=(64, 32, 16, 3),
        strides=(2, 2, 2, 1),
    )  # fmt: skip
    yield _one(
        "monai", "DiffusionModelUNet", (1, 3, 64, 64), (2, 3), 8, (32, 96), spatial_dims=2, in_channels=3,
        out_channels=3, channels=(32, 64, 64, 64),
    )  # fmt: skip
    yield _one(
        "diffusers", "UNet2DModel", (1, 3, 64, 64), (2, 3), 8, (32, 96), block_out_channels=(32, 64, 96, 128),
        norm_num_groups=8, layers_per_block=1,
    )  # fmt: skip
    yield _one("diffusers", "AutoencoderTiny", (1, 3, 128, 128), (2, 3), 8, (64, 160))


def _volumes() -> Iterator[Architecture]:
    """Films and medical volumes."""
    film, volume, axes = (1, 3, 8, 64, 64), (1, 1, 48, 48, 48), (2, 3, 4)
    yield from _each("torchvision", "r2plus1d_18 r3d_18", shape=film, open_axes=axes, sides=(8, 64))
    yield _one("monai", "BasicUNet", volume, axes, 16, (32, 48), features=(16, 16, 32, 64, 128, 16))
    yield _one("monai", "SegResNet", (1, 1, 32, 32, 32), axes, 8, (24, 48))
    yield _one(
        "monai", "DenseNet121", volume, axes, 1, (40, 56), spatial_dims=3, in_channels=1, out_channels=2
    )
    yield _one(
        "monai", "DynUNet", volume, axes, 8, (32, 48), spatial_dims=3, in_channels=1, out_channels=2,
        kernel_size=[3, 3, 3, 3], strides=[1, 2, 2, 2], upsample_kernel_size=[2, 2, 2], filters=[16, 32, 64, 96],
    )  # fmt: skip
    yield _one("monai", "HighResNet", (1, 1, 24, 24, 24), axes, 1, (16, 32))
    yield _one(
        "monai", "AttentionUnet", (1, 1, 128, 128), (2, 3), 16, (64, 160), spatial_dims=2, in_channels=1,
        out_channels=2, channels=(16, 32, 64, 128), strides=(2, 2, 2),
    )  # fmt: skip
    yield _one("monai", "UNETR", volume, (), in_channels=1, out_channels=2, img_size=(48, 48, 48), hidden_size=192,
               mlp_dim=768, num_heads=6)  # fmt: skip


def _sequences() -> Iterator[Architecture]:
    """Sound, speech and series: convolutions of one dimension, recurrence, attention."""
    spectrum = (1, 64, 200)  # 2 s in steps of 10 ms
    # Their masks are written down for the batch that they are exported with.
    yield from _each(
        "pytorchcv",
        "jasper5x3 quartznet5x5_en_ls",
        shape=spectrum,
        open_axes=(2,),
        sides=(100, 300),
        any_batch=False,
    )
    yield _one("own", "DeepSpeech2", (1, 1, 64, 200), (3,), 1, (80, 300))
    yield _one("own", "LstmTagger", (1, 128, 64), (1,), 1, (32, 200))
    yield _one("own", "WaveNet", (1, 1, 4000), (2,), 1, (1000, 6000))
    yield _one("own", "PointNet", (1, 3, 1024), (2,), 1, (256, 2048))
    yield _one("transformers", "Wav2Vec2Model", (1, 16000), (1,), 1, (8000, 24000))
    yield _one("transformers", "WhisperEncoder", (1, 80, 3000), ())
    yield _one("transformers", "EncodecEncoder", (1, 1, 24000), (2,), 320, (6400, 32000))
    yield _one("transformers", "SpeechT5HifiGan", (1, 50, 80), (1,), 1, (20, 100))
    yield _one("transformers", "ASTModel", (1, 256, 128), ())


ARCHITECTURES = {
    one.name: one for family in (_classifiers, _maps, _pictures, _volumes, _sequences) for one in family()
}
