"""Windows of one channel whose rows are longer than registers: parts of a row are unrolled."""

from __future__ import annotations

import pytest

from cenote.kernels.conv.depthwise import widest_row
from cenote.kernels.conv.depthwise_calls import unrolled_taps
from cenote.ops.conv.conv import Conv
from cenote.ops.values import seeded
from cenote.verification.contract.comparison import check_sample
from cenote.verification.contract.harness import require
from tests.harness import lowerings_of
from tests.targets import TARGETS


@pytest.mark.parametrize(
    ("columns", "registers", "taps"),
    [
        (3, 16, 3),
        (9, 16, 9),  # 4 pixels and 9 weights have room
        (25, 32, 25),
        (33, 32, 11),
        (33, 16, 3),
        (63, 32, 21),
        (31, 16, 1),  # a prime number
        (1, 16, 1),
    ],
)
def test_taps_that_are_unrolled(columns: int, registers: int, taps: int) -> None:
    assert unrolled_taps(columns, registers, 1) == taps
    assert columns % taps == 0
    assert taps == 1 or widest_row(taps, registers, 1) >= 4


@pytest.mark.parametrize(
    ("conv", "shape", "window"),
    [
        (Conv(groups=19, pads=((16, 16),)), (2, 19, 61), (33,)),
        (Conv(groups=19, strides=(2,), pads=((19, 20),)), (1, 19, 90), (39,)),
        (Conv(groups=19, dilations=(2,), pads=((33, 33),)), (1, 19, 40), (33,)),
        (Conv(groups=17, pads=((1, 1), (13, 12))), (1, 17, 5, 30), (3, 26)),
        (Conv(groups=17, pads=((1, 1), (0, 0), (17, 17))), (1, 17, 3, 2, 45), (2, 1, 34)),
        (Conv(groups=16, pads=((31, 31),)), (1, 16, 20), (63,)),
    ],
)
def test_long_rows(conv: Conv, shape: tuple[int, ...], window: tuple[int, ...]) -> None:
    w, bias = seeded((shape[1], 1, *window), 2), seeded((shape[1],), 3)
    arrays = (seeded(shape, 1), w, bias, None)
    for target in TARGETS:
        some = [each for each in lowerings_of(conv, arrays, target, True) if each.name == "depthwise"]
        require(len(some) == 1, f"one depthwise lowering of {conv}")
        check_sample(conv, arrays, target, True, some, halos=True)
