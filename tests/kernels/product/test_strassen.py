"""Strassen's algorithm: rounding errors beside plain sums, pixels that do not reach each other, sizes and threads."""

from __future__ import annotations

import numpy as np
import pytest

from cenote.codegen import jit
from cenote.core.types import Array
from cenote.kernels.elementwise.activations import Activation
from cenote.ops.base import Lowering, Op
from cenote.ops.conv.conv import Conv
from cenote.ops.linear.matmul import MatMul
from tests.harness import input_types, run_lowering

TARGET = jit.host_target()
TIMES = 4  # the error of a plain sum that the lowerings declare


def lowering(op: Op, arrays: list[Array], name: str = "strassen") -> Lowering:
    types = input_types(arrays, True)
    return next(each for each in op.lowerings(types, TARGET) if each.name == name)


def run(op: Op, arrays: list[Array], name: str = "strassen") -> Array:
    return run_lowering(op, lowering(op, arrays, name), arrays, TARGET)[0]


def layer(rows: int, channels: int, filters: int, seed: int = 0) -> list[Array]:
    random = np.random.default_rng(seed)
    x = np.maximum(random.standard_normal((rows, channels)), 0)
    w = random.standard_normal((channels, filters)) / np.sqrt(channels)
    return [x.astype(np.float32), w.astype(np.float32)]


def exactly(x: Array, w: Array) -> Array:
    return x.astype(np.float64) @ w.astype(np.float64)


def worst(y: Array, wanted: Array, axis: int) -> float:
    """The largest error of a row (axis 1) or column, beside the largest number there."""
    return float((np.abs(y - wanted).max(axis) / np.abs(wanted).max(axis)).max())


@pytest.mark.parametrize(("channels", "filters"), [(64, 128), (512, 256), (1024, 384)])
def test_errors_are_near_those_of_plain_sums(channels: int, filters: int) -> None:
    x, w = layer(49, channels, filters)
    wanted = exactly(x, w)
    error, plain = (
        np.sqrt(np.mean((run(MatMul(), [x, w], name) - wanted) ** 2)) for name in ("strassen", "panels")
    )
    assert error < TIMES * plain


@pytest.mark.parametrize("size", [1e-30, 1e-4, 1e6, 1e30])
def test_a_large_row_does_not_round_its_neighbour(size: float) -> None:
    x, w = layer(21, 128, 128)
    x[6:9] *= np.float32(size)
    assert worst(run(MatMul(), [x, w]), exactly(x, w), 1) < 5e-6


def test_large_filters_and_channels_do_not_round_others() -> None:
    x, w = layer(21, 128, 128)
    random = np.random.default_rng(3)
    w *= np.exp2(random.integers(-12, 12, 128)).astype(np.float32)  # filters
    apart = np.exp2(random.integers(-12, 12, 128)).astype(np.float32)
    x, w = x * apart, w / apart[:, None]
    assert worst(run(MatMul(), [x, w]), exactly(x, w), 0) < 5e-6


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_reaches_no_other(bad: float) -> None:
    x, w = layer(20, 64, 128)
    clean = run(MatMul(), [x, w])
    x[7, 11] = bad
    y = run(MatMul(), [x, w])
    assert np.isnan(y[7]).all()
    assert np.delete(y, (6, 7), 0).tobytes() == np.delete(clean, (6, 7), 0).tobytes()
    np.testing.assert_allclose(y[6], clean[6], rtol=1e-5, atol=1e-5)  # beside a row of zeros


def test_rows_of_zeros_and_of_the_smallest_and_largest_numbers() -> None:
    x, w = layer(8, 64, 128)
    x[:4] = np.float32([0, 1e-44, 1e-38, 3e38])[:, None]
    w[:, ::2] = 0
    with np.errstate(all="ignore"):
        y, wanted = run(MatMul(), [x, w]), exactly(x, w)
    assert not y[0].any()
    assert np.abs(y[1]).max() < 1e-37
    np.testing.assert_allclose(y[2], wanted[2], rtol=1e-5, atol=1e-43)
    ordinary = np.abs(wanted[3]) < 3e38
    np.testing.assert_allclose(y[3][ordinary], wanted[3][ordinary], atol=1e33)
    assert not np.isfinite(y[3][np.abs(wanted[3]) > 3.5e38]).any()
    assert worst(y[4:], wanted[4:], 1) < 5e-6


@pytest.mark.parametrize("pixels", [1, 2, 3, 11, 12, 13, 25, 130])
def test_odd_and_even_numbers_of_pixels(pixels: int) -> None:
    """Bits of a pixel depend on its neighbour in no way that its value does not."""
    x, w = layer(pixels, 64, 128)
    np.testing.assert_allclose(run(MatMul(), [x, w]), exactly(x, w), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("strides", [(1, 1), (2, 3)])
@pytest.mark.parametrize("size", [(5, 7), (1, 1), (14, 14)])
def test_convolutions(strides: tuple[int, int], size: tuple[int, int]) -> None:
    random = np.random.default_rng(1)
    x = random.standard_normal((3, 64, *size)).astype(np.float32)
    w = (random.standard_normal((128, 64, 1, 1)) / 8).astype(np.float32)
    b = random.standard_normal(128).astype(np.float32)
    op = Conv(strides, residual=True, activation=Activation("silu"))
    arrays = [x, w, b]
    (y,) = Conv(strides).reference(*(each.astype(np.float64) for each in arrays))
    added = random.standard_normal(y.shape).astype(np.float32)
    wanted = (y + added) / (1 + np.exp(-(y + added)))
    np.testing.assert_allclose(run(op, [*arrays, added]), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("vectors", [(8, 9), (9, 8), (5, 14), (7, 4), (5, 5), (11, 6)])
def test_odd_numbers_of_vectors(vectors: tuple[int, int]) -> None:
    """The vector that a half lacks counts as zeros, and is not written."""
    channels, filters = (count * TARGET.lanes() for count in vectors)
    x, w = layer(25, channels, filters)
    assert worst(run(MatMul(), [x, w]), exactly(x, w), 1) < 5e-6
    random = np.random.default_rng(2)
    maps = [
        random.standard_normal((2, channels, 5, 3)).astype(np.float32),
        np.ascontiguousarray(w.T)[:, :, None, None],
        random.standard_normal(filters).astype(np.float32),
    ]
    (y,) = Conv().reference(*(each.astype(np.float64) for each in maps))
    added = random.standard_normal(y.shape).astype(np.float32)
    got = run(Conv(residual=True, activation=Activation("relu")), [*maps, added])
    np.testing.assert_allclose(got, np.maximum(y + added, 0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("place", [0, -1])
def test_a_pixel_that_is_not_finite_beside_a_lacking_vector(place: int) -> None:
    channels = 9 * TARGET.lanes()
    x, w = layer(6, channels, channels)
    x[3, place] = np.inf
    y = run(MatMul(), [x, w])
    assert np.isnan(y[3]).all()
    assert np.isfinite(np.delete(y, 3, 0)).all()


def test_channels_that_fill_no_vectors_and_few_are_left_to_plain_sums() -> None:
    lanes = TARGET.lanes()
    for channels, filters in ((lanes * 9 + 1, 128), (128, lanes * 9 - 1), (lanes * 3, 128), (128, lanes * 3)):
        x, w = layer(9, channels, filters)
        assert all(each.name != "strassen" for each in MatMul().lowerings(input_types([x, w], True), TARGET))


def test_weights_that_are_not_finite_are_left_to_plain_sums() -> None:
    for bad in (np.nan, np.inf, 3e38):
        x, w = layer(9, 64, 128)
        w[5, 5] = bad
        assert all(each.name != "strassen" for each in MatMul().lowerings(input_types([x, w], True), TARGET))
