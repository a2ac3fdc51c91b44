"""Kernels that measure the machine really do what they are measured for."""

from __future__ import annotations

import numpy as np
import pytest

from cenote.codegen.values import Scalar
from cenote.core.types import Array, TensorType
from cenote.kernels.base import Call, KernelSpec
from cenote.kernels.driver import driver_abi
from cenote.kernels.launch import Launcher
from cenote.kernels.machine import (
    CHAINS,
    LINKS,
    ChainSpec,
    CopySpec,
    MultiplyAddSpec,
    NothingSpec,
    ReadSpec,
    UpdateSpec,
)
from cenote.runtime.program import Program
from cenote.runtime.steps import KernelStep, Slot, SlotKind
from tests.targets import TARGETS

ELEMENTS = 1024  # of each of two items: a multiple of what a turn takes, on every target
X, Y = Slot(SlotKind.INPUT, 0), Slot(SlotKind.OUTPUT, 0)


def run(spec: KernelSpec, words: tuple[int | Slot, ...], x: Array, y: Array, target: object) -> Array:
    """Two items of a kernel."""
    call = Call(spec, ())
    launcher = Launcher([call], target)  # type: ignore[arg-type]
    ((symbol, address),) = launcher.kernels(call)
    step = KernelStep(symbol, symbol, address, words, 2, 1, 0)
    types = TensorType(x.dtype, x.shape), TensorType(y.dtype, y.shape)
    program = Program((step,), types[:1], types[1:], (), 0, driver_abi(), 1)
    program.run([x], [y])
    return y


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_multiply_adds(dtype: str, target: object) -> None:
    x = np.array([0.5, 0.25], dtype)
    made = run(MultiplyAddSpec(Scalar.of(dtype).name), (X, Y, 7), x, np.zeros(2, dtype), target)
    for factor, found in zip(x.tolist(), made.tolist(), strict=True):
        total = factor
        for _ in range(7):
            total = total * factor + factor
        lanes = target.lanes(dtype)  # type: ignore[attr-defined]
        assert found == pytest.approx(total * CHAINS * lanes, rel=1e-6)


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("streams", [False, True])
def test_every_element_is_read_every_round(streams: bool, target: object) -> None:
    x = np.random.default_rng(0).integers(-1000, 1000, 2 * ELEMENTS).astype(np.int32)
    made = run(ReadSpec(streams), (X, Y, ELEMENTS, 3), x, np.zeros(2, np.int32), target)
    assert made.tolist() == [3 * int(x[:ELEMENTS].sum()), 3 * int(x[ELEMENTS:].sum())]


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_the_first_half_is_copied_to_the_second(target: object) -> None:
    x = np.random.default_rng(0).integers(-1000, 1000, 2 * ELEMENTS).astype(np.int32)
    wanted = x.copy().reshape(2, 2, -1)
    wanted[:, 1] = wanted[:, 0]
    run(CopySpec(), (X, ELEMENTS, 2), x, np.zeros(2, np.int32), target)
    np.testing.assert_array_equal(x, wanted.ravel())


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_every_element_is_updated_every_round(target: object) -> None:
    x = np.random.default_rng(0).integers(-1000, 1000, 2 * ELEMENTS).astype(np.int32)
    before = x.copy()
    run(UpdateSpec(), (X, ELEMENTS, 3), x, np.zeros(2, np.int32), target)
    np.testing.assert_array_equal(x, before + 3)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_a_chain_waits_for_itself(target: object) -> None:
    x = np.array([3, 7], np.int64)
    made = run(ChainSpec(), (X, Y, 2), x, np.zeros(2, np.int64), target)
    for step, found in zip(x.tolist(), made.tolist(), strict=True):
        value = step
        for _ in range(2 * LINKS):
            value = (value + step) ^ step
        assert found == value
    run(NothingSpec(), (), x, np.zeros(2, np.int64), target)
