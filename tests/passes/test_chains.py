"""Elementwise neighbours become one operator, whose results have the bits that they give one by one."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import cenote
from cenote.ops.values import hostile, seeded
from tests.passes.models import model, steps

N = helper.make_node


CHAIN = [
    N("Mul", ["x", "s"], ["a"]),
    N("Add", ["a", "z"], ["b"]),
    N("Sigmoid", ["b"], ["c"]),
    N("Greater", ["c", "h"], ["d"]),
    N("Where", ["d", "a", "c"], ["e"]),
    N("Cast", ["e"], ["y"], to=TensorProto.FLOAT16),
]
TYPES = {"y": TensorProto.FLOAT16, "d": TensorProto.BOOL}
SCALE = np.linspace(-2, 2, 7, dtype=np.float32).reshape(7, 1, 1)


@pytest.mark.parametrize("shape", [(2, 7, 5, 9), (1, 7, 1, 1)])
def test_same_bits_as_one_by_one(shape: tuple[int, ...]) -> None:
    inputs = {"x": hostile(shape), "z": seeded(shape, 3)}
    constants = {"s": SCALE, "h": np.float32(0.5)}
    fused = cenote.load(model(CHAIN, inputs, constants, ["y"], TYPES))
    split = cenote.load(model(CHAIN, inputs, constants, ["y", "a", "b", "c", "d", "e"], TYPES))
    assert np.array_equal(fused(*inputs.values()), split(*inputs.values())[0], equal_nan=True)
    assert len([op for op in steps(fused) if op.startswith("chain")]) == 1
    assert len(steps(fused)) < len(steps(split))


def test_values_that_others_read_stay() -> None:
    inputs = {"x": seeded((3, 8))}
    nodes = [N("Exp", ["x"], ["a"]), N("Neg", ["a"], ["b"]), N("Abs", ["a"], ["y"]), N("Sqrt", ["b"], ["z"])]
    loaded = cenote.load(model(nodes, inputs, {}, ["y", "z"]))
    assert sorted(steps(loaded)) == ["abs", "chain(neg, sqrt)", "exp"]
    assert np.allclose(loaded(inputs["x"])[0], np.exp(inputs["x"]), rtol=1e-6)


def test_a_diamond_is_one_chain() -> None:
    """Both readers of a value end in the same chain: so does the value."""
    inputs = {"x": seeded((3, 40)), "v": seeded((3, 40), 2)}
    nodes = [
        N("Add", ["x", "v"], ["a"]), N("Div", ["a", "q"], ["b"]), N("Erf", ["b"], ["c"]), N("Add", ["c", "o"], ["d"]),
        N("Mul", ["a", "d"], ["e"]), N("Mul", ["e", "e"], ["y"]),
    ]  # fmt: skip
    loaded = cenote.load(model(nodes, inputs, {"q": np.float32(2**0.5), "o": np.float32(1)}, ["y"]))
    assert len(steps(loaded)) == 1
    x, v = inputs.values()
    from math import erf

    gelu = (x + v) * (1 + np.vectorize(erf)((x + v) / np.sqrt(2)))
    assert np.allclose(loaded(x, v), gelu**2, rtol=1e-5, atol=1e-6)


def test_smaller_values_are_computed_once() -> None:
    """What is broadcast later is not computed again for every element."""
    inputs = {"x": seeded((64, 9)), "v": seeded((9,), 2)}
    nodes = [N("Exp", ["v"], ["a"]), N("Mul", ["x", "a"], ["y"])]
    loaded = cenote.load(model(nodes, inputs, {}, ["y"]))
    assert sorted(steps(loaded)) == ["exp", "mul"]


def test_integer_chains() -> None:
    inputs = {"x": seeded((5, 33), 1, np.int64), "v": seeded((33,), 2, np.int64)}
    nodes = [N("Div", ["x", "v"], ["a"]), N("Mod", ["a", "m"], ["b"]), N("Mul", ["b", "b"], ["y"])]
    loaded = cenote.load(model(nodes, inputs, {"m": np.array(3, np.int64)}, ["y"]))
    x, v = inputs.values()
    quotient = np.where(v == 0, 0, np.trunc(x / np.where(v == 0, 1, v)).astype(np.int64))
    assert np.array_equal(loaded(x, v), np.mod(quotient, 3) ** 2)
    assert len(steps(loaded)) == 1
