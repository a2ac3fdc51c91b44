"""Long rows, also past the caches: any start in memory, any length, nothing outside."""

from __future__ import annotations

import numpy as np
import pytest

import cenote.functional
from cenote.codegen import jit
from cenote.core.types import TensorType
from cenote.functional.dispatch import prepared_runner
from cenote.kernels.elementwise import elementwise
from cenote.ops.elementwise.binary import Mul
from cenote.ops.elementwise.cast import Cast
from cenote.ops.elementwise.compare import Compare
from cenote.ops.elementwise.unary import Exp
from cenote.ops.values import hostile, seeded
from tests.targets import TARGETS


@pytest.mark.parametrize("offset", [0, 1, 5, 15])
@pytest.mark.parametrize("shape", [(4096,), (16385,), (40000,), (3, 4099)])
@pytest.mark.parametrize("streamed", [0, 1 << 30])
def test_bits_and_bounds(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], offset: int, streamed: int
) -> None:
    monkeypatch.setattr(elementwise, "STREAMED", streamed)
    a, b = hostile(shape, seed=1), seeded(shape[-1:], 2)
    run = prepared_runner(Mul(), [TensorType(a.dtype, a.shape), TensorType(b.dtype, b.shape)], 1)[0]
    memory = np.full(a.size + 64, 7.0, np.float32)
    y = memory[16 + offset :][: a.size].reshape(shape)
    run([a, b], [y])
    with np.errstate(all="ignore"):
        assert np.array_equal(y, a * b, equal_nan=True)
    outside = np.concatenate((memory[: 16 + offset], memory[16 + offset + a.size :]))
    assert (outside == 7.0).all()


@pytest.mark.parametrize("streamed", [0, 1 << 30])
@pytest.mark.parametrize("offset", [0, 3, 4])
def test_narrower_results(monkeypatch: pytest.MonkeyPatch, streamed: int, offset: int) -> None:
    monkeypatch.setattr(elementwise, "STREAMED", streamed)
    x = np.linspace(0, 255, 50001, dtype=np.float32)[offset:]
    (y,) = prepared_runner(Cast(np.dtype(np.uint8)), [TensorType(x.dtype, x.shape)], 1)[0]([x], None)
    assert np.array_equal(y, x.astype(np.uint8))


@pytest.mark.parametrize("level", [target.name for target in TARGETS])
@pytest.mark.parametrize("offset", [0, 1, 37])
@pytest.mark.parametrize("size", [4096, 16384 + 63, 40000 + 17])
def test_comparisons_in_whole_registers(
    monkeypatch: pytest.MonkeyPatch, size: int, offset: int, level: str
) -> None:
    """Bytes of several vectors make up one store past the caches."""
    monkeypatch.setattr(elementwise, "STREAMED", 0)
    a, b = hostile((size,), seed=1), seeded((size,), 2)
    monkeypatch.setattr(jit, "host_target", lambda: jit.named_target(level))
    run = prepared_runner(Compare("greater"), [TensorType(x.dtype, x.shape) for x in (a, b)], 1)[0]
    memory = np.full(size + 256, 7, np.uint8)
    y = memory[64 + offset :][:size]
    run([a, b], [y.view(bool)])
    assert np.array_equal(y, a > b)
    assert (np.delete(memory, np.s_[64 + offset : 64 + offset + size]) == 7).all()


def test_bits_do_not_depend_on_the_start() -> None:
    """Elements before the first aligned vector get the bits that they get within one."""
    memory = np.zeros(5000 + 16, np.float32)
    x = seeded((5000,), 1) * 8
    results = []
    for offset in range(0, 16, 3):
        memory[offset : offset + 5000] = x
        results.append(np.asarray(cenote.functional.tanh(memory[offset : offset + 5000], threads=1)))
    assert all(np.array_equal(results[0], y) for y in results)


@pytest.mark.parametrize("level", [target.name for target in TARGETS])
@pytest.mark.parametrize("streamed", [0, 1 << 30])
@pytest.mark.parametrize(("size", "offset"), [(4096, 0), (4096 + 77, 5), (40000 + 31, 16)])
def test_vectors_side_by_side(
    monkeypatch: pytest.MonkeyPatch, size: int, offset: int, streamed: int, level: str
) -> None:
    """Long functions of long rows get the bits that they get in short ones."""
    monkeypatch.setattr(jit, "host_target", lambda: jit.named_target(level))
    monkeypatch.setattr(elementwise, "STREAMED", streamed)
    x = hostile((size,), seed=1)
    memory = np.full(size + 64, 7.0, np.float32)
    y = memory[16 + offset :][:size]
    run = prepared_runner(Exp(), [TensorType(x.dtype, x.shape)], 1)[0]
    run([x], [y])
    part = prepared_runner(Exp(), [TensorType(x.dtype, (100,))], 1)[0]
    for begin in range(0, size - 100, 100):
        (few,) = part([np.ascontiguousarray(x[begin : begin + 100])], None)
        assert few.tobytes() == y[begin : begin + 100].tobytes()
    assert (np.delete(memory, np.s_[16 + offset : 16 + offset + size]) == 7.0).all()
