"""Normalisation on arrays: against PyTorch and float64, in place, in little memory, and what is refused."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.codegen import jit
from cenote.core.errors import ArgumentError, CenoteError, DTypeError, ShapeError
from cenote.core.types import BFLOAT16, Array, TensorType
from cenote.functional import callers
from cenote.kernels.elementwise import statistics
from cenote.ops.normalization.layer_normalization import LayerNormalization
from cenote.ops.values import seeded

X = seeded((3, 6, 5, 7), 1)
C, D = seeded((6,), 2), seeded((6,), 3)
ROW = seeded((5, 7), 4), seeded((5, 7), 5)


def positive() -> Array:
    return np.abs(seeded((6,), 6)) + np.float32(1)


def fitting(x: Array, *parameters: Array) -> list[Array]:
    """Float32 beside 16-bit types, float64 beside float64."""
    return [p.astype(np.float64) if x.dtype == np.float64 else p for p in parameters]


IN_PLACE: dict[str, Callable[..., Any]] = {
    "layer_norm": lambda x, **more: F.layer_norm(x, (7,), **more),
    "rms_norm": lambda x, **more: F.rms_norm(x, (7,), **more),
    "group_norm": lambda x, **more: F.group_norm(x, 2, *fitting(x, C, D), **more),
    "instance_norm": lambda x, **more: F.instance_norm(x, **more),
    "batch_norm": lambda x, **more: F.batch_norm(x, *fitting(x, C, positive(), C, D), **more),
    "batch_norm of a batch": lambda x, **more: F.batch_norm(x, None, None, *fitting(x, C, D), True, **more),
    "normalize": lambda x, **more: F.normalize(x, 2, 1, **more),
    "softmax": lambda x, **more: F.softmax(x, 1, **more),
    "log_softmax": lambda x, **more: F.log_softmax(x, -1, **more),
}


@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, BFLOAT16, np.float64])
def test_in_place(name: str, dtype: Any) -> None:
    """The same bits as into other memory, on the first call and on the second."""
    x = X.astype(dtype)
    wanted = IN_PLACE[name](x)
    for _ in range(2):
        y = x.copy()
        assert IN_PLACE[name](y, out=y) is y
        assert np.array_equal(y.view(np.uint8), wanted.view(np.uint8))


def test_out_that_is_only_partly_the_input_is_refused() -> None:
    memory = seeded((9, 8))
    for x, out in ((memory[:8], memory[1:]), (memory[:8], memory[:8, ::-1])):
        with pytest.raises(ArgumentError, match="overlaps"):
            F.layer_norm(x, (8,), out=out)
    weight = memory[0]
    with pytest.raises(ArgumentError, match="overlaps"):
        F.layer_norm(memory[:1], (8,), weight, out=memory[:1])
    x = seeded((2, 6, 4))
    with pytest.raises(ArgumentError, match="overlaps"):  # its windows reach over channels already written
        F.local_response_norm(x, 3, out=x)


def test_layer_norm_in_place_takes_no_memory() -> None:
    """[4096, 4096] float16 with out=input: at most 64 KB per thread beside the arrays of the caller.

    NumPy's arrays and the runtime's buffers are seen by tracemalloc; what kernels use beyond them is their scratch.
    """
    x = np.zeros((4096, 4096), np.float16)
    weight = np.ones(4096, np.float16)
    F.layer_norm(x, (4096,), weight, weight, out=x)
    tracemalloc.start()
    F.layer_norm(x, (4096,), weight, weight, out=x)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most <= 64 << 10
    types = [TensorType.of(np.float16, shape) for shape in ((4096, 4096), (4096,), (4096,))]
    (lowering,) = LayerNormalization().lowerings(types, jit.host_target())
    assert not lowering.temporaries
    for threads in (1, 2):
        call = partial(F.layer_norm, x, (4096,), weight, weight, out=x, threads=threads)
        call()
        # The least of several: the system counts pages in batches, and others' memory in this process grows too.
        assert min(high_water(call) for _ in range(5)) <= (64 << 10) * threads


def high_water(call: Callable[[], object]) -> int:
    """Bytes by which the process grew at most while it ran: the system's own mark, set back before."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pytest.skip("the system does not set its marks back")
    before = resident("VmRSS")
    call()
    return resident("VmHWM") - before


def resident(mark: str) -> int:
    """One of the marks of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(mark))


def test_float16_statistics_neither_overflow_nor_lose_bits() -> None:
    """Sums in float16 would be infinite from 65,504 on, and stop growing at 2,048 ones."""
    x = np.full((2, 4096), 300, np.float16)
    x[:, ::2] = 100
    y = F.layer_norm(x, (4096,))
    np.testing.assert_allclose(
        y.astype(np.float64), np.where(np.arange(4096) % 2, 1.0, -1.0) * np.ones((2, 1)), atol=1e-3
    )
    assert np.isfinite(F.rms_norm(x, (4096,))).all()
    np.testing.assert_allclose(F.softmax(np.zeros((1, 4096), np.float16)), 1 / 4096)


def test_a_mean_far_from_zero_costs_nothing() -> None:
    x = seeded((4, 10000), 1).astype(np.float64) + 1e4
    single = x.astype(np.float32)
    data = single.astype(np.float64)
    wanted = (data - data.mean(1, keepdims=True)) / np.sqrt(data.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(F.layer_norm(single, (10000,)), wanted, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize(
    "function",
    [lambda x, **more: F.layer_norm(x, x.shape[1:], **more), lambda x, **more: F.softmax(x, 1, **more)],
)
@pytest.mark.parametrize("columns", [3, 70, 70_001])
def test_past_the_caches(
    function: Callable[..., Any],
    dtype: Any,
    columns: int,
    prepared_anew: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Results that are written past the caches have the same bits, wherever rows start in a line, and in place."""
    x = seeded((3, columns), 1).astype(dtype)
    wanted = function(x)
    monkeypatch.setattr(statistics, "PAST_CACHES", 0)
    callers.forget()
    for offset in (0, 1, 5):
        memory = np.full(x.size + offset + 9, 77, dtype)
        out = memory[offset : offset + x.size].reshape(x.shape)
        function(x, out=out)
        assert np.array_equal(out, wanted)
        assert (memory[:offset] == 77).all()
        assert (memory[offset + x.size :] == 77).all()
    function(x, out=x)
    assert np.array_equal(x, wanted)


@pytest.mark.parametrize("name", IN_PLACE)
def test_any_number_of_threads_gives_the_same_bits(name: str) -> None:
    x = seeded((64, 6, 31, 7), 9)
    many = IN_PLACE[name](x, threads=2)
    assert np.array_equal(IN_PLACE[name](x, threads=1), many)


def test_batch_norm_changes_running_statistics_as_pytorch() -> None:
    torch = pytest.importorskip("torch")
    for shape in ((3, 6, 5, 7), (9, 6), (4, 6, 70)):
        x, mean, variance = seeded(shape, 8), C.copy(), positive()
        theirs = [torch.from_numpy(a.copy()) for a in (mean, variance)]
        y = F.batch_norm(x, mean, variance, C, D, True, 0.3)
        wanted = torch.nn.functional.batch_norm(
            torch.from_numpy(x), *theirs, torch.from_numpy(C), torch.from_numpy(D), True, 0.3
        )
        for ours, other in zip((y, mean, variance), (wanted, *theirs), strict=True):
            np.testing.assert_allclose(ours, other.numpy(), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_even_response_windows_lean_as_pytorch_s(size: int) -> None:
    torch = pytest.importorskip("torch")
    wanted = torch.nn.functional.local_response_norm(torch.from_numpy(X * 9), size, 1.0)
    np.testing.assert_allclose(F.local_response_norm(X * 9, size, 1.0), wanted.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("p", [0, 1, 2, 3.5, -1, np.inf, -np.inf])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_normalize_by_any_norm(p: float, dim: int) -> None:
    torch = pytest.importorskip("torch")
    wanted = torch.nn.functional.normalize(torch.from_numpy(X), p, dim)
    np.testing.assert_allclose(F.normalize(X, p, dim), wanted.numpy(), rtol=1e-5, atol=1e-6)


def test_lines_of_nothing() -> None:
    """Zeros and infinities: documented answers, no warnings."""
    assert not F.normalize(np.zeros((2, 3, 4), np.float32)).any()
    assert not F.normalize(np.zeros((2, 3), np.float32), eps=0.0).any()
    assert np.isnan(F.softmax(np.full((1, 100000), -np.inf, np.float32), 1)).all()
    x = np.full((1, 100000), -np.inf, np.float32)
    x[0, 77777] = -1000
    y = F.softmax(x, 1)
    assert y[0, 77777] == 1
    assert y.sum() == 1
    assert F.softmax(np.float32(3)) == 1
    assert F.layer_norm(np.zeros((0, 3), np.float32), 3).shape == (0, 3)
    assert F.softmax(np.zeros((3, 0), np.float32), 1).shape == (3, 0)


REFUSED: list[tuple[Callable[[], Any], type[CenoteError], str]] = [
    (lambda: F.layer_norm(X, (5,)), ShapeError, "normalized_shape"),
    (lambda: F.layer_norm(X, ()), ArgumentError, "normalized_shape"),
    (lambda: F.layer_norm(X, (7,), C), ShapeError, "weight"),
    (lambda: F.layer_norm(X, (7,), None, C), ShapeError, "weight"),
    (lambda: F.layer_norm(X, (7,), eps=float("nan")), ArgumentError, "eps"),
    (lambda: F.layer_norm(X.astype(np.int32), (7,)), DTypeError, "float"),
    (lambda: F.rms_norm(X, (7,), C), ShapeError, "weight"),
    (lambda: F.group_norm(X, 4), ArgumentError, "num_groups"),
    (lambda: F.group_norm(X, 0), ArgumentError, "num_groups"),
    (lambda: F.group_norm(X, 2, ROW[0]), ShapeError, "channel"),
    (lambda: F.instance_norm(X[0, 0]), ShapeError, "axes"),
    (lambda: F.batch_norm(X, None, None), ArgumentError, "running_mean"),
    (lambda: F.batch_norm(X, C, C[:5]), ShapeError, "channel"),
    (lambda: F.batch_norm(X[:1, :, 0, 0], C, C, training=True), ShapeError, "more than one value"),
    (lambda: F.local_response_norm(X, 0), ArgumentError, "size"),
    (lambda: F.local_response_norm(X[0, 0], 3), ShapeError, "3D"),
    (lambda: F.normalize(X, dim=4), ShapeError, "dim"),
    (lambda: F.normalize(X, eps=-1.0), ArgumentError, "least norm"),
    (lambda: F.softmax(X, 4), ShapeError, "dim"),
    (lambda: F.softmax(X, 1.0), ArgumentError, "dim"),  # type: ignore[arg-type]  # on purpose
    (lambda: F.softmax(np.arange(3)), DTypeError, "float"),
    (lambda: F.softmax(X, 0, dtype="nonsense"), ArgumentError, "dtype"),
]


@pytest.mark.parametrize(("ask", "error", "message"), REFUSED)
def test_refusals(ask: Callable[[], Any], error: type[CenoteError], message: str) -> None:
    with pytest.raises(error, match=message):
        ask()


def test_calls_from_several_threads() -> None:
    wanted, wrong = F.layer_norm(X, (5, 7), *ROW), []

    def work() -> None:
        for _ in range(50):
            if not np.array_equal(F.layer_norm(X, (5, 7), *ROW), wanted):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
