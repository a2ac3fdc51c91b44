"""Recurrent layers: a model of one node beside PyTorch's modules, with the same weights."""

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.operator_cases import Inputs, OperatorCase
from bench.operator_cases.normalization import noise
from bench.operator_cases.peers import by_onnxruntime, by_torch, one_node

ORDER = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2)}  # ONNX's gates as PyTorch orders them


def layer(
    kind: str, steps: int, features: int, hidden: int, both: bool = True, batch: int = 1
) -> OperatorCase:
    """All states of one layer."""
    gates, directions = len(ORDER[kind]), 1 + both
    attributes: dict[str, Any] = {"hidden_size": hidden}
    attributes |= {"direction": "bidirectional"} if both else {}
    attributes |= {"linear_before_reset": 1} if kind == "GRU" else {}
    w = noise((directions, gates * hidden, features), seed=4) / np.float32(features**0.5)
    r = noise((directions, gates * hidden, hidden), seed=5) / np.float32(hidden**0.5)

    def cenote(inputs: Inputs, threads: int) -> Callable[[], Any]:
        import cenote

        data, _ = one_node(kind, attributes, inputs, {1: w, 2: r}, 1, "", 21)
        model = cenote.load(data, threads=threads)
        return lambda: model(*inputs)

    def torch(torch: Any, x: Any) -> Callable[[], Any]:
        module = getattr(torch.nn, kind)(features, hidden, bias=False, bidirectional=both)
        for d, suffix in zip(range(directions), ("", "_reverse"), strict=False):
            for name, weights in (("weight_ih", w[d]), ("weight_hh", r[d])):
                ordered = weights.reshape(gates, hidden, -1)[list(ORDER[kind])].reshape(weights.shape)
                getattr(module, f"{name}_l0{suffix}").copy_(torch.from_numpy(ordered))

        def run() -> Any:
            y = module(x)[0]
            return y.reshape(steps, batch, directions, hidden).permute(0, 2, 1, 3)

        return run

    return OperatorCase(
        f"{kind} {steps} steps {features}-{hidden}{' both ways' * both}, batch {batch}",
        lambda: (noise((steps, batch, features)),),
        {
            "cenote": cenote,
            "torch": by_torch(torch),
            "onnxruntime": by_onnxruntime(kind, attributes, constants={1: w, 2: r}),
        },
        1e-5,
    )


def cases() -> list[OperatorCase]:
    """Of text recognition, voice detection, and a batch."""
    return [
        layer("LSTM", 41, 256, 128),
        layer("GRU", 41, 256, 128),
        layer("LSTM", 1, 128, 128, False),
        layer("LSTM", 41, 256, 128, batch=8),
    ]
