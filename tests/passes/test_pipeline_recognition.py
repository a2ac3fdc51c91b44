"""GELU, normalisations, attention and products, in the pieces that exporters write, become one node each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, helper, numpy_helper

import cenote
from cenote.kernels.elementwise.activations import erf

node = helper.make_node
ROOT_HALF, ROOT = 0.70710678, 0.7978845608


def load(
    nodes: Sequence[NodeProto],
    shapes: dict[str, Sequence[Any]],
    constants: dict[str, Any],
    kind: Any = np.float32,
) -> cenote.Model:
    onnx_kind = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    tensors = [
        numpy_helper.from_array(
            np.asarray(value, None if np.asarray(value).dtype == np.int64 else kind), name
        )
        for name, value in constants.items()
    ]
    inputs = [helper.make_tensor_value_info(name, onnx_kind, shape) for name, shape in shapes.items()]
    outputs = [helper.make_tensor_value_info("y", onnx_kind, None)]
    graph = helper.make_graph(list(nodes), "pieces", inputs, outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return cenote.load(model.SerializeToString())


def operators(model: cenote.Model) -> list[str]:
    """The operators of the plan's steps, without what moves data about."""
    names = [step.op.split("(")[0] for step in model.plan.describe().steps]
    return [name for name in dict.fromkeys(names) if name not in ("reorder", "")]


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def close(got: Any, wanted: np.ndarray, tolerance: float = 1e-5) -> None:
    assert got.shape == wanted.shape
    assert np.abs(got.astype(np.float64) - wanted).max() <= tolerance * max(1.0, np.abs(wanted).max())


def erf_gelu(x: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * x * (1 + erf(x * np.sqrt(0.5))))


def tanh_gelu(x: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


C = {"half": 0.5, "one": 1.0, "root": ROOT_HALF, "two": 1 / ROOT_HALF, "c": 0.044715, "p": ROOT, "three": 3.0,
     "cp": 0.044715 * ROOT, "q": 1.702}  # fmt: skip
GELUS: dict[str, tuple[list[NodeProto], Any, str]] = {
    "PyTorch": (
        [node("Div", ["x", "two"], ["d"]), node("Erf", ["d"], ["e"]), node("Add", ["e", "one"], ["a"]),
         node("Mul", ["x", "a"], ["m"]), node("Mul", ["m", "half"], ["y"])], erf_gelu, "gelu"),
    "PyTorch's dynamo": (
        [node("Mul", ["x", "root"], ["d"]), node("Erf", ["d"], ["e"]), node("Add", ["e", "one"], ["a"]),
         node("Mul", ["half", "a"], ["m"]), node("Mul", ["x", "m"], ["y"])], erf_gelu, "gelu"),
    "half first": (
        [node("Mul", ["x", "root"], ["d"]), node("Erf", ["d"], ["e"]), node("Add", ["one", "e"], ["a"]),
         node("Mul", ["x", "half"], ["m"]), node("Mul", ["m", "a"], ["y"])], erf_gelu, "gelu"),
    "tanh, power": (
        [node("Pow", ["x", "three"], ["x3"]), node("Mul", ["x3", "c"], ["k"]), node("Add", ["x", "k"], ["s"]),
         node("Mul", ["s", "p"], ["i"]), node("Tanh", ["i"], ["t"]), node("Add", ["t", "one"], ["a"]),
         node("Mul", ["x", "half"], ["m"]), node("Mul", ["m", "a"], ["y"])], tanh_gelu, "gelu"),
    "tanh, product": (
        [node("Mul", ["x", "x"], ["x2"]), node("Mul", ["x2", "cp"], ["k"]), node("Add", ["p", "k"], ["s"]),
         node("Mul", ["s", "x"], ["i"]), node("Tanh", ["i"], ["t"]), node("Add", ["t", "one"], ["a"]),
         node("Mul", ["x", "a"], ["m"]), node("Mul", ["m", "half"], ["y"])], tanh_gelu, "gelu"),
    "quick": (
        [node("Mul", ["x", "q"], ["d"]), node("Sigmoid", ["d"], ["s"]), node("Mul", ["x", "s"], ["y"])],
        lambda x: x / (1 + np.exp(-1.702 * x)), "swish"),
}  # fmt: skip


@pytest.mark.parametrize("name", GELUS)
def test_gelu(name: str) -> None:
    nodes, formula, op = GELUS[name]
    model = load(nodes, {"x": ["n", 40]}, C)
    for rows in (3, 7):
        x = 3 * noise(rows, 40)
        close(model(x), formula(x.astype(np.float64)))
    assert operators(model) == [op]


def test_what_is_only_like_gelu_stays() -> None:
    nodes = GELUS["PyTorch"][0]
    model = load(nodes, {"x": ["n", 40]}, {**C, "half": 0.6})
    x = noise(3, 40)
    close(model(x), 1.2 * erf_gelu(x.astype(np.float64)))
    assert "gelu" not in operators(model)
    other = [*nodes[:3], node("Mul", ["z", "a"], ["m"]), node("Mul", ["m", "half"], ["y"])]
    model = load(other, {"x": [3, 40], "z": [3, 40]}, C)
    assert "gelu" not in operators(model) or model(x, np.zeros_like(x)).max() == 0


@pytest.mark.parametrize("form", ["gelu", "scaled gelu", "swish", "layer norm"])
def test_constants_of_more_axes_than_the_value(form: str) -> None:
    """They give the result their axes: no activation or normalisation does that."""
    x, one = noise(2, 3), [[[[1.0]]]]
    swish, gelu = form == "swish", "gelu" in form
    constants = {
        "r": np.sqrt(2) if form == "scaled gelu" else np.multiply(one, np.sqrt(2)), "one": 1.0,
        "half": np.multiply(one, 0.5) if form == "scaled gelu" else 0.5, "two": np.multiply(one, 2), "eps": 1e-5,
        "axes": np.array([-1]),
    }  # fmt: skip
    nodes = [node("Mul", ["x", "r"], ["a"]), node("Sigmoid", ["a"], ["s"]), node("Mul", ["x", "s"], ["y"])]
    wanted = x / (1 + np.exp(-x * np.sqrt(2))) if swish else erf_gelu(x)
    if gelu:
        nodes = [
            node("Div", ["x", "r"], ["a"]), node("Erf", ["a"], ["e"]), node("Add", ["e", "one"], ["p"]),
            node("Mul", ["x", "p"], ["m"]), node("Mul", ["m", "half"], ["y"]),
        ]  # fmt: skip
    elif not swish:
        nodes = [
            node("ReduceMean", ["x", "axes"], ["m"]), node("Sub", ["x", "m"], ["d"]), node("Pow", ["d", "two"], ["q"]),
            node("ReduceMean", ["q", "axes"], ["v"]), node("Add", ["v", "eps"], ["e"]), node("Sqrt", ["e"], ["s"]),
            node("Div", ["d", "s"], ["y"]),
        ]  # fmt: skip
        wanted = normalized(x, True)
    close(load(nodes, {"x": (2, 3)}, constants)(x), wanted[None, None])


def normalized(x: np.ndarray, centred: bool) -> np.ndarray:
    d = x - x.mean(-1, keepdims=True) if centred else x
    return np.asarray(d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5))


L = {
    "two": 2.0,
    "eps": 1e-5,
    "one": 1.0,
    "axes": np.array([-1]),
    "g": noise(40, seed=5),
    "b": noise(40, seed=6),
}
MEAN = [node("ReduceMean", ["x", "axes"], ["m"]), node("Sub", ["x", "m"], ["d"])]


@pytest.mark.parametrize("square", ["Pow", "Mul"])
@pytest.mark.parametrize("quotient", ["Div", "Reciprocal", "inverse"])
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("affine", [2, 1, 0])
def test_normalizations(square: str, quotient: str, centred: bool, affine: int) -> None:
    d = "d" if centred else "x"
    nodes = [*(MEAN if centred else []), node(square, [d, "two" if square == "Pow" else d], ["s"])]
    nodes += [
        node("ReduceMean", ["s", "axes"], ["v"]),
        node("Add", ["v", "eps"], ["e"]),
        node("Sqrt", ["e"], ["r"]),
    ]
    if quotient == "Div":
        nodes.append(node("Div", [d, "r"], ["n"]))
    else:
        inverse = (
            node("Reciprocal", ["r"], ["i"]) if quotient == "Reciprocal" else node("Div", ["one", "r"], ["i"])
        )
        nodes += [inverse, node("Mul", [d, "i"], ["n"])]
    nodes += [node("Mul", ["n", "g"], ["w"]), node("Add", ["w", "b"], ["z"])][:affine]
    nodes.append(node("Identity", [nodes[-1].output[0]], ["y"]))
    model = load(nodes, {"x": ["n", 7, 40]}, L)
    for batch in (2, 5):
        x = noise(batch, 7, 40)
        wanted = normalized(x.astype(np.float64), centred)
        wanted = wanted * L["g"] if affine else wanted
        close(model(x), wanted + L["b"] if affine == 2 else wanted)
    assert ("layer_normalization" if centred else "rms_normalization") in operators(model)
    assert not {"reduce_mean", "sqrt", "div"} & set(operators(model))


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


@pytest.mark.parametrize("cleared", [False, True])
@pytest.mark.parametrize("masked", ["", "mask", "zeros"])
@pytest.mark.parametrize("form", ["scores", "query", "both"])
def test_attention_by_heads(cleared: bool, masked: str, form: str) -> None:
    """(batch, length, heads * size) through Reshape, Transpose, MatMul, scale, mask, Softmax, zeros for NaN, MatMul,
    Transpose."""
    shape = {"heads": np.array([0, 0, 3, 16]), "flat": np.array([0, 0, 48]), "s": 0.25, "root": 0.5}
    shape |= {"zero": 0.0, "zeros": np.zeros((1, 1, 1, 1))} if cleared else {"zeros": np.zeros((3, 1, 1))}
    nodes = []
    for name in "qkv":
        nodes.append(node("Reshape", [name, "heads"], [f"{name}h"]))
        turn = [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]
        nodes.append(node("Transpose", [f"{name}h"], [f"{name}t"], perm=turn))
    left, right, scores = "qt", "kt", "a"
    if form != "scores":
        nodes.append(node("Mul", ["qt", "s" if form == "query" else "root"], ["qs"]))
        left = "qs"
    if form == "both":
        nodes.append(node("Mul", ["kt", "root"], ["ks"]))
        right = "ks"
    nodes.append(node("MatMul", [left, right], ["a"]))
    if form == "scores":
        nodes.append(node("Mul", ["a", "s"], ["b"]))
        scores = "b"
    if masked:
        nodes.append(node("Add", [scores, masked], ["c"]))
        scores = "c"
    nodes.append(node("Softmax", [scores], ["p"], axis=-1))
    if cleared:
        nodes += [node("IsNaN", ["p"], ["n"]), node("Where", ["n", "zero", "p"], ["w"])]
    nodes.append(node("MatMul", ["w" if cleared else "p", "vt"], ["o"]))
    nodes += [node("Transpose", ["o"], ["ot"], perm=[0, 2, 1, 3]), node("Reshape", ["ot", "flat"], ["y"])]
    shapes: dict[str, Sequence[Any]] = {name: ["n", "length", 48] for name in "qkv"}
    if masked == "mask":
        shapes["mask"] = ["n", 1, 1, "length"]
    model = load(nodes, shapes, shape)
    for batch, length in ((2, 9), (1, 70)):
        q, k, v = (noise(batch, length, 48, seed=s) for s in range(3))
        mask = np.where(noise(batch, 1, 1, length) > 1, -1e4, 0).astype(np.float32)
        if cleared:
            mask[0] = -np.inf
        by_head = [
            x.astype(np.float64).reshape(batch, length, 3, 16).transpose(0, 2, 1, 3) for x in (q, k, v)
        ]
        wanted = by_head[0] @ by_head[1].swapaxes(2, 3) * 0.25 + (mask if masked == "mask" else 0)
        with np.errstate(invalid="ignore"):
            weights = softmax(wanted)
        weights = np.where(np.isnan(weights), 0.0, weights)
        wanted = (weights @ by_head[2]).transpose(0, 2, 1, 3).reshape(batch, length, 48)
        close(model(q, k, v, mask) if masked == "mask" else model(q, k, v), wanted)
    assert operators(model) == ["scaled_dot_product"]


@pytest.mark.parametrize("change", ["a one", "another test", "weights read twice", "test read twice"])
def test_attention_stays_in_pieces(change: str) -> None:
    """What is not quite attention with zeros for NaN."""
    constants = {"zero": np.array([0.0, float(change == "a one")])[:, None]}
    nodes = [node("MatMul", ["q", "k"], ["s"]), node("Softmax", ["s"], ["p"], axis=-1)]
    nodes.append(node("IsNaN", ["s" if change == "another test" else "p"], ["n"]))
    nodes += [node("Where", ["n", "zero", "p"], ["w"]), node("MatMul", ["w", "v"], ["o"])]
    read = {"weights read twice": "w", "test read twice": "t"}.get(change, "v")
    nodes += [
        node("Cast", ["n"], ["t"], to=1),
        node("ReduceSum", [read], ["r"]),
        node("Add", ["o", "r"], ["y"]),
    ]
    model = load(nodes, {"q": [2, 8], "k": [8, 2], "v": [2, 4]}, constants)
    q, k, v = noise(2, 8), noise(8, 2, seed=1), noise(2, 4, seed=2)
    q[0, 0] = np.inf
    k[0] = 1.0
    with np.errstate(invalid="ignore"):  # NumPy's product warns of NaN on some processors
        scores = q.astype(np.float64) @ k
        weights = softmax(scores)
    closed = np.isnan(scores if change == "another test" else weights)
    weights = np.where(closed, constants["zero"], weights)
    read_twice = {"w": weights, "t": closed, "v": v}[read]
    got, wanted = model(q, k, v), weights @ v + read_twice.sum()
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
    assert "scaled_dot_product" not in operators(model)


def test_a_product_takes_bias_residual_and_activation() -> None:
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Add", ["b", "a"], ["c"]), node("Relu", ["c"], ["d"])]
    nodes += [
        node("MatMul", ["d", "v"], ["e"]),
        node("Add", ["e", "row"], ["f"]),
        node("Add", ["x", "f"], ["y"]),
    ]
    w, b, v, row = noise(40, 50, seed=1), noise(50, seed=2), noise(50, 40, seed=3), noise(1, 1, 40, seed=4)
    model = load(nodes, {"x": ["n", 6, 40]}, {"w": w, "b": b, "v": v, "row": row})
    for batch in (1, 4):
        x = noise(batch, 6, 40).astype(np.float64)
        close(model(x.astype(np.float32)), x + np.maximum(x @ w + b, 0) @ v + row)
    assert operators(model) == ["matmul"]


def test_a_product_whose_sum_is_wider_keeps_its_addition() -> None:
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Add", ["a", "b"], ["y"])]
    x, w, b = noise(1, 6, 40), noise(40, 50, seed=1), noise(3, 6, 50, seed=2)
    model = load(nodes, {"x": [1, 6, 40]}, {"w": w, "b": b})
    close(model(x), x.astype(np.float64) @ w + b)
    column = load(nodes, {"x": [1, 6, 40]}, {"w": w, "b": noise(6, 1, seed=2)})
    close(column(x), x.astype(np.float64) @ w + noise(6, 1, seed=2))


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_networks_of_16_bits_compute_in_float32(kind: str) -> None:
    dtype = np.dtype(kind)
    nodes = [
        node("Conv", ["x", "w"], ["a"], pads=[1] * 4),
        node("Relu", ["a"], ["b"]),
        node("Add", ["b", "x"], ["c"]),
    ]
    nodes += [
        node("GlobalAveragePool", ["c"], ["d"]),
        node("Flatten", ["d"], ["e"]),
        node("MatMul", ["e", "v"], ["y"]),
    ]
    w, v = noise(16, 16, 3, 3, seed=1) / 12, noise(16, 10, seed=2)
    model = load(nodes, {"x": ["n", 16, 9, 9]}, {"w": w, "v": v}, dtype)
    float32 = load(nodes, {"x": ["n", 16, 9, 9]}, {"w": w.astype(dtype), "v": v.astype(dtype)})
    for batch in (1, 3):
        x = noise(batch, 16, 9, 9).astype(dtype)
        got = model(x)
        assert got.dtype == dtype
        # One rounding at the end: the float32 network's result, rounded.
        close(
            got, float32(x.astype(np.float32)).astype(np.float64), 2.0**-11 if kind == "float16" else 2.0**-8
        )
    assert "cast" in operators(model)
    assert [name for name in operators(model) if name != "cast"] == operators(float32)
