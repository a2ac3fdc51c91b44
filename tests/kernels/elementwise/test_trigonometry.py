"""Sines, cosines and inverse functions beside NumPy's in more precision: the float32 way, the float64 one, and their
border."""

from __future__ import annotations

import numpy as np
import pytest

from cenote.codegen.builder import Kernel
from cenote.codegen.values import Value
from cenote.core.types import Array
from cenote.kernels.elementwise.trigonometry import FORMULAS
from tests.codegen.numbers import SPECIAL, run, ulps
from tests.targets import TARGETS, Target

RNG = np.random.default_rng(5)


def angles() -> Array:
    """Small ones, those near multiples of pi/2, which the reduction must get right, and some around its limit."""
    multiples = (np.arange(-1020, 1021) * (np.pi / 2)).astype(np.float32)
    near = [np.nextafter(multiples, np.float32(end)) for end in (-np.inf, np.inf)]
    tiny = 10.0 ** RNG.uniform(-44, 0, 20_000) * RNG.choice((-1, 1), 20_000)
    parts = [multiples, *near, tiny, RNG.uniform(-7, 7, 200_000), RNG.uniform(-1700, 1700, 200_000)]
    special = [
        0.0,
        -0.0,
        1600.0,
        -1600.0,
        np.nextafter(np.float32(1600), np.float32(np.inf)),
        1e7,
        -3e9,
        1e30,
    ]
    return np.concatenate([*parts, special]).astype(np.float32)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_every_range(target: Target, name: str) -> None:
    def emit(k: Kernel, x: Value) -> Value:
        return FORMULAS[name].emit(k, x)

    emit.__name__ = name  # of the kernel
    x = angles()
    got = run(emit, [x], target)
    truth = getattr(np, name)(x.astype(np.longdouble)).astype(np.float64)
    assert ulps(got, truth) <= (1.3 if target.has_fma else 0.51)
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan]
    with np.errstate(invalid="ignore"):
        wanted = getattr(np, name)(np.array(ends, np.float32))
    found = run(emit, [np.array(ends, np.float32)], target)
    assert np.array_equal(found, wanted, equal_nan=True)
    assert np.array_equal(np.signbit(found[:2]), np.signbit(wanted[:2]))


INVERSE = {"asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atanh": np.arctanh}


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("name", INVERSE)
def test_inverse_functions(target: Target, name: str) -> None:
    def emit(k: Kernel, x: Value) -> Value:
        return FORMULAS[name].emit(k, x)

    emit.__name__ = name
    ends = np.array([0.5, 1.0, 2.0, 0.0], np.float32)
    near = np.concatenate([np.nextafter(ends, np.float32(end)) for end in (-np.inf, np.inf)])
    size = np.concatenate(
        [ends, near, RNG.uniform(0, 3, 200_000), 10.0 ** RNG.uniform(-44, 38, 50_000), SPECIAL]
    )
    x = np.concatenate([size, -size]).astype(np.float32)
    with np.errstate(all="ignore"):
        truth = INVERSE[name](x.astype(np.float64))
    got = run(emit, [x], target)
    assert ulps(got, truth) <= (1.6 if target.has_fma else 2.5)
    zero = got == 0
    assert np.array_equal(np.signbit(got[zero]), np.signbit(truth[zero]))
    for lanes in (1, 2 * target.lanes()):
        assert np.array_equal(run(emit, [x], target, lanes=lanes), got, equal_nan=True)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_large_angles(target: Target, name: str) -> None:
    """All exponents beyond 1e8, beside NumPy's in extended precision; a large angle changes no other lane."""

    def emit(k: Kernel, x: Value) -> Value:
        return FORMULAS[name].emit(k, x)

    emit.__name__ = name
    mantissas = RNG.integers(0, 1 << 23, (102, 500), np.uint32)
    exponents = np.arange(127 + 26, 255, dtype=np.uint32)[:, None]
    signs = RNG.integers(0, 2, mantissas.shape, np.uint32)
    x = (signs << 31 | exponents << 23 | mantissas).view(np.float32).ravel()
    truth = getattr(np, name)(x.astype(np.longdouble)).astype(np.float64)
    assert ulps(run(emit, [x], target), truth) <= 0.51
    small = RNG.uniform(-2000, 2000, x.size).astype(np.float32)
    mixed = np.where(np.arange(x.size) % 3 == 1, x, small)
    found, alone = run(emit, [mixed], target), run(emit, [small], target)
    at = np.arange(x.size) % 3 != 1
    assert found[at].tobytes() == alone[at].tobytes()
