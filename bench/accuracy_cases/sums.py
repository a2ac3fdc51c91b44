"""Averages, sums, means, norms, normalisations and softmax: what adds up elements of one tensor."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from onnx import TensorProto, helper

from bench.accuracy_cases import Arrays, Case, drawn

ROWS = 4
SIDE = 40  # of maps whose windows are averaged

Formula = Callable[[np.ndarray, int], np.ndarray]


def _maps(distribution: str, length: int) -> Arrays:
    return (drawn(distribution, (1, ROWS, SIDE * SIDE)).reshape(1, ROWS, SIDE, SIDE),)


def _rows(distribution: str, length: int) -> Arrays:
    return (drawn(distribution, (1, ROWS, length)),)


def _columns(distribution: str, length: int) -> Arrays:
    return (np.ascontiguousarray(drawn(distribution, (1, ROWS, length)).transpose(0, 2, 1)),)


def _windows(x: np.ndarray, length: int) -> np.ndarray:
    side = round(length**0.5)
    return sliding_window_view(x, (side, side), (2, 3)).reshape(
        *x.shape[:2], SIDE - side + 1, SIDE - side + 1, -1
    )


def _standard(x: np.ndarray, _: int) -> np.ndarray:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(x.var(-1, keepdims=True) + x.dtype.type(1e-5))


def _softmax(x: np.ndarray, _: int) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _norm(x: np.ndarray, axis: int) -> np.ndarray:
    return np.sqrt(np.sum(np.square(x), axis))


def _largest(x: np.ndarray, y: np.ndarray, _: int) -> np.ndarray:
    return np.broadcast_to(np.abs(y).max(-1, keepdims=True), y.shape)


def _own(x: np.ndarray, y: np.ndarray, _: int) -> np.ndarray:
    """Each result's own size; numbers near the smallest normal one may become 0."""
    return np.maximum(np.abs(y), 1e-30)


def _case(
    group: str, name: str, lengths: tuple[int, ...], operands: Callable[[str, int], Arrays], formula: Formula,
    node: Callable[[int], tuple[str, dict[str, Any]]], torch: Callable[[Any, int], Any],
    scale: Callable[..., np.ndarray] | None = None,
) -> Case:  # fmt: skip
    """A case of one tensor. `scale(x, y, length)` is what errors are relative to: by default the same of absolute
    values."""

    def length_of(x: np.ndarray) -> int:
        return next(n for n in lengths if n in x.shape) if operands is not _maps else lengths[0]

    def model(arrays: Arrays) -> bytes:
        (x,) = arrays
        op, attributes = node(length_of(x))
        given = helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)
        weights, inputs = [], ["x"]
        if op == "ReduceSum":
            weights.append(helper.make_tensor("axes", TensorProto.INT64, [1], [2]))
            inputs.append("axes")
        if op == "LayerNormalization":
            weights.append(helper.make_tensor("w", TensorProto.FLOAT, x.shape[-1:], np.ones(x.shape[-1])))
            inputs.append("w")
        made = helper.make_node(op, inputs, ["y"], **attributes)
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph([made], "sum", [given], [y], weights)
        opset = helper.make_opsetid("", 17 if op != "LpPool" else 18)
        return helper.make_model(graph, opset_imports=[opset], ir_version=9).SerializeToString()

    def truth(arrays: Arrays) -> tuple[np.ndarray, np.ndarray]:
        x, length = arrays[0].astype(np.float64), length_of(arrays[0])
        y = formula(x, length)
        return y, formula(np.abs(x), length) if scale is None else scale(x, y, length)

    def by_numpy(arrays: Arrays) -> np.ndarray:
        return np.asarray(formula(arrays[0], length_of(arrays[0])))

    def by_torch(arrays: Arrays) -> np.ndarray:
        from torch import from_numpy

        return np.asarray(torch(from_numpy(arrays[0]), length_of(arrays[0])).numpy())

    return Case(group, name, lengths, operands, model, truth, by_numpy, by_torch)


def _torch(name: str) -> Any:
    import torch

    return getattr(torch.nn.functional, name)


def _averaged(side: int, x: Any, _: int) -> Any:
    return _torch("avg_pool2d")(x, side, 1)


def _window(op: str, side: int) -> Callable[[int], tuple[str, dict[str, Any]]]:
    return lambda _: (op, {"kernel_shape": [side, side]})


CASES = (
    *(
        _case(
            "averages", f"AveragePool {side}x{side}", (side * side,), _maps,
            lambda x, n: _windows(x, n).mean(-1), _window("AveragePool", side),
            partial(_averaged, side),
        )
        for side in (3, 31)
    ),
    _case(
        "averages", "GlobalAveragePool", (50176, 1_000_000), _rows, lambda x, _: x.mean(-1, keepdims=True),
        lambda _: ("GlobalAveragePool", {}), lambda x, _: x.mean(-1, keepdim=True),
    ),
    _case(
        "sums", "ReduceSum of rows", (4096, 1_000_000), _rows, lambda x, _: x.sum(-1),
        lambda _: ("ReduceSum", {"keepdims": 0}), lambda x, _: x.sum(-1),
    ),
    _case(
        "means", "ReduceMean of columns", (4096, 1_000_000), _columns, lambda x, _: x.mean(1),
        lambda _: ("ReduceMean", {"axes": [1], "keepdims": 0}), lambda x, _: x.mean(1),
    ),
    _case(
        "norms", "LpPool 3x3, p 2", (9,), _maps, lambda x, n: _norm(_windows(x, n), -1), _window("LpPool", 3),
        lambda x, _: _torch("lp_pool2d")(x, 2, 3, 1),
    ),
    _case(
        "norms", "ReduceL2 of rows", (4096, 1_000_000), _rows, lambda x, _: _norm(x, -1),
        lambda _: ("ReduceL2", {"axes": [2], "keepdims": 0}), lambda x, _: x.norm(2, -1),
    ),
    _case(
        "normalisations", "LayerNormalization", (768, 65536), _rows, _standard,
        lambda n: ("LayerNormalization", {}), lambda x, n: _torch("layer_norm")(x, (n,)), _largest,
    ),
    _case(
        "softmax", "Softmax", (1000, 65536), _rows, _softmax, lambda _: ("Softmax", {"axis": -1}),
        lambda x, _: x.softmax(-1), _own,
    ),
)  # fmt: skip
