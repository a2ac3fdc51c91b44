"""Convolutions by float16 parts on tiles, emulated, beside PyTorch in float64: as accurate as sums in float32 for
numbers of any scale, and right where x is not finite."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cenote.core.target import EMULATED, Target, TileWays
from cenote.core.types import Array, TensorType
from cenote.kernels.elementwise.activations import Activation
from cenote.ops.base import Lowering
from cenote.ops.conv.conv import Conv
from cenote.ops.values import seeded
from tests.codegen import bochs
from tests.harness import lowerings_of, run_lowering
from tests.targets import TARGETS, over_targets, target_name

torch = pytest.importorskip("torch")

EMULATING = tuple(replace(target, tiles=TileWays(f16=EMULATED)) for target in TARGETS)
# x, filters, window, strides, pads, dilations
CASES: list[tuple[Any, ...]] = [
    ((1, 64, 14, 14), 96, (1, 1), 1, 0, 1),
    ((2, 33, 7, 9), 21, (3, 3), 1, 1, 1),
    ((1, 48, 15, 13), 40, (3, 3), 2, 1, 1),
    ((1, 3, 37, 41), 17, (7, 7), 2, 3, 1),
    ((1, 2, 9, 20), 5, (3, 5), 1, 2, 1),
    ((1, 7, 11, 10), 9, (3, 3), 1, 0, 2),
    ((1, 40, 11, 12), 33, (3, 3), 2, 2, 3),
    ((1, 20, 9, 8), 12, (1, 1), 2, 0, 1),
    ((1, 20, 13, 11), 12, (2, 2), 3, 1, 1),
    ((1, 200, 18, 150), 16, (3, 3), 1, 1, 1),  # several bands
    ((3, 35, 1, 40), 70, (1, 3), 1, 1, 1),
    ((1, 1, 1, 1), 1, (1, 1), 1, 0, 1),
]


def operands(case: tuple[Any, ...], seed: int = 0) -> tuple[Conv, Array, Array, Array]:
    """Operator, x, weights, bias."""
    x, filters, window, stride, pad, dilation = case
    op = Conv((stride,) * 2, ((pad, pad),) * 2, (dilation,) * 2, on_tiles=True)
    return op, seeded(x, seed), seeded((filters, x[1], *window), seed + 1), seeded((filters,), seed + 2)


def wanted(op: Conv, x: Array, w: Array, bias: Array) -> tuple[Array, Array]:
    """The sums, and those of the sizes of products, by PyTorch in float64."""
    found = []
    for change in (torch.asarray, torch.abs):
        numbers = (change(torch.from_numpy(each.astype(np.float64))) for each in (x, w, bias))
        found.append(
            torch.conv2d(
                *numbers, stride=op.strides, padding=[pads[0] for pads in op.pads], dilation=op.dilations
            ).numpy()
        )
    return found[0], found[1]


def by_parts(op: Conv, inputs: tuple[Array, ...], target: Target) -> Lowering:
    (found,) = [each for each in lowerings_of(op, inputs, target, constants=True) if each.name == "parts"]
    return found


def computed(op: Conv, x: Array, w: Array, bias: Array, target: Target) -> Array:
    (y,) = run_lowering(op, by_parts(op, (x, w, bias), target), (x, w, bias), target)
    return y


def bound(op: Conv, x: Array, w: Array, sizes: Array) -> Array:
    """The error that an output may have, as `kernels.parts.product` derives it: of the parts, the numbers that are too
    small for them, and the additions in float32."""
    axes = (1, 2, 3)
    inputs = wanted(op, x, np.ones_like(w[:1]), np.zeros(1))[1]
    lost = np.abs(x).max() * np.abs(w).sum(axes)[:, None, None] + np.abs(w).max(axes)[:, None, None] * inputs
    additions = 20 + 3 * -(-w.shape[1] // 32) * w.shape[2] * w.shape[3]
    small = np.finfo(np.float32).smallest_normal  # what is left out of results below it
    return (2.0**-20 + additions * 2.0**-24) * sizes + 2.0**-38 * lost + small


@pytest.mark.parametrize(("case", "target"), over_targets([(case,) for case in CASES], 3), ids=target_name)
def test_sums_are_within_the_bound(case: tuple[Any, ...], target: Target) -> None:
    target = replace(target, tiles=TileWays(f16=EMULATED))
    op, x, w, bias = operands(case)
    want, sizes = wanted(op, x, w, bias)
    y = computed(op, x, w, bias, target)
    assert (np.abs(y - want) <= bound(op, x, w, sizes)).all()
    lowering = by_parts(op, (x, w, bias), target)
    (pieces,) = run_lowering(op, lowering, (x, w, bias), target, chunk=1, junk=0x5A)
    np.testing.assert_array_equal(pieces, y)


@pytest.mark.parametrize("case", CASES[1:3])
def test_targets_have_the_same_bits(case: tuple[Any, ...]) -> None:
    op, x, w, bias = operands(case, 7)
    first, *others = (computed(op, x, w, bias, target) for target in EMULATING)
    for other in others:
        np.testing.assert_array_equal(first, other)


@pytest.mark.parametrize(
    "exponents", [(-30, 0), (-8, 8), (-3, 0), (0, -30), (4, 0), (30, 0), (30, -30), (-37, 37)]
)
def test_scales_cost_no_accuracy(exponents: tuple[int, int]) -> None:
    """Data as behind ReLU, and weights of any scale: an error of at most twice that of float32's sums, which are made
    of shorter chains."""
    random, target = np.random.default_rng(3), EMULATING[0]
    x = np.maximum(random.standard_normal((1, 320, 6, 6)), 0) * 10.0 ** exponents[0]
    w = random.standard_normal((32, 320, 3, 3)) / 50 * 10.0 ** exponents[1]
    inputs = x.astype(np.float32), w.astype(np.float32), np.zeros(32, np.float32)
    op, *_ = operands(((1, 320, 6, 6), 32, (3, 3), 1, 1, 1))
    want, _ = wanted(op, *inputs)
    errors = {}
    for lowering in lowerings_of(op, inputs, target, constants=True):
        if lowering.name in ("direct", "parts"):
            (y,) = run_lowering(op, lowering, inputs, target)
            errors[lowering.name] = np.sqrt(np.mean((y - want) ** 2))
    assert errors["parts"] <= 2 * errors["direct"] <= 1e-6 * np.abs(want).max()


def check_specials(y: Array, want: Array) -> Array:
    """Check that infinities and NaN are where they are wanted; return where there are none."""
    for found in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(found(y), found(want))
    return np.isfinite(want)


@pytest.mark.parametrize("target", EMULATING, ids=target_name)
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_reaches_its_windows_only(special: float, target: Target) -> None:
    """Beside large numbers, and with weights that are too small for both parts; in one of two bands."""
    op, x, w, bias = operands(((1, 33, 24, 130), 5, (3, 3), 1, 1, 1))
    x[0, 5, 2, 3], x[0, 32, 2, 3], x[0, 7, 2, 9] = special, special, 3e37
    w[1] = 0
    w[2, 5, :, 0], w[3, 5, 1] = -1e-25, 1e-38
    with np.errstate(all="ignore"):
        want, _ = wanted(op, x, w, bias)
        want = want.astype(np.float32)
    y = computed(op, x, w, bias, target)
    finite = check_specials(y, want)
    np.testing.assert_allclose(y[finite], want[finite], rtol=1e-4, atol=1e-4)
    clean = computed(op, np.where(np.isfinite(x), x, 0), w, bias, target)
    np.testing.assert_array_equal(y[..., -4:, :], clean[..., -4:, :])  # the other band, by tiles


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_beside_the_largest_numbers(special: float) -> None:
    op, x, w, bias = operands(CASES[1])
    x[:] = np.where(x > 0, 1e36, -1e36)
    x[1, 3, 2, 2] = special
    with np.errstate(all="ignore"):
        want = wanted(op, x, w, bias)[0].astype(np.float32)
    assert np.isfinite(want).any()
    check_specials(computed(op, x, w, bias, EMULATING[0]), want)


@pytest.mark.skipif(not bochs.PATH, reason=bochs.ABSENT)
@pytest.mark.parametrize("case", [*CASES[:9], *CASES[10:]], ids=str)
def test_instructions_of_amx_have_the_same_bits(case: tuple[Any, ...]) -> None:
    """Also where a region is summed in float32."""
    op, x, w, bias = operands(case, 7)
    special = x.copy()
    special[0, 0, 0, 0] = np.inf
    for numbers in (x, special):
        inputs = numbers, w, bias
        bochs.check_bits(op, "f16", lambda target, inputs=inputs: (by_parts(op, inputs, target), inputs))


@pytest.mark.parametrize(("large", "small"), [(1e30, 1.0), (1.0, 1e-12), (1.0, 1e-42)])
def test_outliers_spoil_no_sums_beside_them(large: float, small: float) -> None:
    """Pixels that no scale fits together, so that their region is summed without tiles."""
    op, x, w, bias = operands(CASES[1])
    bias[:] = 0
    x *= np.float32(small)
    x[0, 4, 3, 5] = large
    want, sizes = wanted(op, x, w, bias)
    y = computed(op, x, w, bias, EMULATING[0])
    assert (np.abs(y - want) <= 2.0**-18 * sizes + 5e-43).all()


@pytest.mark.parametrize("scale", [0.0, 1e-45, 1e-38, 3e38])
def test_numbers_at_the_ends_of_the_range(scale: float) -> None:
    """Zeros, denormals, and the largest: sums that are too large for float32 alone become infinite."""
    op, x, w, bias = operands(CASES[0])
    x = np.sign(x) * np.float32(scale)
    bias[:] = 0
    for factor in (1e-30, 1.0, 1e30):
        weights = w * np.float32(factor)
        with np.errstate(all="ignore"):
            want, sizes = wanted(op, x, weights, bias)
            y = computed(op, x, weights, bias, EMULATING[-1])
            finite = check_specials(y, want.astype(np.float32))
            assert (np.abs(y - want) <= bound(op, x, weights, sizes))[finite].all()


@pytest.mark.parametrize("kind", ["relu", "silu"])
def test_residual_and_activation(kind: str) -> None:
    op, x, w, bias = operands(CASES[2])
    want, sizes = wanted(op, x, w, bias)
    residual = seeded(want.shape, 9)
    op = replace(op, activation=Activation(kind), residual=True)
    types = [TensorType.of(np.float32, each.shape) for each in (x, residual)]
    types[1:1] = map(TensorType.known, (w, bias))
    (lowering,) = [each for each in op.lowerings(types, EMULATING[0]) if each.name == "parts"]
    (y,) = run_lowering(op, lowering, (x, w, bias, residual), EMULATING[0])
    np.testing.assert_allclose(y, op.activation.apply(want + residual), rtol=0, atol=1e-6 * sizes.max())


@given(data=st.data())
@settings(max_examples=20)
def test_any_convolution_of_any_numbers(data: st.DataObject) -> None:
    """Exponents are drawn for each channel and filter, 2^-60 to 2^60."""
    extent, small = st.integers(1, 12), st.integers(1, 3)
    n, c, h, w = (data.draw(each) for each in (small, st.integers(1, 40), extent, extent))
    window = data.draw(st.tuples(small, small))
    stride, pad, dilation = data.draw(small), data.draw(st.integers(0, 2)), data.draw(st.integers(1, 2))
    if any((k - 1) * dilation + 1 > size + 2 * pad for k, size in zip(window, (h, w), strict=True)):
        return
    filters = data.draw(st.integers(1, 40))
    op, x, weights, bias = operands(((n, c, h, w), filters, window, stride, pad, dilation))
    spread = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = np.ldexp(x, spread.integers(-60, 60, (1, c, 1, 1))).astype(np.float32)
    weights = np.ldexp(weights, spread.integers(-60, 60, (filters, c, 1, 1))).astype(np.float32)
    want, sizes = wanted(op, x, weights, bias)
    y = computed(op, x, weights, bias, EMULATING[-1])
    assert (np.abs(y - want) <= bound(op, x, weights, sizes)).all()
