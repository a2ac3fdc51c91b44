"""Sums of bytes as two multiply-adds: all pairs of bytes, for many scales, beside the steps one after another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

import cenote
from cenote.core.types import TensorType
from cenote.ops.elementwise.binary import Add
from cenote.ops.elementwise.chain import Named, chain_of
from cenote.ops.quantization.byte_sum import byte_sum, bytes_of
from cenote.ops.quantization.quantize import DequantizeLinear, QuantizeLinear
from tests.targets import anywhere

Array = np.ndarray[Any, Any]


def model(scales: Array, zeros: list[int], kinds: tuple[str, str, str], middle: str = "") -> bytes:
    """Dequantise two tensors that broadcast to all pairs, add, perhaps an activation, quantise."""
    names = ("a", "b", "y")
    constants = [
        numpy_helper.from_array(np.float32(each), f"{n}_scale") for n, each in zip(names, scales, strict=True)
    ]
    constants += [
        numpy_helper.from_array(np.array(each, kind), f"{n}_zero")
        for n, each, kind in zip(names, zeros, kinds, strict=True)
    ]
    nodes = [
        helper.make_node("DequantizeLinear", [n, f"{n}_scale", f"{n}_zero"], [f"{n}_real"]) for n in "ab"
    ]
    nodes.append(helper.make_node("Add", ["a_real", "b_real"], ["sum"]))
    if middle:
        nodes.append(helper.make_node(middle, ["sum"], ["more"]))
    nodes.append(
        helper.make_node("QuantizeLinear", ["more" if middle else "sum", "y_scale", "y_zero"], ["y"])
    )
    shapes = {"a": (256, 1), "b": (1, 256), "y": (256, 256)}
    ends = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shapes[n])
        for n, kind in zip(names, kinds, strict=True)
    ]
    graph = helper.make_graph(nodes, "sum", ends[:2], ends[2:], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    content: bytes = made.SerializeToString()
    return content


def by_steps(scales: Array, zeros: list[int], kinds: tuple[str, str, str], middle: str = "") -> Array:
    """The operators one after another, each rounded to float32."""
    one, other = (
        (bytes_of(np.dtype(kind)).astype(np.float32) - np.float32(zero)) * np.float32(scale)
        for kind, zero, scale in zip(kinds[:2], zeros, scales, strict=False)
    )
    total = one[:, None] + other
    total = np.maximum(total, 0) if middle else total
    limits = np.iinfo(kinds[2])
    whole: Array = np.clip(np.rint(total / np.float32(scales[2])) + zeros[2], limits.min, limits.max)
    return whole.astype(kinds[2])


def drawn(seed: int) -> tuple[Array, list[int], tuple[str, str, str]]:
    rng = np.random.default_rng(seed)
    scales = rng.uniform(0.004, 0.1, 3).astype(np.float32)
    scales[2] = scales[:2].sum() * rng.uniform(0.5, 1.5)
    kind = ("uint8", "int8")[seed % 2]
    kinds = (kind, ("uint8", "int8")[seed % 3 % 2], kind)
    zeros = [int(rng.integers(np.iinfo(each).min, np.iinfo(each).max + 1)) for each in kinds]
    return scales, zeros, kinds


@pytest.mark.parametrize("seed", range(24))
def test_all_pairs_have_the_bits_of_the_steps(seed: int) -> None:
    scales, zeros, kinds = drawn(seed)
    middle = "Relu" if seed % 4 == 1 else ""
    loaded = cenote.load(model(scales, zeros, kinds, middle), threads=1)
    shapes = ((256, 1), (1, 256))
    given = {n: bytes_of(np.dtype(k)).reshape(s) for n, k, s in zip("ab", kinds, shapes, strict=False)}
    y = loaded.run(given)["y"]
    assert np.array_equal(y, by_steps(scales, zeros, kinds, middle))


def test_most_scales_have_a_short_formula() -> None:
    found = 0
    for seed in range(60):
        scales, zeros, kinds = drawn(seed)
        table = by_steps(scales, zeros, kinds)
        factors = (float(scales[0]) / float(scales[2]), float(scales[1]) / float(scales[2]))
        made = byte_sum(table, tuple(map(np.dtype, kinds[:2])), factors, (zeros[0], zeros[1], zeros[2]))
        found += made is not None
    assert found >= 54


@pytest.mark.parametrize(
    ("change", "scales"),
    [
        ("one pair is another number", (0.7, 0.3)),
        ("", (1e-6, 0.3)),  # its products are not exact beside the other's
        ("", (1e6, 0.3)),
    ],
)
def test_none_is_taken_that_was_not_proven(change: str, scales: tuple[float, float]) -> None:
    a = np.arange(256.0)
    table = np.clip(np.rint(a[:, None] * scales[0] + a * scales[1]), 0, 255).astype(np.uint8)
    if change:
        table[3, 5] += 1
    kinds = (np.dtype(np.uint8), np.dtype(np.uint8))
    assert byte_sum(table, kinds, scales, (0, 0, 0)) is None


def test_the_target_must_round_once() -> None:
    """Without multiply-adds the steps are computed one after another."""
    scales, zeros, kinds = drawn(2)
    op = _chain(scales, zeros, kinds)
    names = {
        name: {each.name for each in op[0].lowerings(op[1], anywhere(name))} for name in ("avx2", "generic")
    }
    assert "byte_sum" in names["avx2"]
    assert "byte_sum" not in names["generic"]


def _chain(scales: Array, zeros: list[int], kinds: tuple[str, str, str]) -> Any:
    links = [
        Named(DequantizeLinear(), ("a", "sa", "za"), "fa"),
        Named(DequantizeLinear(), ("b", "sb", "zb"), "fb"),
        Named(Add(), ("fa", "fb"), "s"),
        Named(QuantizeLinear(), ("s", "sy", "zy"), "y"),
    ]
    names = ("a", "sa", "za", "b", "sb", "zb", "sy", "zy")
    known = [TensorType.known(np.asarray(each)) for each in scales]
    around = [TensorType.known(np.array(each, kind)) for each, kind in zip(zeros, kinds, strict=True)]
    maps = [TensorType(np.dtype(kind), (4, 40)) for kind in kinds[:2]]
    types = [maps[0], known[0], around[0], maps[1], known[1], around[1], known[2], around[2]]
    return chain_of(links, names), types
