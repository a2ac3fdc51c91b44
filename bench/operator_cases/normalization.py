"""Normalisation and softmax. Results go to memory that is used again where an engine can be told so."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from bench.operator_cases import OperatorCase
from bench.operator_cases.peers import by_cenote, by_numpy, by_onnxruntime, by_torch

SEED = 12


@cache
def noise(shape: tuple[int, ...], dtype: str = "float32", seed: int = SEED) -> np.ndarray:
    """Standard normal numbers."""
    made: np.ndarray = np.random.default_rng(seed).standard_normal(shape, np.float32).astype(dtype)
    return made


def again(function: Callable[[np.ndarray], Any], x: np.ndarray) -> Callable[[], Any]:
    """A call whose result goes to one array, time after time."""
    out = np.empty_like(x)
    return lambda: function(out)


def layer_norm(shape: tuple[int, int], dtype: str) -> OperatorCase:
    """Rows of a matrix, with weight and bias."""
    columns = shape[1]

    def numpy(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> Any:
        def run() -> np.ndarray:
            wide = x.astype(np.float32)
            moved = wide - wide.mean(1, keepdims=True)
            scale = 1.0 / np.sqrt(np.square(moved).mean(1, keepdims=True) + 1e-5)
            result: np.ndarray = (moved * scale * weight + bias).astype(x.dtype)
            return result

        return run

    def cenote(f: Any, threads: int, x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> Any:
        return again(lambda out: f.layer_norm(x, (columns,), weight, bias, out=out, threads=threads), x)

    return OperatorCase(
        f"layer_norm {shape[0]}x{columns} {dtype}",
        lambda: (noise(shape, dtype), noise((columns,), dtype, 2), noise((columns,), dtype, 3)),
        {
            "cenote": by_cenote(cenote),
            "numpy": by_numpy(numpy),
            "torch": by_torch(
                lambda torch, x, w, b: lambda: torch.nn.functional.layer_norm(x, (columns,), w, b)
            ),
            "onnxruntime": by_onnxruntime("LayerNormalization", {"axis": -1}),
        },
        1e-5 if dtype == "float32" else 2e-3,
        2 * int(np.prod(shape)) * np.dtype(dtype).itemsize,
    )


def softmax(shape: tuple[int, int], dtype: str = "float32") -> OperatorCase:
    """Along the rows of a matrix."""

    def numpy(x: np.ndarray) -> Any:
        def run(out: np.ndarray) -> np.ndarray:
            np.subtract(x, x.max(1, keepdims=True), out=out)
            np.exp(out, out=out)
            return np.divide(out, out.sum(1, keepdims=True, dtype=np.float32), out=out)

        return again(run, x)

    return OperatorCase(
        f"softmax {shape[0]}x{shape[1]} {dtype}",
        lambda: (noise(shape, dtype),),
        {
            "cenote": by_cenote(
                lambda f, threads, x: again(lambda out: f.softmax(x, -1, out=out, threads=threads), x)
            ),
            "numpy": by_numpy(numpy),
            "torch": by_torch(lambda torch, x: _torch_softmax(torch, x)),
            "onnxruntime": by_onnxruntime("Softmax", {"axis": -1}),
        },
        1e-5 if dtype == "float32" else 1e-2,
        2 * int(np.prod(shape)) * np.dtype(dtype).itemsize,
    )


def _torch_softmax(torch: Any, x: Any) -> Callable[[], Any]:
    out = torch.empty_like(x)
    return lambda: torch.softmax(x, -1, out=out)


def cases() -> list[OperatorCase]:
    """Shapes of the project's promise, and those of a transformer."""
    return [
        layer_norm((4096, 4096), "float32"),
        layer_norm((4096, 4096), "float16"),
        layer_norm((3136, 96), "float32"),
        layer_norm((197, 384), "float32"),
        softmax((4096, 1000)),
        softmax((32, 1_000_000)),
        softmax((2364, 197)),
        softmax((4096, 1000), "float16"),
    ]
