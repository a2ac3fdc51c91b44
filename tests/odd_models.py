"""Valid models that nobody writes by hand: absent and unread outputs, odd names, odd sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 9, 8, 8)).astype(np.float32)
SMALL = np.round(RNG.standard_normal((2, 3, 8, 8)), 1).astype(np.float32)
POOL = {"kernel_shape": [2, 2], "strides": [2, 2]}
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
node = helper.make_node


def noise(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def model(
    nodes: Sequence[Any], x: np.ndarray, outputs: dict[str, int], opset: int = 17, shape: Any = None, **constants: Any
) -> onnx.ModelProto:  # fmt: skip
    """A model of one input x; outputs by name with their types."""
    graph = helper.make_graph(
        list(nodes), "odd",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), shape or x.shape)],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def max_pool(*names: str) -> list[Any]:
    return [node("MaxPool", ["x"], list(names), **POOL)]


def split(*names: str) -> list[Any]:
    return [node("Split", ["x"], list(names), axis=1)]


THREE = np.array([2, 3, 4])
SPLIT = [node("Split", ["x", "sizes"], ["a", "b", "c"], axis=1)]
NORM = {"s": noise(8, 8), "t": noise(8, 8)}
LAYER = [node("LayerNormalization", ["x", "s", "t"], ["y", "m", "i"], axis=-2)]
LSTM = [node("LSTM", ["q", "w", "r"], ["h", "last"], hidden_size=5)]
FLAT = [node("Reshape", ["x", "dims"], ["q"]), *LSTM]
GATES: dict[str, Any] = {"w": noise(1, 20, 8), "r": noise(1, 20, 5), "dims": [24, 2, 8]}
CASES: dict[str, onnx.ModelProto] = {
    "max pool, indices unread": model(max_pool("y", "i"), X, {"y": FLOAT}),
    "max pool, values unread": model(max_pool("y", "i"), X, {"i": INT64}),
    "max pool, values absent": model(max_pool("", "i"), X, {"i": INT64}),
    "max pool, indices absent": model(max_pool("y", ""), X, {"y": FLOAT}),
    "max pool after a convolution, indices unread": model(
        [node("Conv", ["x", "w"], ["c"]), node("MaxPool", ["c"], ["y", "i"], **POOL)],
        X, {"y": FLOAT}, w=noise(8, 9, 3, 3),
    ),
    "twins, one with indices": model(
        [*max_pool("y", "i"), node("MaxPool", ["x"], ["z"], **POOL), node("Add", ["y", "z"], ["sum"])],
        X, {"sum": FLOAT, "i": INT64},
    ),
    "split, first read": model(SPLIT, X, {"a": FLOAT}, sizes=THREE),
    "split, middle read": model(SPLIT, X, {"b": FLOAT}, sizes=THREE),
    "split, last read": model(SPLIT, X, {"c": FLOAT}, sizes=THREE),
    "split, only the first has a name": model(split("a", "", ""), X, {"a": FLOAT}, 13),
    "split, only the middle has a name": model(split("", "b", ""), X, {"b": FLOAT}, 13),
    "split, only the last has a name": model(split("", "", "c"), X, {"c": FLOAT}, 13),
    "layer normalisation, mean read": model(LAYER, SMALL, {"m": FLOAT}, **NORM),
    "layer normalisation, deviation read": model(LAYER, SMALL, {"i": FLOAT, "y": FLOAT}, **NORM),
    "lstm, last state read": model(FLAT, SMALL, {"last": FLOAT}, 14, **GATES),
    "output that is the input": model([node("Relu", ["x"], ["y"])], X, {"y": FLOAT, "x": FLOAT}),
    "output that is only the input": model([], X, {"x": FLOAT}),
    "output that is a constant": model([node("Relu", ["x"], ["y"])], X, {"w": FLOAT, "y": FLOAT}, w=noise(3)),
    "output that others read": model(
        [node("Relu", ["x"], ["y"]), node("Neg", ["y"], ["z"]), node("Mul", ["y", "z"], ["p"])],
        X, {"z": FLOAT, "p": FLOAT, "y": FLOAT},
    ),
    "identities of an output": model(
        [node("Identity", ["x"], ["y"]), node("Identity", ["y"], ["z"])], X, {"z": FLOAT, "y": FLOAT}
    ),
    "dead nodes": model(
        [node("Sin", ["x"], ["d"]), node("Relu", ["x"], ["y"]), *split("a", "b", "c")], X, {"y": FLOAT}, 13
    ),
    "names with any letters": model(
        [node("Relu", ["x"], ["a/b:0 %ü"], name="n"), node("Neg", ["a/b:0 %ü"], ["y"], name="n")], X, {"y": FLOAT}
    ),
    "absent bias, absent bounds": model(
        [node("Conv", ["x", "w", ""], ["c"]), node("Clip", ["c", "", "top"], ["y"])],
        X, {"y": FLOAT}, w=noise(4, 9, 3, 3), top=np.float32(0.5),
    ),
    "one symbol twice": model(
        [node("Conv", ["x", "w"], ["y"])], X, {"y": FLOAT}, shape=["N", 9, "S", "S"], w=noise(4, 9, 3, 3)
    ),
    "concat of nothing and something": model(
        [node("Concat", ["x", "nothing"], ["y"], axis=1)], X, {"y": FLOAT}, nothing=np.zeros((2, 0, 8, 8), np.float32)
    ),
    "backward slice to before the start": model(
        [node("Slice", ["x", "start", "end", "axes", "step"], ["y"])], X, {"y": FLOAT},
        start=[-1, 7], end=[-(2**63), -9], axes=[3, 2], step=[-2, -3],
    ),
}  # fmt: skip
