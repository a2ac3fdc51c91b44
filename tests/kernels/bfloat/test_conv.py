"""Convolutions of bfloat16, in vectors and on tile registers, beside PyTorch in float64, whose operands are rounded
first: what is left is the error of sums in float32. Emulated products have the bits of the extension's."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cenote.codegen.bfloat import rounded
from cenote.core.target import EMULATED, Target, TileWays
from cenote.core.types import BFLOAT16, FLOAT32, Array
from cenote.kernels.elementwise.activations import Activation
from cenote.ops.base import Lowering
from cenote.ops.conv.bfloat_conv import BfloatConv
from cenote.ops.values import seeded
from tests.codegen import bochs
from tests.harness import lowerings_of, run_lowering
from tests.targets import TARGETS, over_targets, target_name

torch = pytest.importorskip("torch")

TILES = TileWays(bf16=EMULATED)
EMULATING = tuple(replace(target, bfloat=EMULATED, tiles=TILES) for target in TARGETS)
VECTORS, ON_TILES = "direct_bfloat16", "tiles_bfloat16"
ALGORITHMS = (VECTORS, ON_TILES)
# x, filters, window, strides, pads, dilations, groups
CASES: list[tuple[Any, ...]] = [
    ((1, 64, 14, 14), 96, (1, 1), 1, 0, 1, 1),
    ((2, 33, 7, 9), 21, (3, 3), 1, 1, 1, 1),
    ((1, 48, 15, 13), 40, (3, 3), 2, 1, 1, 1),
    ((1, 3, 37, 41), 17, (7, 7), 2, 3, 1, 1),
    ((1, 2, 9, 20), 5, (3, 5), 1, 2, 1, 1),
    ((1, 7, 11, 10), 9, (3, 3), 1, 0, 2, 1),
    ((3, 20, 3, 3), 70, (3, 3), 1, 1, 1, 1),
    ((1, 64, 6, 7), 64, (3, 3), 1, 1, 1, 2),
    ((1, 513, 5, 5), 16, (1, 1), 1, 0, 1, 1),
    ((1, 600, 4, 4), 130, (3, 3), 1, 1, 1, 1),
    ((1, 1, 1, 1), 1, (1, 1), 1, 0, 1, 1),
    ((1, 40, 2, 3), 4, (1, 1), 1, 1, 1, 1),  # windows that see nothing but padding
    ((1, 3, 2, 3), 4, (2, 1), 1, 2, 1, 1),
]


def operands(case: tuple[Any, ...], seed: int = 0) -> tuple[BfloatConv, Array, Array, Array]:
    """Operator, x in float32, weights in bfloat16, bias."""
    x, filters, window, stride, pad, dilation, groups = case
    axes = len(window)
    op = BfloatConv((stride,) * axes, ((pad, pad),) * axes, (dilation,) * axes, groups)
    w = rounded(seeded((filters, x[1] // groups, *window), seed + 1))
    return op, seeded(x, seed), w, seeded((filters,), seed + 2)


def wanted(op: BfloatConv, x: Array, w: Array, bias: Array) -> tuple[Array, Array]:
    """The sums of rounded operands, and those of their sizes, by PyTorch in float64."""
    found = []
    for change in (torch.asarray, torch.abs):
        numbers = (change(torch.from_numpy(each.astype(np.float64))) for each in (rounded(x), w, bias))
        found.append(
            torch.conv2d(
                *numbers,
                stride=op.strides,
                padding=[pads[0] for pads in op.pads],
                dilation=op.dilations,
                groups=op.groups,
            ).numpy()
        )
    return found[0], found[1]


def products(
    op: BfloatConv, x: Array, w: Array, bias: Array, target: Target, algorithm: str = VECTORS
) -> tuple[Lowering, Array]:
    """The lowering with products of bfloat16 by an algorithm, and x in the type in which it takes it."""
    for kind in (x, rounded(x)):
        for lowering in lowerings_of(op, (kind, w, bias), target, constants=True):
            if lowering.name.startswith(algorithm):
                return lowering, kind
    raise AssertionError(f"no lowering for {op}")


@pytest.mark.parametrize(
    ("case", "algorithm", "target"), over_targets([*product(CASES, ALGORITHMS)], 5), ids=target_name
)
def test_only_the_sums_are_inexact(case: tuple[Any, ...], algorithm: str, target: Target) -> None:
    op, x, w, bias = operands(case)
    want, sizes = wanted(op, x, w, bias)
    target = replace(
        target,
        bfloat=target.bfloat or EMULATED,
        tiles=target.tiles if target.tiles.bf16 else TILES,
    )
    lowering, given_x = products(op, x, w, bias, target, algorithm)
    (y,) = run_lowering(op, lowering, (given_x, w, bias), target, junk=0x5A)
    terms = w[0].size
    assert (np.abs(y - want) <= 2.0**-24 * (2 + 2 * np.sqrt(terms)) * sizes).all()
    (pieces,) = run_lowering(op, lowering, (given_x, w, bias), target, chunk=1)
    np.testing.assert_array_equal(pieces, y)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("case", CASES[1:5])
def test_emulation_has_the_same_bits(case: tuple[Any, ...], algorithm: str) -> None:
    if not (TARGETS[0].bfloat if algorithm == VECTORS else TARGETS[0].tiles.bf16):
        pytest.skip("this CPU has no such products of bfloat16")
    op, x, w, bias = operands(case, 7)
    for y in (FLOAT32, BFLOAT16):
        kind = replace(op, y=y)
        results = []
        for target in (TARGETS[0], EMULATING[0]):
            lowering, given_x = products(kind, x, w, bias, target, algorithm)
            results += run_lowering(kind, lowering, (given_x, w, bias), target)
        np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.skipif(not bochs.PATH, reason=bochs.ABSENT)
@pytest.mark.parametrize("case", [*CASES[:8], *CASES[10:]], ids=str)
def test_instructions_of_amx_have_the_same_bits(case: tuple[Any, ...]) -> None:
    op, x, w, bias = operands(case, 7)
    for y in (FLOAT32, BFLOAT16):
        kind = replace(op, y=y)

        def found(target: Target, kind: BfloatConv = kind) -> tuple[Lowering, tuple[Array, ...]]:
            lowering, given_x = products(kind, x, w, bias, target, ON_TILES)
            return lowering, (given_x, w, bias)

        bochs.check_bits(kind, "bf16", found)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("target", EMULATING, ids=target_name)
def test_special_numbers_reach_their_windows_only(target: Target, algorithm: str) -> None:
    """NaN and infinities; numbers below the smallest normal one count as zeros; lanes without a channel, which the
    harness fills with NaN, reach nothing."""
    op, x, w, bias = operands(CASES[1])
    x[0, 5, 2, 3], x[1, 32, 0, 0], x[1, 7, 6, 8] = np.nan, np.inf, -np.inf
    w[3, :, :, :], bias[3] = 0, -0.0
    w[4, 0, 1, 1], x[0, 0] = 1.0, 1e-39
    lowering, given_x = products(op, x, w, bias, target, algorithm)
    (y,) = run_lowering(op, lowering, (given_x, w, bias), target)
    with np.errstate(invalid="ignore"):
        want, _ = wanted(op, x, w, bias)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(want))
    np.testing.assert_array_equal(np.isposinf(y), np.isposinf(want))
    np.testing.assert_array_equal(np.isneginf(y), np.isneginf(want))
    finite = np.isfinite(want)
    np.testing.assert_allclose(y[finite], want[finite], rtol=0, atol=2e-5)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("target", EMULATING, ids=target_name)
def test_results_are_rounded_once_behind_the_activation(target: Target, algorithm: str) -> None:
    """Also where an activation is so long that float32's kernels store the sums first."""
    op, x, w, bias = operands(CASES[0])
    for activation in (Activation("relu"), Activation("silu")):
        singles = replace(op, activation=activation)
        results = []
        for kind in (singles, replace(singles, y=BFLOAT16)):
            lowering, given_x = products(kind, x, w, bias, target, algorithm)
            results += run_lowering(kind, lowering, (given_x, w, bias), target)
        np.testing.assert_array_equal(rounded(results[0]), results[1])


@given(data=st.data())
@settings(max_examples=12)
def test_any_convolution(data: st.DataObject) -> None:
    extent, small = st.integers(1, 12), st.integers(1, 3)
    n, c, h, w = (data.draw(each) for each in (small, st.integers(1, 40), extent, extent))
    window = data.draw(st.tuples(small, small))
    stride, pad, dilation = data.draw(small), data.draw(st.integers(0, 2)), data.draw(st.integers(1, 2))
    if any((k - 1) * dilation + 1 > size + 2 * pad for k, size in zip(window, (h, w), strict=True)):
        return
    op, x, weights, bias = operands(
        ((n, c, h, w), data.draw(st.integers(1, 40)), window, stride, pad, dilation, 1)
    )
    want, sizes = wanted(op, x, weights, bias)
    # Small caches: bands of few columns.
    target = replace(EMULATING[-1], l2_bytes=data.draw(st.sampled_from((1 << 14, 1 << 20))))
    lowering, given_x = products(op, x, weights, bias, target, data.draw(st.sampled_from(ALGORITHMS)))
    (y,) = run_lowering(op, lowering, (given_x, weights, bias), target)
    assert (np.abs(y - want) <= 2.0**-24 * (2 + 2 * np.sqrt(weights[0].size)) * sizes).all()
