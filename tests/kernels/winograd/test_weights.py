"""Transformed weights: the kernel that makes them when a program is loaded, beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from cenote.core.types import Array, TensorType
from cenote.kernels.base import Packed, word_of
from cenote.kernels.driver import driver_abi
from cenote.kernels.launch import Launcher
from cenote.kernels.winograd.transforms import filtering
from cenote.kernels.winograd.weights import RUN, WinogradWeights
from cenote.runtime.program import Program
from cenote.runtime.steps import KernelStep, Slot, SlotKind
from tests.targets import TARGETS


def prepared(packed: Packed, target: object, pieces: int) -> Array:
    """What the kernel makes, in so many pieces."""
    assert packed.prepared is not None
    call, source = packed.prepared.call, packed.prepared.source()
    ((symbol, address),) = Launcher([call], target).kernels(call)  # type: ignore[arg-type]
    words = (Slot(SlotKind.OUTPUT, 0), Slot(SlotKind.INPUT, 0), *map(word_of, call.arguments[2:]))
    step = KernelStep(symbol, symbol, address, words, call.items, -(-call.items // pieces), call.scratch)
    types = TensorType(source.dtype, source.shape), TensorType(packed.dtype, packed.shape)
    program = Program((step,), types[:1], types[1:], (), 0, driver_abi(), 1)
    made = np.full(packed.shape, np.nan, np.float32)
    program.run([source], [made])
    return made


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize(
    ("down", "across"),
    [((4, 3), (4, 3)), ((3, 3), (2, 3)), ((2, 5), (1, 1)), ((1, 1), (2, 7))],
    ids=["4x4", "3x2", "down", "across"],
)
@pytest.mark.parametrize(
    ("groups", "channels", "width", "parts"), [(1, 8, 8, 1), (3, 7, 12, 2), (2, RUN // 16 + 1, 16, 1)]
)
def test_the_kernel_makes_the_same_bits(
    groups: int,
    channels: int,
    width: int,
    parts: int,
    down: tuple[int, int],
    across: tuple[int, int],
    target: object,
) -> None:
    random = np.random.default_rng(channels + width)
    filters = groups * width - 3  # the last group is ragged
    shape = (filters, channels - 1, down[1], across[1])
    windows = [random.standard_normal(shape).astype(np.float32) for _ in range(parts)]
    windows[0][0, 0] = -0.0
    packed = WinogradWeights(filtering(*down), filtering(*across), groups, channels, width).packed(
        parts, lambda: windows
    )
    made = packed.make()
    assert made.shape == packed.shape
    for pieces in (1, 5):
        np.testing.assert_array_equal(prepared(packed, target, pieces).view(np.uint32), made.view(np.uint32))
