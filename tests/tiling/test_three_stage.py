"""Layers planned by hand: the three stages must give exactly these tiles.

The machine has one byte-aligned-to-8 block, so a row of w float32 takes 8 * ceil(4 w / 8) bytes; buffers are single
unless a case says double. bytes = B (nc xD xH al(xW 4) + nc oD oH al(oW 4)), tasks = ceil(NC / nc) times the parts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

import cenote


class Case(NamedTuple):
    """A layer, its machine, and what must come out: stage, (nc, d, h, w), tasks, bytes."""

    kind: str
    layer: dict[str, Any]
    ub: int
    cores: int
    stage: str
    tile: tuple[int, int, int, int]
    tasks: int
    bytes: int
    more: dict[str, Any] = {}


def machine(ub: int, cores: int, **fields: Any) -> dict[str, Any]:
    return {
        "base": "npu",
        "ub_bytes": ub,
        "cores": cores,
        "block_bytes": 8,
        "double_buffering": False,
        **fields,
    }


TWO = {"input": (2, 4, 8, 8), "kernel": 2}  # 8 planes of 8x8 to 4x4: a plane takes 8*32 + 4*16 = 320 bytes
# 4 planes of 8x8: 256 in + 256 out = 512.
THREE = {
    "input": (1, 4, 8, 8),
    "kernel": 3,
    "padding": 1,
    "stride": 1,
}
DEEP = {"input": (1, 2, 4, 4, 4), "kernel": 2}  # 2 planes of 4^3 to 2^3: 4*4*16 + 2*2*8 = 288 bytes
LINE = {"input": (1, 1, 64), "kernel": 2}  # 1 plane of 64 to 32: 256 + 128 = 384 bytes
GLOBAL = {"input": (1, 8, 5, 5)}  # 8 planes: 5 rows of 5*4=20, aligned 24: 120, and 8 out: 128 bytes

CASES = [
    # ---- stage 1: planes
    Case("maxpool", TWO, 2560, 1, "nc", (8, 1, 4, 4), 1, 2560),  # 8 * 320 = 2560 fits exactly; one task for one core
    Case("maxpool", TWO, 2559, 1, "nc", (7, 1, 4, 4), 2, 2240),  # a byte less: 7 * 320
    Case("maxpool", TWO, 2560, 2, "nc", (7, 1, 4, 4), 2, 2240),  # 8 would be 1 task; ceil(8/7) = 2
    Case("maxpool", TWO, 2560, 3, "nc", (3, 1, 4, 4), 3, 960),  # ceil(8/4) = 2 < 3; ceil(8/3) = 3
    Case("maxpool", TWO, 2560, 5, "nc", (1, 1, 4, 4), 8, 320),  # ceil(8/2) = 4 < 5; 8 tasks
    Case("maxpool", TWO, 640, 1, "nc", (2, 1, 4, 4), 4, 640),  # 640 / 320 = 2
    Case("maxpool", TWO, 640, 8, "nc", (1, 1, 4, 4), 8, 320),
    Case("maxpool", TWO, 640, 1, "nc", (1, 1, 4, 4), 8, 640, {"buffers": 2}),  # twice 320
    Case("maxpool", THREE, 1024, 2, "nc", (2, 1, 8, 8), 2, 1024),  # padding does not matter here
    Case("globalavgpool", GLOBAL, 512, 1, "nc", (4, 1, 1, 1), 2, 512),  # 512 / 128
    Case("globalmaxpool", GLOBAL, 512, 4, "nc", (2, 1, 1, 1), 4, 256),  # ceil(8/3) = 3 < 4
    Case("globalavgpool", GLOBAL, 1024, 48, "nc", (1, 1, 1, 1), 8, 128),  # only 8 outputs: min(48, 8) tasks are enough
    Case("maxpool", {**TWO, "dtype": "int8"}, 96, 1, "nc", (1, 1, 4, 4), 8, 96),  # 8*8 + 4*al(4)=4*8
    Case("maxpool", {**TWO, "indices": "int64"}, 448, 1, "nc", (1, 1, 4, 4), 8, 448),  # 320 + 4 * 4*8
    Case("maxpool", {**TWO, "indices": "int32"}, 384, 1, "nc", (1, 1, 4, 4), 8, 384),  # 320 + 4 * 4*4
    Case("adaptive_avgpool", {"input": (1, 2, 6, 6), "output": 3}, 384, 1, "nc", (2, 1, 3, 3), 1, 384),  # 144 + 3*16
    Case("maxpool", DEEP, 576, 1, "nc", (2, 2, 2, 2), 1, 576),  # 2 * 288
    # ---- stage 2: no padding, windows that do not overlap
    # 8 cores and 1 plane: H. (1,1,k,4): 2k rows in of 32, k out of 16 = 80 k; parts ceil(4/k) >= 4 only for k = 1
    Case("maxpool", {"input": (1, 1, 8, 8), "kernel": 2}, 4096, 4, "aligned-h", (1, 1, 1, 4), 4, 80),
    # 2 cores: ceil(4/3) = 2 tasks, the largest k is 3: 240 bytes
    Case("maxpool", {"input": (1, 1, 8, 8), "kernel": 2}, 4096, 2, "aligned-h", (1, 1, 3, 4), 2, 240),
    # 16 cores: H gives 4 tasks at most; then W with H at one stride: 4 * ceil(4/k) >= 16 for k = 1: 2*8 + 8 = 24
    Case("maxpool", {"input": (1, 1, 8, 8), "kernel": 2}, 4096, 16, "aligned-w", (1, 1, 1, 1), 16, 24),
    # 8 cores: 4 * ceil(4/3) = 8 tasks with k = 3: 2 rows of 6*4=24 and al(12) = 16: 64 bytes
    Case("maxpool", {"input": (1, 1, 8, 8), "kernel": 2}, 4096, 8, "aligned-w", (1, 1, 1, 3), 8, 64),
    # space: 200 bytes hold 80 k for k = 2
    Case("maxpool", {"input": (1, 1, 8, 8), "kernel": 2}, 200, 1, "aligned-h", (1, 1, 2, 4), 2, 160),
    # space: 70 bytes hold no 80; W with H at 1: k = 3 takes 64
    Case("maxpool", {"input": (1, 1, 8, 8), "kernel": 2}, 70, 1, "aligned-w", (1, 1, 1, 3), 8, 64),
    # D first: 2 planes of 288; 200 bytes: d = 1: 2*4*16 + 2*8 = 144
    Case("maxpool", DEEP, 200, 1, "aligned-d", (1, 1, 2, 2), 4, 144),
    # 100 bytes: D at one stride; H: 2*2*16 + 8 = 72
    Case("maxpool", DEEP, 100, 1, "aligned-h", (1, 1, 1, 2), 8, 72),
    # 64 bytes: W: 2*2*8 + 8 = 40
    Case("maxpool", DEEP, 64, 1, "aligned-w", (1, 1, 1, 1), 16, 40),
    # 1-D: D and H are 1 long; W: k outputs take 8 k + al(4 k): 11 take 88 + 48 = 136, 10 take 80 + 40
    Case("maxpool", LINE, 135, 1, "aligned-w", (1, 1, 1, 10), 4, 120),
    # stride 3 > window 2: (k-1)*3 + 2 inputs. k = 4: 11*4=44 -> 48, 16: 64 bytes; k = 5: 14*4=56, 24: 80
    Case("maxpool", {"input": (1, 1, 32), "kernel": 2, "stride": 3}, 79, 1, "aligned-w", (1, 1, 1, 4), 3, 64),
    # D is tried first whatever the rest is: d = 1 with H, W whole takes 2*4*16 + 2*8 = 144
    Case("maxpool", DEEP, 150, 1, "aligned-d", (1, 1, 2, 2), 4, 144, {"aligned_rest": "whole"}),
    # 5 cores, 1 deep plane, rest whole: D gives 2, H (D whole) 2, W (D, H whole) 2 tasks; so stage 3 from one stride
    Case(
        "maxpool", {"input": (1, 1, 4, 4, 4), "kernel": 2}, 4096, 5, "unaligned", (1, 1, 1, 1), 8, 40,
        {"aligned_rest": "whole"},
    ),
    # ---- stage 3: padding or overlap
    # 8 tasks from 4 planes of 8x8: H to 2 parts of 4: spans 4 + 2 = 6 rows of 32: 192 + 4*32 = 320
    Case("maxpool", THREE, 4096, 8, "unaligned", (1, 1, 4, 8), 8, 320),
    # 9 tasks: 3 parts of 3: 5 rows: 160 + 96 = 256
    Case("maxpool", THREE, 4096, 9, "unaligned", (1, 1, 3, 8), 12, 256),
    # 511 bytes: one plane needs 512; 2 parts fit in 320
    Case("maxpool", THREE, 511, 1, "unaligned", (1, 1, 4, 8), 8, 320),
    # 128 bytes: h = 1 takes 3*32 + 32 = 128
    Case("maxpool", THREE, 128, 1, "unaligned", (1, 1, 1, 8), 32, 128),
    # 127: then W in 2 parts of 4: 3 rows of 6*4 = 24, and 16: 88
    Case("maxpool", THREE, 127, 1, "unaligned", (1, 1, 1, 4), 64, 88),
    # the padding takes space: 3 x 10 with h = 1, w = 8: 3*40 + 32 = 152 > 128; 2 parts: 3*24 + 16 = 88
    Case("maxpool", THREE, 128, 1, "unaligned", (1, 1, 1, 4), 64, 88, {"pad_space": "padded"}),
    # more cores than outputs: 16 outputs, min(48, 16) tasks at (1, 1, 1): 3*al(12)=48 + 8
    Case("maxpool", {"input": (1, 1, 4, 4), "kernel": 3, "padding": 1, "stride": 1}, 4096, 48, "unaligned",
         (1, 1, 1, 1), 16, 56),
    # dilation 2: reach 5, padding 2, overlap; 2 parts of H: 4 + 4 = 8 rows of 32: 256 + 128 = 384 > 340;
    # 3 parts of 3: 7 rows: 224 + 96 = 320
    Case("maxpool", {"input": (1, 1, 8, 8), "kernel": 3, "stride": 1, "dilation": 2, "padding": 2}, 340, 1, "unaligned",
         (1, 1, 3, 8), 3, 320),
    # ---- planes of images apart: 2 images of 4 planes, nc <= 4: parts of 3 are 3 + 1 per image, so 4 tasks
    Case("maxpool", TWO, 1000, 1, "nc", (3, 1, 4, 4), 4, 960, {"batch": "apart"}),
    # whole waves of 4 cores: nc = 2 gives 4 tasks (3 would give 3, and is not fed either way)
    Case("maxpool", TWO, 4096, 4, "nc", (2, 1, 4, 4), 4, 640, {"enough": "waves"}),
    # scratch is taken off: 2560 - 100 holds 7
    Case("maxpool", TWO, 2560, 1, "nc", (7, 1, 4, 4), 2, 2340, {"scratch": 100}),
    # sums in float64 beside the outputs: 320 + 4 rows of 32 = 448 each
    Case("avgpool", TWO, 900, 1, "nc", (2, 1, 4, 4), 4, 896, {"accumulator": "float64"}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[str(number) for number in range(len(CASES))])
def test_stage_tile_and_tasks(case: Case) -> None:
    found = cenote.tiling.plan(case.kind, **case.layer, hardware=machine(case.ub, case.cores), **case.more)
    described = found.to_dict()
    assert (described["stage"], tuple(described["tile"].values())) == (case.stage, case.tile)
    assert (described["tasks"], described["bytes"], described["fits"]) == (case.tasks, case.bytes, True)


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 30


def test_convolution_by_hand() -> None:
    """8 channels of 8x8 to 8 filters by 3x3, padding 1: whole maps take 8 * 256 in and f * (8 * 9 * 4 + 256) for f
    filters: 2048 + 544 f. 3136 bytes hold f = 2."""
    layer: dict[str, Any] = {"input": (1, 8, 8, 8), "kernel": 3, "padding": 1, "filters": 8}
    found = cenote.tiling.plan("conv", **layer, hardware=machine(3136, 1)).to_dict()
    assert (found["stage"], found["tile"]["nc"], found["tile"]["channels"], found["bytes"]) == (
        "nc",
        2,
        8,
        3136,
    )
    # 900 bytes hold one output row at most with all channels: 8 * 3 * 32 = 768, 288, 32: 1088. By columns: 4 wide,
    # 8 * 3 * 24 + 288 + 16 = 880
    found = cenote.tiling.plan("conv", **layer, hardware=machine(900, 1)).to_dict()
    assert (found["stage"], tuple(found["tile"].values()), found["bytes"]) == (
        "unaligned",
        (1, 1, 1, 4, 8),
        880,
    )


def test_accumulation_over_channels_by_hand() -> None:
    """One output with all 8 channels: 8 * 3 * 16 + 288 + 8 = 680 bytes. With 4: 4 * 3 * al(w + 2) + 144 + 8 + sums."""
    layer: dict[str, Any] = {"input": (1, 8, 8, 8), "kernel": 3, "padding": 1, "filters": 8}
    found = cenote.tiling.plan("conv", **layer, hardware=machine(600, 1)).to_dict()
    # 4 channels, a row of 8: 4 * 3 * 32 + 144 + 32 + 32 = 592
    assert (found["tile"]["channels"], tuple(found["tile"].values())[:4], found["bytes"]) == (
        4,
        (1, 1, 1, 8),
        592,
    )
    assert found["parts"]["channels"] == 2
