"""Products of tiles by the instructions of AMX, on a CPU that Bochs emulates: the rule in NumPy, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from cenote.core.target import TILE_EXTENSIONS, Target
from cenote.core.types import Array
from tests.codegen import bochs
from tests.codegen.tile_products import (
    BYTES,
    TwoProducts,
    byte_case,
    byte_products,
    float_case,
    float_products,
    products,
)
from tests.targets import anywhere

pytestmark = pytest.mark.skipif(not bochs.PATH, reason=bochs.ABSENT)
WAYS = TILE_EXTENSIONS["avx512"]


def run(source: TwoProducts, target: Target, words: Sequence[Array | int], items: int) -> None:
    bochs.run(source, target, words, items)


@pytest.mark.parametrize("kind", BYTES)
def test_sums_of_bytes_are_exact(kind: str) -> None:
    x, w, y = byte_case(kind, 6)
    found = products(kind, WAYS.int8, anywhere("avx512"), x, w, y, run)
    np.testing.assert_array_equal(found, byte_products(x, w, y))


@pytest.mark.parametrize(
    ("kind", "spread"), [("bf16", 2), ("bf16", 14), ("bf16", 60), ("f16", 2), ("f16", 20)]
)
def test_sums_follow_the_rule(kind: str, spread: int) -> None:
    x, w, y = float_case(kind, spread, 20)
    found = products(kind, WAYS.bf16 if kind == "bf16" else WAYS.f16, anywhere("avx512"), x, w, y, run)
    want = float_products(kind, x, w, y)
    known = ~np.isnan(want)
    np.testing.assert_array_equal(np.isnan(found), ~known)
    np.testing.assert_array_equal(found[known].view(np.int32), want[known].view(np.int32))


def test_what_lies_beyond_the_arrays_is_not_read() -> None:
    """One item more than there is memory for."""
    x, w, y = byte_case("u8s8", 6)

    def more(source: TwoProducts, target: Target, words: Sequence[Array | int], items: int) -> None:
        bochs.run(source, target, words, items + 100)

    with pytest.raises(bochs.Fault, match="page fault") as fault:
        products("u8s8", WAYS.int8, anywhere("avx512"), x, w, y, more)
    assert fault.value.number == 14
