"""Products whose weights a model stores in few bits: which of them decode while they read, and to what answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx.reference
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

import cenote
from cenote.core.load_options import LoadOptions
from cenote.core.types import Array, TensorType, dtype_named
from cenote.frontends.onnx import load_onnx
from cenote.graph.graph import Graph
from cenote.ops.linear.stored_linear import StoredLinear, decoded
from cenote.passes.pipeline import optimize
from cenote.passes.specialize import specialize
from tests.targets import LARGE

N, K = 80, 200
RANDOM = np.random.default_rng(25)
WEIGHTS = RANDOM.standard_normal((N, K)).astype(np.float32)
X = RANDOM.standard_normal((3, K)).astype(np.float32)
BIAS = RANDOM.standard_normal(N).astype(np.float32)


def model(nodes: list[NodeProto], constants: dict[str, Array], rows: Any = 3, opset: int = 21) -> bytes:
    """Opset 21 has blocks and four bits."""
    kinds = {"int4": TensorProto.INT4, "uint4": TensorProto.UINT4, "bfloat16": TensorProto.BFLOAT16}
    initial = []
    for name, array in constants.items():
        kind = kinds.get(array.dtype.name, 0)
        made = (
            helper.make_tensor(name, kind, array.shape, array.astype(np.float32).ravel())
            if kind
            else numpy_helper.from_array(array, name)
        )
        initial.append(made)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, K])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [x], [y], initial)
    content: bytes = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10
    ).SerializeToString()
    return content


def optimized(content: bytes, **options: Any) -> Graph:
    graph = specialize(load_onnx(content).graph, {"x": TensorType.of(np.float32, (3, K))}).graph
    return optimize(graph, LARGE, LoadOptions(**options))


def dequantized(**attributes: int) -> list[NodeProto]:
    inputs = ["q", "s", "z"] if attributes.pop("zero", 0) else ["q", "s"]
    return [
        helper.make_node("DequantizeLinear", inputs, ["w"], **attributes),
        helper.make_node("Gemm", ["x", "w", "b"], ["c"], transB=1),
        helper.make_node("Relu", ["c"], ["y"]),
    ]


def quantized(dtype: str, scale: Array, block: int = 0, zero: Array | None = None) -> dict[str, Array]:
    half = 8 if dtype.endswith("4") else 128
    spread = np.repeat(scale, block, 1)[:, :K] if block else scale.reshape(-1, 1)
    numbers = np.clip(np.rint(WEIGHTS / spread), -half, half - 1)
    numbers = numbers if zero is None else numbers + zero.astype(np.float32).reshape(-1, 1)
    found = {
        "q": numbers.astype(np.int16)
        .astype(np.uint8 if dtype[0] == "u" else np.int8)
        .astype(dtype_named(dtype))
    }
    found |= {"s": scale.astype(np.float32), "b": BIAS}
    return found if zero is None else found | {"z": zero}


def noise(*shape: int) -> Array:
    return (RANDOM.random(shape) * 0.02 + 0.02).astype(np.float32)


CASES = {
    "one scale": (dequantized(axis=0), quantized("int8", noise())),
    "a scale per row": (dequantized(axis=0), quantized("int8", noise(N))),
    "blocks of 32": (dequantized(axis=1, block_size=32), quantized("int8", noise(N, 7), 32)),
    "blocks of 128": (dequantized(axis=-1, block_size=128), quantized("int8", noise(N, 2), 128)),
    "four bits": (dequantized(axis=1, block_size=64), quantized("int4", noise(N, 4) * 9, 64)),
    "four bits around 8": (
        dequantized(axis=0, zero=1), quantized("uint4", noise(N) * 9, 0, np.full(N, 8).astype(dtype_named("uint4")))
    ),
    "bytes around 128": (
        dequantized(axis=0, zero=1), quantized("uint8", noise(N), 0, np.full(N, 128, np.uint8))
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_dequantised_weights_stay_in_few_bits(case: tuple[list[NodeProto], dict[str, Array]]) -> None:
    nodes, constants = case
    content = model(nodes, constants)
    graph = optimized(content)
    assert [str(node.op).partition("(")[0] for node in graph.nodes] == ["stored_linear"]
    assert "activation=relu" in str(graph.nodes[0].op)
    (wanted,) = onnx.reference.ReferenceEvaluator(content).run(None, {"x": X})
    np.testing.assert_allclose(np.asarray(cenote.load(content)(X)), wanted, rtol=0, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("op", ["Gemm", "MatMul"])
def test_cast_weights_stay_in_16_bits(op: str, dtype: str) -> None:
    turned = WEIGHTS.T if op == "MatMul" else WEIGHTS
    halves = np.ascontiguousarray(turned).astype(dtype_named(dtype))
    nodes = [helper.make_node("Cast", ["h"], ["w"], to=TensorProto.FLOAT)]
    if op == "Gemm":
        nodes.append(helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1))
    else:
        nodes += [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["b", "p"], ["y"])]
    content = model(nodes, {"h": halves, "b": BIAS})
    (node,) = optimized(content).nodes
    assert isinstance(node.op, StoredLinear)
    assert len(node.inputs) == 4, "the bias is a part of it"
    numbers = halves.astype(np.float32).astype(np.float64)
    wanted = X.astype(np.float64) @ (numbers if op == "MatMul" else numbers.T) + BIAS
    np.testing.assert_allclose(np.asarray(cenote.load(content)(X)), wanted, rtol=0, atol=1e-4)


LEFT = {
    "blocks that are no multiple of 32": (dequantized(axis=1, block_size=40), quantized("int8", noise(N, 5), 40)),
    "scales along the depth": (
        dequantized(axis=1), quantized("int8", noise(N)) | {"s": noise(K)}
    ),
    "infinite scales": (dequantized(axis=0), quantized("int8", noise(N)) | {"s": np.full(N, np.inf, np.float32)}),
    "nine bits around the zero point": (
        dequantized(axis=0, zero=1),
        quantized("uint8", noise(N)) | {"z": np.arange(N).astype(np.uint8)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LEFT.values(), ids=LEFT)
def test_other_weights_become_floats(case: tuple[list[NodeProto], dict[str, Array]]) -> None:
    content = model(*case)
    (node,) = optimized(content).nodes
    assert str(node.op).startswith("gemm")
    with np.errstate(invalid="ignore"):
        (wanted,) = onnx.reference.ReferenceEvaluator(content).run(None, {"x": X})
        np.testing.assert_allclose(np.asarray(cenote.load(content)(X)), wanted, rtol=2e-6, atol=1e-4)


def test_what_follows_from_decoded_constants_is_computed_once() -> None:
    """A transposition of weights between their decoding and the product."""
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=0),
        helper.make_node("Transpose", ["w"], ["t"]),
        helper.make_node("MatMul", ["x", "t"], ["y"]),
    ]
    content = model(nodes, quantized("int8", noise(N)))
    assert len(optimized(content).nodes) == 1
    (wanted,) = onnx.reference.ReferenceEvaluator(content).run(None, {"x": X})
    np.testing.assert_allclose(np.asarray(cenote.load(content)(X)), wanted, rtol=0, atol=1e-4)


def test_open_rows_are_few_or_many() -> None:
    nodes, constants = CASES["four bits"]
    loaded = cenote.load(model(nodes, constants, rows="n"))
    q, s = constants["q"], constants["s"]
    for rows in (1, 2, 3, 4, 7, 60):
        x = RANDOM.standard_normal((rows, K)).astype(np.float32)
        wanted = np.maximum(x.astype(np.float64) @ decoded(q, s, 64).T + BIAS, 0)
        np.testing.assert_allclose(np.asarray(loaded(x)), wanted, rtol=0, atol=1e-4)
        (step,) = loaded.plan.describe().steps
        assert rows <= 4 or step.op.startswith("gemm")


def test_float32_weights_are_rounded_on_request() -> None:
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1, beta=0.5)]
    content = model(nodes, {"w": WEIGHTS, "b": BIAS})
    (node,) = optimized(content, weights="bfloat16").nodes
    assert isinstance(node.op, StoredLinear)
    rounded = WEIGHTS.astype(dtype_named("bfloat16")).astype(np.float64)
    y = np.asarray(cenote.load(content, weights="bfloat16")(X))
    np.testing.assert_allclose(y, X.astype(np.float64) @ rounded.T + BIAS / 2, rtol=0, atol=1e-4)
    (plain,) = optimized(content).nodes
    assert str(plain.op).startswith("gemm")


def test_plans_keep_few_bits(tmp_path: Path) -> None:
    wide = [helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)]
    sizes = []
    for name, content in (
        ("few", model(*CASES["four bits"])),
        ("many", model(wide, {"w": WEIGHTS, "b": BIAS})),
    ):
        made = cenote.load(content)
        y = made(X)
        made.save(tmp_path / name)
        stored = cenote.load(tmp_path / name)
        np.testing.assert_array_equal(stored(X), y)
        sizes.append(stored.plan.describe().memory.constants)
    assert sizes[0] < sizes[1] / 4
