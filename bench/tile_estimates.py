"""Estimates of ResNet-50's convolutions of bytes on tile registers, by the cost model: nothing was timed.

    python -m bench.tile_estimates

A column each: times that the network has the layer; products of tiles, each of which costs one load; how much of the
products' operations the layer has (the rest fills tiles); microseconds by the cost model, and the share of 7,000 GOP/s
that they come to; microseconds by the cost model of VNNI's direct kernel.
"""

from __future__ import annotations

from cenote.core.conv_geometry import ConvShape
from cenote.core.target import LEVELS, choose_target
from cenote.kernels.cost_model import BYTES_FASTER, peak_seconds
from cenote.kernels.quantized.tiles import FILTERS, SIDE, WindowCut
from cenote.ops.conv.direct import efficiency

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


def main() -> None:
    features = (*LEVELS["x86-64-v4"], "avx512vnni")
    target = choose_target(features, "x86_64-unknown-linux-gnu", "avx512")
    print("| layer | times | products | filled | tiles, us | of 7,000 GOP/s | VNNI, us |")
    print("|---|---|---|---|---|---|---|")
    totals = [0.0, 0.0, 0.0]
    for channels, filters, window, side, stride, times in LAYERS:
        shape = ConvShape(
            1, channels, filters, 1, (1, side * stride, side * stride), (1, side, side), (1, window, window),
            (1, stride, stride), ((0, 0), (window // 2,) * 2, (window // 2,) * 2), (1, 1, 1),
        )  # fmt: skip
        cut = WindowCut(shape, 4 if channels < 8 else target.lanes(), L2_BYTES)
        blocks = cut.steps * cut.filter_steps * cut.entries
        filled, share = shape.operations / cut.operations, shape.operations / cut.seconds() / PEAK
        vectors = peak_seconds(
            shape.operations, target, efficiency(shape, target.lanes()) * BYTES_FASTER[target.dots]
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


if __name__ == "__main__":
    main()
