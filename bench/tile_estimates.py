"""Estimates of ResNet-50's convolutions and a transformer's products, of bytes on tile registers, by the cost model:
nothing was timed.

    python -m bench.tile_estimates

A column each: times that the network has the layer; products of tiles, each of which costs one load; how much of the
products' operations the layer has (the rest fills tiles); microseconds by the cost model, and the share of 7,000 GOP/s
that they come to; microseconds by the cost model of VNNI's direct kernel. Of products: rows, depth and columns, whether
the right factor is a constant, and microseconds on tiles and by VNNI. Last, the convolutions by float16 parts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cenote.core.conv_geometry import ConvShape
from cenote.core.target import LEVELS, TILE_EXTENSIONS, Target, choose_target
from cenote.core.types import TensorType
from cenote.kernels.cost_model import BYTES_FASTER, conversion_seconds, peak_seconds
from cenote.kernels.parts.regions import Regions
from cenote.kernels.quantized.tile_cut import FILTERS, SIDE, ByteTileCut
from cenote.ops.conv.direct import efficiency
from cenote.ops.quantization.quantized_products import MatMulInteger

PEAK = 7e12  # operations a second of one core's products of tiles of bytes, measured on an Intel server
L2_BYTES = 2 << 20
# Channels, filters, window, side of the result, stride, and how often ResNet-50 has it.
LAYERS = (
    (3, 64, 7, 112, 2, 1),
    (64, 64, 1, 56, 1, 1),
    (64, 64, 3, 56, 1, 3),
    (64, 256, 1, 56, 1, 4),
    (256, 64, 1, 56, 1, 2),
    (256, 128, 1, 56, 1, 1),
    (128, 128, 3, 28, 2, 1),
    (128, 512, 1, 28, 1, 4),
    (256, 512, 1, 28, 2, 1),
    (512, 128, 1, 28, 1, 3),
    (128, 128, 3, 28, 1, 3),
    (512, 256, 1, 28, 1, 1),
    (256, 256, 3, 14, 2, 1),
    (256, 1024, 1, 14, 1, 6),
    (512, 1024, 1, 14, 2, 1),
    (1024, 256, 1, 14, 1, 5),
    (256, 256, 3, 14, 1, 5),
    (1024, 512, 1, 14, 1, 1),
    (512, 512, 3, 7, 2, 1),
    (512, 2048, 1, 7, 1, 3),
    (1024, 2048, 1, 7, 2, 1),
    (2048, 512, 1, 7, 1, 2),
    (512, 512, 3, 7, 1, 2),
)

# Rows, depth, columns, and whether the right factor is a constant: layers and attention of ViT-Base, and few rows.
PRODUCTS = (
    (197, 768, 3072, True),
    (197, 3072, 768, True),
    (197, 768, 768, True),
    (197, 64, 197, False),
    (197, 197, 64, False),
    (384, 384, 384, False),
    (16, 768, 768, True),
    (4, 768, 768, True),
    (1, 2048, 1000, True),
)


def main() -> None:
    features = (*LEVELS["x86-64-v4"], "avx512vnni")
    target = choose_target(features, "x86_64-unknown-linux-gnu", "avx512")
    convolutions(target)
    print()
    products(replace(target, tiles=TILE_EXTENSIONS["avx512"], l2_bytes=L2_BYTES))
    print()
    parts()


def convolutions(target: Target) -> None:
    print("| layer | times | products | filled | tiles, us | of 7,000 GOP/s | VNNI, us |")
    print("|---|---|---|---|---|---|---|")
    totals = [0.0, 0.0, 0.0]
    for channels, filters, window, side, stride, times in LAYERS:
        shape = shape_of(channels, filters, window, side, stride)
        cut = ByteTileCut.of(shape, 4 if channels < 8 else target.lanes(), L2_BYTES)
        blocks = cut.steps * cut.filter_steps * cut.entries
        filled, share = shape.operations / cut.operations, shape.operations / cut.seconds() / PEAK
        vectors = peak_seconds(
            shape.operations, target, efficiency(shape, target) * BYTES_FASTER[target.dots]
        )
        assert cut.operations == blocks * 2 * SIDE * FILTERS * 64
        name = f"{window}x{window}, {channels} to {filters} at {side}" + ", stride 2" * (stride > 1)
        times_us = f"{cut.seconds() * 1e6:.0f} | {share:.0%} | {vectors * 1e6:.0f}"
        print(f"| {name} | {times} | {4 * blocks:,} | {filled:.0%} | {times_us} |")
        for place, number in enumerate((shape.operations, cut.seconds(), vectors)):
            totals[place] += times * number
    operations, tiles, vectors = totals
    print(
        f"| all | {sum(each[-1] for each in LAYERS)} | | | {tiles * 1e6:.0f} | {operations / tiles / PEAK:.0%} "
        f"| {vectors * 1e6:.0f} |"
    )


def shape_of(channels: int, filters: int, window: int, side: int, stride: int) -> ConvShape:
    pads, before = ((0, 0), (window // 2,) * 2, (window // 2,) * 2), side * stride
    return ConvShape(
        1,
        channels,
        filters,
        1,
        (1, before, before),
        (1, side, side),
        (1, window, window),
        (1, stride, stride),
        pads,
        (1, 1, 1),
    )


def parts() -> None:
    """The same convolutions by float16 parts, and their share of splitting x."""
    regions = [(Regions(shape_of(*layer)), times) for *layer, times in LAYERS]
    whole = sum(each.seconds * times for each, times in regions)
    split = sum(conversion_seconds(2 * each.memory[0].nbytes) * times for each, times in regions)
    print(f"float16 parts: {whole * 1e3:.1f} ms, of which splitting {split * 1e3:.1f}")


def products(target: Target) -> None:
    print("| rows, depth, columns | right factor | tiles, us | VNNI, us |")
    print("|---|---|---|---|")
    for rows, depth, columns, constant in PRODUCTS:
        a, b = (np.ones(shape, np.int8) for shape in ((rows, depth), (depth, columns)))
        types = [
            TensorType.of(np.int8, a.shape),
            TensorType.known(b) if constant else TensorType.of(np.int8, b.shape),
        ]
        found = MatMulInteger().lowerings([*types, None, None], target)
        seconds = {each.name: each.seconds for each in found}
        times_us = " | ".join(f"{seconds[name] * 1e6:.0f}" for name in ("quantized_tiles", "quantized"))
        print(f"| {rows}, {depth}, {columns} | {'constant' if constant else 'computed'} | {times_us} |")


if __name__ == "__main__":
    main()
