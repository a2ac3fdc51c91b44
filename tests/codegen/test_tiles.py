"""Products of tiles: the rule in NumPy, on every target, and in both ways."""

from __future__ import annotations

import numpy as np
import pytest

from cenote.codegen import jit
from cenote.codegen.tiles import ROWS, WORDS
from cenote.core.target import EMULATED, TILE_EXTENSIONS, Target
from cenote.core.types import BFLOAT16
from tests.codegen.tile_products import (
    BYTES,
    KINDS,
    TwoProducts,
    byte_case,
    byte_products,
    float_case,
    float_products,
    products,
)
from tests.targets import TARGETS, anywhere


def way_of(target: Target, kind: str) -> str:
    ways = target.tiles
    return ways.bf16 if kind == "bf16" else ways.f16 if kind == "f16" else ways.int8


def ways(target: Target, kind: str) -> list[str]:
    """Both ways where the machine has the extension."""
    return [*dict.fromkeys((way_of(target, kind) or EMULATED, EMULATED))]


@pytest.mark.parametrize("kind", BYTES)
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_sums_of_bytes_are_exact(target: Target, kind: str) -> None:
    x, w, y = byte_case(kind, 6)
    for way in ways(target, kind):
        found = products(kind, way, target, x, w, y)
        np.testing.assert_array_equal(found, byte_products(x, w, y), err_msg=way)


@pytest.mark.parametrize(
    ("kind", "spread"), [("bf16", 2), ("bf16", 14), ("bf16", 60), ("f16", 2), ("f16", 20)]
)
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_sums_follow_the_rule(target: Target, kind: str, spread: int) -> None:
    x, w, y = float_case(kind, spread, 20)
    want = float_products(kind, x, w, y)
    for way in ways(target, kind):
        found = products(kind, way, target, x, w, y)
        known = ~np.isnan(want)
        np.testing.assert_array_equal(np.isnan(found), ~known)
        np.testing.assert_array_equal(found[known].view(np.int32), want[known].view(np.int32), err_msg=way)


@pytest.mark.parametrize("kind", ["bf16", "f16"])
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_sums_of_special_numbers(target: Target, kind: str) -> None:
    """NaN, infinities, zeros of both signs, and numbers below and just above the smallest normal one, one in 16."""
    random, dtype = np.random.default_rng(4), BFLOAT16 if kind == "bf16" else np.float16
    special = [np.nan, np.inf, -np.inf, -0.0, 6e-8, -6e-8, 6.2e-5, 65504.0]
    # Products beyond the range of normal numbers are rounded by themselves where there is no fused multiply-add.
    special += [1e-39, -1e-39, 1.5e-38, -1.5e-38, 3e38, 2e-20] * (kind == "bf16" and target.has_fma)
    with np.errstate(all="ignore"):
        x, w, y = (
            np.where(
                random.random(shape) < 1 / 16, random.choice(special, shape), random.choice([0.0, 1.0], shape)
            )
            for shape in ((30, 2, ROWS, 32), (30, 2, 32, WORDS), (30, ROWS, WORDS))
        )
        x, w, y = x.astype(dtype), w.astype(dtype), y.astype(np.float32)
        want = float_products(kind, x, w, y)
    for way in ways(target, kind):
        found = products(kind, way, target, x, w, y)
        np.testing.assert_array_equal(found, want, err_msg=way)
        known = ~np.isnan(want)
        assert 0.05 < known.mean() < 0.95
        np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(want)[known], err_msg=way)


@pytest.mark.parametrize("kind", KINDS)
def test_tiles_become_their_instructions(kind: str) -> None:
    """Compiled and looked at on any x86-64 machine, whether it has the extension or not."""
    if not jit.host_target().triple.startswith("x86"):
        pytest.skip("LLVM here does not compile for x86-64")
    target = anywhere("avx512")
    extensions = TILE_EXTENSIONS["avx512"]
    way = extensions.bf16 if kind == "bf16" else extensions.f16 if kind == "f16" else extensions.int8
    code = jit.assembly(TwoProducts(kind, way).emit(target))
    names = [line.split()[0] for line in code.splitlines() if line.startswith("\t") and line.strip()]
    product = {
        "u8s8": "busd",
        "s8s8": "bssd",
        "u8u8": "buud",
        "s8u8": "bsud",
        "bf16": "bf16ps",
        "f16": "fp16ps",
    }[kind]
    assert [name for name in names if name.startswith(("t", "ldtile", "sttile")) and name != "testq"] == [
        "ldtilecfg",
        "tileloadd",
        *["tileloadd", "tileloadd", f"tdp{product}"] * 2,
        "tilestored",
        "tilerelease",
    ]
