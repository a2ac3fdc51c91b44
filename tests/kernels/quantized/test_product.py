"""Products of bytes against sums in int64: depths that are no multiple of four, zero points at both ends, numbers that
saturate VPMADDUBSW; more than 10^6 results in all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cenote.core.target import PAIRS, Target
from cenote.core.types import Array
from cenote.ops.quantization.quantized_products import MatMulInteger, extremes
from tests.harness import lowerings_of, run_lowering
from tests.targets import TARGETS

SIZES = ((1, 1, 1), (3, 5, 300), (64, 1023, 129), (131, 66, 1000), (130, 257, 1025))


def exact(a: Array, b: Array, a_zero: Array, b_zero: Array) -> Array:
    left, right = a.astype(np.int64) - a_zero.astype(np.int64), b.astype(np.int64) - b_zero.astype(np.int64)
    return (left @ right).astype(np.int32)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_sums_are_exact(target: Target) -> None:
    results = 0
    for number, (m, k, n) in enumerate(SIZES):
        for a_type, b_type in ((np.uint8, np.int8), (np.int8, np.uint8)):
            a, b = extremes((m, k), number, a_type), extremes((k, n), number + 9, b_type)
            limits = np.iinfo(a_type)
            a_zero = np.array((limits.min, limits.max)[number % 2], a_type)
            b_zero = np.array((0, np.iinfo(b_type).max)[number // 2 % 2], b_type)
            arrays = (a, b, a_zero, b_zero)
            for constants in (True, False):
                offered = lowerings_of(MatMulInteger(), arrays, target, constants)
                assert len(offered) == 1 + (target.dots == PAIRS and m >= 64)
                for lowering in offered:
                    (got,) = run_lowering(MatMulInteger(), lowering, arrays, target, constants=constants)
                    np.testing.assert_array_equal(got, exact(*arrays))
                    results += got.size
    assert results > 10**6


def test_pairs_give_the_same_bits() -> None:
    """What a CPU without an instruction for four products computes, on this one."""
    arrays = (extremes((64, 131), 1, np.uint8), extremes((131, 100), 2, np.int8), np.array(9, np.uint8), None)
    for target in TARGETS:
        plain = replace(target, dots=PAIRS)
        for lowering in lowerings_of(MatMulInteger(), arrays, plain, True):
            (got,) = run_lowering(MatMulInteger(), lowering, arrays, plain)
            np.testing.assert_array_equal(got, exact(*arrays[:3], np.array(0)))
