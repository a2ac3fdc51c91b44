"""Dropout. The input is zero, and so is every result, whatever an engine draws: the work is the same."""

from typing import Any

import numpy as np

from bench.operator_cases import OperatorCase
from bench.operator_cases.peers import by_cenote, by_numpy, by_onnxruntime, by_torch


def dropout(count: int, p: float) -> OperatorCase:
    """A run of elements, in training."""

    def cenote(f: Any, threads: int, x: np.ndarray) -> Any:
        out = np.empty_like(x)
        return lambda: f.dropout(x, p, seed=1, out=out, threads=threads)

    def numpy(x: np.ndarray) -> Any:
        generator, out, drawn = np.random.default_rng(1), np.empty_like(x), np.empty_like(x)

        def run() -> np.ndarray:
            generator.random(dtype=np.float32, out=drawn)
            np.multiply(x, 1 / (1 - p), out=out)
            return np.multiply(out, drawn >= p, out=out)

        return run

    return OperatorCase(
        f"dropout {count >> 20}M p={p}",
        lambda: (np.zeros(count, np.float32),),
        {
            "cenote": by_cenote(cenote),
            "numpy": by_numpy(numpy),
            "torch": by_torch(lambda torch, x: lambda: torch.nn.functional.dropout(x, p, True)),
            "onnxruntime": by_onnxruntime(
                "Dropout", {"seed": 1}, constants={1: np.array(p, np.float32), 2: np.array(True)}
            ),
        },
        bytes_moved=8 * count,
    )


def cases() -> list[OperatorCase]:
    """One that leaves the caches, and one that does not."""
    return [dropout(16 << 20, 0.5), dropout(1 << 18, 0.1)]
