"""Scaled dot product attention on arrays."""

from typing import Any

import numpy as np

from bench.operator_cases import OperatorCase
from bench.operator_cases.peers import by_cenote, by_onnxruntime, by_torch
from bench.operator_cases.products import by_openblas, noise

CASES = (  # batch, heads, queries, keys, size of a head, causal
    (1, 6, 197, 197, 64, False),
    (1, 12, 512, 512, 64, False),
    (1, 8, 1024, 1024, 64, False),
    (1, 8, 1024, 1024, 64, True),
    (8, 12, 128, 128, 64, False),
    (1, 4, 2048, 2048, 128, False),
    (48, 1, 49, 49, 32, False),
)


def pieces(causal: bool) -> Any:
    """Two products and a softmax in NumPy."""

    def prepare(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> Any:
        shut = np.triu(np.full((q.shape[-2], k.shape[-2]), -np.inf, np.float32), 1) if causal else None

        def run() -> np.ndarray:
            scores = q @ k.swapaxes(-1, -2) / np.float32(np.sqrt(q.shape[-1]))
            if shut is not None:
                scores += shut
            scores -= scores.max(-1, keepdims=True)
            np.exp(scores, out=scores)
            scores /= scores.sum(-1, keepdims=True)
            return np.asarray(scores @ v)

        return run

    return prepare


def attention(batch: int, heads: int, queries: int, keys: int, size: int, causal: bool) -> OperatorCase:
    """softmax(Q K' / sqrt(size)) V."""
    shapes = ((batch, heads, queries, size), (batch, heads, keys, size), (batch, heads, keys, size))
    name = "scaled_dot_product_attention"
    return OperatorCase(
        f"attention {batch}x{heads}x{queries}x{keys}x{size}{' causal' * causal}",
        noise(*shapes),
        {
            "cenote": by_cenote(
                lambda f, threads, *qkv: lambda: getattr(f, name)(*qkv, is_causal=causal, threads=threads)
            ),
            "numpy": by_openblas(pieces(causal)),
            "torch": by_torch(
                lambda torch, *qkv: lambda: getattr(torch.nn.functional, name)(*qkv, is_causal=causal)
            ),
            "onnxruntime": by_onnxruntime("Attention", {"is_causal": int(causal)}, opset=23),
        },
        1e-5,
    )


def cases() -> list[OperatorCase]:
    """Vision transformers, sequences, windows."""
    return [attention(*case) for case in CASES]
