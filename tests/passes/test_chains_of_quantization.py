"""Quantisation by one scale is a link of chains, in blocked layouts too, and moves past transposes."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import cenote
from cenote.ops.values import hostile, seeded
from tests.passes.models import model, steps

N = helper.make_node
SCALE, FINE = np.float32(0.05), np.float32(0.002)
ZERO = {"uint8": np.uint8(117), "int8": np.int8(-9), "uint16": np.uint16(700), "int16": np.int16(-3)}


def rounded(x: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """To integers and back, by NumPy."""
    limits = np.iinfo(zero.dtype)
    whole = np.clip(np.rint(np.nan_to_num(x / scale, nan=0.0)) + zero, limits.min, limits.max)
    return ((whole - zero).astype(np.float32) * scale).astype(np.float32)


@pytest.mark.parametrize("kind", [*ZERO])
@pytest.mark.parametrize("shape", [(), (1,), (1, 7, 5, 9), (3, 33)])
def test_there_and_back_with_neighbours_is_one_step(kind: str, shape: tuple[int, ...]) -> None:
    zero = ZERO[kind]
    nodes = [
        N("Add", ["x", "x"], ["a"]),
        N("QuantizeLinear", ["a", "s", "z"], ["q"]),
        N("DequantizeLinear", ["q", "s", "z"], ["b"]),
        N("Relu", ["b"], ["c"]),
        N("QuantizeLinear", ["c", "t", "z"], ["r"]),
        N("DequantizeLinear", ["r", "t", "z"], ["y"]),
    ]
    x = hostile(shape) if shape else np.array(1.234, np.float32)
    loaded = cenote.load(model(nodes, {"x": x}, {"s": SCALE, "t": FINE, "z": zero}, ["y"]))
    with np.errstate(all="ignore"):
        want = rounded(np.maximum(rounded(x + x, SCALE, zero), 0), FINE, zero)
    assert np.array_equal(loaded(x), want)
    assert steps(loaded) == [
        "chain(add, quantize_linear, dequantize_linear, relu, quantize_linear, dequantize_linear)"
    ]


def test_between_convolutions_maps_stay_blocked() -> None:
    w = {name: seeded((32, 32, 3, 3), n) * np.float32(0.1) for n, name in enumerate(("w", "v"))}
    nodes = [
        N("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        N("QuantizeLinear", ["a", "s", "z"], ["q"]),
        N("DequantizeLinear", ["q", "s", "z"], ["b"]),
        N("Conv", ["b", "v"], ["y"], pads=[1, 1, 1, 1]),
    ]
    x = seeded((1, 32, 9, 11))
    constants = {"s": SCALE, "z": ZERO["uint8"], **w}
    loaded = cenote.load(model(nodes, {"x": x}, constants, ["y"]), precision="exact")
    parts = cenote.load(model(nodes, {"x": x}, constants, ["y", "a"]), precision="exact")
    y, a = parts(x)
    middle = cenote.load(model(nodes[3:], {"b": a}, {"v": w["v"]}, ["y"]), precision="exact")
    np.testing.assert_allclose(middle(rounded(a, SCALE, ZERO["uint8"])), y, rtol=1e-5, atol=1e-5)
    assert np.array_equal(loaded(x), y)
    assert steps(loaded).count("reorder") == 2, "of the model's input and output"


@pytest.mark.parametrize("axis", [None, 1, 3, -1])
def test_transposes_cancel_around_quantisation(axis: int | None) -> None:
    x = seeded((1, 5, 6, 7))
    count = () if axis is None else (x.transpose(0, 2, 3, 1).shape[axis],)
    scale = np.abs(seeded(count, 3)).astype(np.float32) + np.float32(0.1)
    zero = np.full(count, 3, np.int8)
    along = {} if axis is None else {"axis": axis}
    nodes = [
        N("Transpose", ["x"], ["a"], perm=[0, 2, 3, 1]),
        N("QuantizeLinear", ["a", "s", "z"], ["q"], **along),
        N("DequantizeLinear", ["q", "s", "z"], ["b"], **along),
        N("Transpose", ["b"], ["y"], perm=[0, 3, 1, 2]),
    ]
    loaded = cenote.load(model(nodes, {"x": x}, {"s": scale, "z": zero}, ["y"]))
    spread = scale if axis is None else scale.reshape([-1 if i == axis % 4 else 1 for i in range(4)])
    want = rounded(x.transpose(0, 2, 3, 1), spread, np.int8(3)).transpose(0, 3, 1, 2)
    assert np.array_equal(loaded(x), want)
    assert not [op for op in steps(loaded) if op.startswith("transpose")]


def test_what_is_dequantised_for_several_readers_is_never_written_as_floats() -> None:
    nodes = [
        N("DequantizeLinear", ["q", "s", "z"], ["a"]),
        N("Add", ["a", "y"], ["b"]),
        N("QuantizeLinear", ["b", "t", "z"], ["c"]),
        N("Mul", ["a", "b"], ["d"]),
        N("QuantizeLinear", ["d", "t", "z"], ["e"]),
    ]
    q, p = (np.random.default_rng(seed).integers(0, 256, (1, 7, 5, 9)).astype(np.uint8) for seed in (1, 2))
    constants = {"s": SCALE, "t": np.float32(0.3), "z": ZERO["uint8"]}
    nodes.insert(0, N("DequantizeLinear", ["p", "s", "z"], ["y"]))
    loaded = cenote.load(model(nodes, {"q": q, "p": p}, constants, ["c", "e"]), threads=1)
    assert not any(op.startswith("dequantize") for op in steps(loaded)), steps(loaded)
    a, y = ((each.astype(np.float32) - 117) * SCALE for each in (q, p))
    for found, value in zip(loaded(q, p), (a + y, a * (a + y)), strict=True):
        want = np.clip(np.rint(value / np.float32(0.3)) + 117, 0, 255).astype(np.uint8)
        np.testing.assert_array_equal(found, want)


def test_parts_of_a_chain_that_dequantise_the_same_bytes_do_it_once() -> None:
    nodes = [
        N("DequantizeLinear", ["q", "s", "z"], ["a"]),
        N("Add", ["a", "f"], ["b"]),
        N("Relu", ["b"], ["c"]),
        N("Mul", ["a", "c"], ["d"]),
        N("QuantizeLinear", ["d", "t", "z"], ["e"]),
        N("Exp", ["a"], ["g"]),
    ]
    q = np.arange(256).astype(np.uint8).reshape(4, 64)
    f = np.linspace(-3, 3, 256).astype(np.float32).reshape(4, 64)
    constants = {"s": SCALE, "t": np.float32(0.3), "z": ZERO["uint8"]}
    content = model(nodes, {"q": q, "f": f}, constants, ["e", "g"], {"g": 1})
    loaded = cenote.load(content, threads=1)
    assert "chain(dequantize_linear, add, relu, mul, quantize_linear)" in steps(loaded), steps(loaded)
    a = (q.astype(np.float32) - 117) * SCALE
    want = np.clip(np.rint(a * np.maximum(a + f, 0) / np.float32(0.3)) + 117, 0, 255).astype(np.uint8)
    np.testing.assert_array_equal(loaded(q, f)[0], want)
