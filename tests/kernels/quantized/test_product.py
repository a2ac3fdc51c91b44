"""Products of bytes against sums in int64: depths that are no multiple of four, zero points at both ends, numbers that
saturate VPMADDUBSW; more than 10^6 results of each lowering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from cenote.core.target import EMULATED, PAIRS, TILE_EXTENSIONS, Target, TileWays
from cenote.core.types import Array
from cenote.ops.quantization.quantized_products import MatMulInteger, extremes
from tests.codegen import bochs
from tests.harness import lowerings_of, run_lowering
from tests.targets import LARGE, TARGETS, anywhere

SIZES = ((1, 1, 1), (3, 5, 300), (64, 1023, 129), (131, 66, 1000), (130, 257, 1025))


def exact(a: Array, b: Array, a_zero: Array, b_zero: Array) -> Array:
    left, right = a.astype(np.int64) - a_zero.astype(np.int64), b.astype(np.int64) - b_zero.astype(np.int64)
    return (left @ right).astype(np.int32)


def on_tiles(target: Target) -> Target:
    return replace(target, tiles=TileWays(target.tiles.int8 or EMULATED))


def check(arrays: tuple[Array, ...], target: Target, names: Sequence[str], constants: bool) -> int:
    """Run the lowerings of these names, whole and in pieces, amid both kinds of junk; return the number of results."""
    op, want = MatMulInteger(), exact(*arrays)
    found = {each.name: each for each in lowerings_of(op, arrays, target, constants)}
    assert {*found} >= {*names}
    for index, name in enumerate(names):
        chunk, junk = (0, 0xFF) if index % 2 else (1, 0x5A)
        (got,) = run_lowering(op, found[name], arrays, target, constants=constants, chunk=chunk, junk=junk)
        np.testing.assert_array_equal(got, want, err_msg=name)
    return want.size


def operands(number: int, m: int, k: int, n: int, a_type: type, b_type: type) -> tuple[Array, ...]:
    """Matrices and their zero points, which lie at both ends."""
    limits = np.iinfo(a_type)
    a_zero = np.array((limits.min, limits.max)[number % 2], a_type)
    b_zero = np.array((0, np.iinfo(b_type).max)[number // 2 % 2], b_type)
    return extremes((m, k), number, a_type), extremes((k, n), number + 9, b_type), a_zero, b_zero


@pytest.mark.parametrize("constants", [True, False])
@pytest.mark.parametrize("tiles", [False, True])
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_sums_are_exact(target: Target, tiles: bool, constants: bool) -> None:
    results = 0
    for number, sizes in enumerate(SIZES):
        for types in ((np.uint8, np.int8), (np.int8, np.uint8)):
            arrays = operands(number, *sizes, *types)
            if tiles:
                results += check(arrays, on_tiles(target), ["quantized_tiles"], constants)
                continue
            wide = target.dots == PAIRS and sizes[0] >= 64
            results += check(arrays, target, ["quantized", *["quantized_wide"] * wide], constants)
    assert results > 500_000


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize(
    ("m", "k", "n", "l2_bytes"),
    [(33, 64, 32, 2 << 20), (40, 63, 33, 2 << 20), (70, 700, 95, 16 << 10), (1, 129, 2100, 8 << 10)],
)
def test_depths_that_outgrow_the_level_2_cache_are_copied_in_parts(
    m: int, k: int, n: int, l2_bytes: int, target: Target
) -> None:
    """Sums are kept from one part to the next, of at most 64 steps of columns."""
    for number in range(2):
        arrays = operands(number, m, k, n, np.int8, np.uint8)
        cut = replace(on_tiles(target), l2_bytes=l2_bytes)
        check(arrays, cut, ["quantized_tiles"], constants=bool(number))


@pytest.mark.parametrize(
    "shapes", [((2, 3, 40, 70), (2, 3, 70, 50)), ((3, 33, 64), (64, 40)), ((2, 1, 5, 8), (3, 8, 9))]
)
def test_batches_on_tiles(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """Batches of both matrices, of one, and of each along another axis; zero points of columns."""
    a, b = extremes(shapes[0], 1, np.uint8), extremes(shapes[1], 2, np.int8)
    zeros = np.array(200, np.uint8), np.arange(b.shape[-1], dtype=np.int8)
    for constants in (True, False):
        check((a, b, *zeros), on_tiles(TARGETS[0]), ["quantized_tiles"], constants)


@pytest.mark.skipif(not bochs.PATH, reason=bochs.ABSENT)
@pytest.mark.parametrize("constants", [True, False])
@pytest.mark.parametrize(("m", "k", "n"), [(3, 5, 300), (33, 64, 32), (70, 131, 50), (1, 1, 1)])
def test_sums_are_exact_by_the_instructions_of_amx(m: int, k: int, n: int, constants: bool) -> None:
    target = replace(anywhere("avx512"), tiles=TILE_EXTENSIONS["avx512"], l2_bytes=4 << 10 << (m != 70) * 9)
    for types in ((np.uint8, np.int8), (np.int8, np.uint8)):
        arrays = operands(2, m, k, n, *types)
        found = lowerings_of(MatMulInteger(), arrays, target, constants)
        (lowering,) = (each for each in found if each.name == "quantized_tiles")
        (got,) = run_lowering(
            MatMulInteger(), lowering, arrays, target, constants=constants, native=bochs.amx_call
        )
        np.testing.assert_array_equal(got, exact(*arrays))


@pytest.mark.parametrize(
    ("m", "k", "n", "constants", "wanted"),
    [
        (197, 768, 3072, True, "quantized_tiles"),
        (384, 384, 384, False, "quantized_tiles"),
        (197, 64, 197, False, "quantized"),
        (1, 2048, 1000, True, "quantized"),
        (4, 256, 256, True, "quantized"),
    ],
)
def test_tiles_are_chosen_for_many_rows(m: int, k: int, n: int, constants: bool, wanted: str) -> None:
    target = replace(LARGE, dots="avx512vnni", tiles=TILE_EXTENSIONS["avx512"])
    found = lowerings_of(MatMulInteger(), operands(0, m, k, n, np.uint8, np.int8), target, constants)
    assert min(found, key=lambda each: each.seconds).name == wanted


def test_pairs_give_the_same_bits() -> None:
    """What a CPU without an instruction for four products computes, on this one."""
    arrays = (extremes((64, 131), 1, np.uint8), extremes((131, 100), 2, np.int8), np.array(9, np.uint8), None)
    for target in TARGETS:
        plain = replace(target, dots=PAIRS)
        for lowering in lowerings_of(MatMulInteger(), arrays, plain, True):
            (got,) = run_lowering(MatMulInteger(), lowering, arrays, plain)
            np.testing.assert_array_equal(got, exact(*arrays[:3], np.array(0)))
