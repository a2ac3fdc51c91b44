"""Transposed convolutions of bytes beside PyTorch's in float64, which has their sums exactly: every bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from cenote.core.target import PAIRS, Target
from cenote.ops.conv.conv_transpose import ConvTranspose
from cenote.ops.quantization.quantized_transposed import QLinearConvTranspose
from tests.harness import lowerings_of, run_lowering
from tests.targets import TARGETS

WAYS = [replace(target, dots=way) for target in TARGETS for way in dict.fromkeys((target.dots, PAIRS))]
RANDOM = np.random.default_rng(11)


@pytest.mark.parametrize("target", WAYS, ids=lambda target: f"{target.name}-{target.dots}")
@pytest.mark.parametrize(
    ("window", "stride", "pad", "more", "x_zero", "kind"),
    [
        (2, 2, 0, 0, 77, np.uint8),
        (3, 2, 1, 1, 77, np.uint8),
        (4, 2, 1, 0, -9, np.int8),
        (3, 1, 0, 0, 0, np.uint8),
    ],
)
def test_every_bit_is_that_of_exact_sums(
    target: Target, window: int, stride: int, pad: int, more: int, x_zero: int, kind: Any
) -> None:
    """Windows side by side and overlapping; borders of a zero point; numbers whose sums saturate 16 bits."""
    info = np.iinfo(kind)
    x = RANDOM.integers(info.min, info.max + 1, (2, 37, 5, 6)).astype(kind)
    w = RANDOM.integers(-128, 128, (37, 18, window, window)).astype(np.int8)
    x[:, :, 2:], w[:, :5] = info.max, -128
    scales = (RANDOM.random(18) * 0.02 + 0.001).astype(np.float32)
    bias = RANDOM.integers(-5000, 5000, 18).astype(np.int32)
    x_scale, y_scale, y_zero = np.float32(0.03), np.float32(4.4), np.array(13, np.uint8)
    given = (
        *(x, np.array(x_scale), np.array(x_zero, kind)),
        *(w, scales, np.array(0, np.int8), np.array(y_scale), y_zero, bias),
    )
    sums = torch.nn.functional.conv_transpose2d(
        torch.from_numpy(x.astype(np.float64) - x_zero),
        torch.from_numpy(w.astype(np.float64)),
        torch.from_numpy(bias.astype(np.float64)),
        stride,
        pad,
        more,
    ).numpy()
    scaled = sums.astype(np.float32) * (x_scale * scales / y_scale).reshape(1, -1, 1, 1)
    want = np.clip(np.rint(scaled) + 13, 20, 200).astype(np.uint8)
    op = QLinearConvTranspose(
        ConvTranspose(strides=(stride,) * 2, pads=((pad, pad),) * 2, output_padding=(more,) * 2), (20, 200)
    )
    found = lowerings_of(op, given, target, True)
    assert found
    for index, lowering in enumerate(found):
        (y,) = run_lowering(op, lowering, given, target, chunk=index % 2, junk=0x5A)
        np.testing.assert_array_equal(y, want, err_msg=str(lowering.inputs[0]))
    np.testing.assert_array_equal(op.reference(*given)[0], want)
