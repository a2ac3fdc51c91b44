"""Constants of the cost model: the file is whole, is what estimates are made of, and choices depend on nothing else."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import numpy as np
import pytest

from cenote.codegen import cache
from cenote.core.target import Target
from cenote.core.types import TensorType
from cenote.kernels import constants
from cenote.kernels.constants import (
    CONSTANTS,
    DEFAULT,
    XEON_AVX512,
    ZEN3_AVX2,
    ZEN4_AVX512,
    CostConstants,
    kind_of,
    stored,
)
from cenote.ops.linear.gemm import Gemm
from tests.targets import LARGE, SMALL, anywhere

ZEN4 = replace(LARGE, halved=True)


def ranked(target: Target) -> list[str]:
    """The algorithms of one row by a matrix, the quickest by estimate first."""
    weights = TensorType.known(np.ones((1000, 1024), np.float32))
    found = Gemm(transpose_b=True).lowerings([TensorType.of(np.float32, (1, 1024)), weights], target)
    return [each.name for each in sorted(found, key=lambda each: each.seconds)]


def test_every_kind_has_all_constants_and_those_that_were_fitted_say_how() -> None:
    assert list(stored()) == [DEFAULT, ZEN4_AVX512, ZEN3_AVX2, XEON_AVX512] == list(CONSTANTS)
    for kind, record in stored().items():
        assert set(record["constants"]) == {field.name for field in fields(CostConstants)}
        pools = [rate for rates in CONSTANTS[kind].pools.values() for rate in rates]
        numbers = [x for x in vars(CONSTANTS[kind]).values() if isinstance(x, float)]
        assert all(math.isfinite(x) and x >= 0 for x in (*numbers, *pools, *CONSTANTS[kind].direct_shares))
        figures = record["figures"]
        if kind != DEFAULT:
            assert figures["machine"]
            assert figures["date"]
            assert figures["layers"] == sum(each["layers"] for each in figures["kinds"].values())
            assert figures["unfitted"]["share"] < figures["share"]
            lost = sum(count for _, _, count, _ in figures["missed"])
            assert figures["share"] == pytest.approx(1 - lost / figures["layers"])


def test_the_kind_follows_from_the_target() -> None:
    kinds = [kind_of(each) for each in (ZEN4, LARGE, anywhere("avx2"), SMALL)]
    assert kinds == [ZEN4_AVX512, XEON_AVX512, ZEN3_AVX2, DEFAULT]


def test_choices_follow_from_the_target_and_the_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    target = replace(ZEN4, l2_bytes=1 << 20)
    assert ranked(target) == ranked(target) == ["panels", "rows"]
    monkeypatch.setitem(CONSTANTS, ZEN4_AVX512, replace(CONSTANTS[ZEN4_AVX512], row_start=0.0))
    assert ranked(target) == ["rows", "panels"]


def test_plans_made_by_other_constants_are_stale(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("package")
    monkeypatch.setattr(cache, "_PACKAGE", folder)
    file = folder / constants.FILE.name
    file.write_text("{}")
    before = cache._state_of_files()
    file.write_text('{"other": 1}')
    assert cache._state_of_files() != before
