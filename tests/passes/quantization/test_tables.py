"""Functions of one byte between dequantisation and quantisation are tables, exact for all 256 bytes."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper

import cenote
from cenote.core.types import Array
from tests.passes.models import model
from tests.passes.quantization.oracle import check

N = helper.make_node
EVERY = np.arange(256).astype(np.uint8)
CONSTANTS: dict[str, Array] = {
    "s": np.float32(0.047),
    "z": np.uint8(121),
    "i": np.int8(-7),
    "t": np.float32(0.031),
    "o": np.uint8(9),
    "g": np.float32(1 / 255),
    "one": np.float32(1),
    "half": np.array([0.5], np.float32),
    "root": np.float32(np.sqrt(2)),
    "n": np.uint8(0),
    "two": np.uint8([[29]]),
    "m": np.int8(-128),
    "low": np.float32(-1),
    "high": np.float32(2.5),
    "slope": np.float32(0.1),
}


def between(
    *nodes: NodeProto, last: str, first: tuple[str, str] = ("s", "z"), out: str = "o"
) -> list[NodeProto]:
    """q dequantised to x, nodes, and their last value quantised to y."""
    return [
        N("DequantizeLinear", ["q", *first], ["x"]),
        *nodes,
        N("QuantizeLinear", [last, "t", out], ["y"]),
    ]


FUNCTIONS = {
    "sigmoid": [N("Sigmoid", ["x"], ["r"])],
    "silu": [N("Sigmoid", ["x"], ["a"]), N("Mul", ["x", "a"], ["r"])],
    "hard swish": [N("HardSwish", ["x"], ["r"])],
    "leaky relu": [N("LeakyRelu", ["x"], ["r"], alpha=0.13)],
    "prelu": [N("PRelu", ["x", "slope"], ["r"])],
    "clip": [N("Clip", ["x", "low", "high"], ["r"])],
    "silu, quantised between": [
        N("Sigmoid", ["x"], ["a"]),
        N("QuantizeLinear", ["a", "g", "n"], ["b"]),
        N("DequantizeLinear", ["b", "g", "n"], ["c"]),
        N("Mul", ["x", "c"], ["r"]),
    ],
    "a number that is dequantised": [
        N("DequantizeLinear", ["two", "s", "n"], ["c"]),
        N("Sigmoid", ["x"], ["a"]),
        N("Mul", ["a", "c"], ["r"]),
    ],
    "gelu in pieces": [
        N("Div", ["x", "root"], ["a"]),
        N("Erf", ["a"], ["b"]),
        N("Add", ["b", "one"], ["c"]),
        N("Mul", ["x", "c"], ["d"]),
        N("Mul", ["d", "half"], ["r"]),
    ],
}


@pytest.mark.parametrize("name", [*FUNCTIONS])
@pytest.mark.parametrize("signed", [False, True])
def test_a_function_of_a_byte_is_a_table(name: str, signed: bool) -> None:
    q = EVERY.view(np.int8) if signed else EVERY
    nodes = between(
        *FUNCTIONS[name], last="r", first=("s", "i" if signed else "z"), out="m" if signed else "o"
    )
    assert check(nodes, {"q": q.reshape(2, 128)}, CONSTANTS, ["y"]) == ["byte_table"]


@pytest.mark.parametrize("name", ["Reciprocal", "Sqrt"])
def test_infinity_is_bounded_and_nan_the_zero_point(name: str) -> None:
    content = model(between(N(name, ["x"], ["r"]), last="r"), {"q": EVERY}, CONSTANTS, ["y"])
    x = (EVERY.astype(np.float32) - 121) * np.float32(0.047)
    with np.errstate(all="ignore"):
        quotient = (1 / x if name == "Reciprocal" else np.sqrt(x)) / np.float32(0.031)
    want = np.clip(np.rint(np.nan_to_num(quotient, nan=0.0)) + 9, 0, 255).astype(np.uint8)
    np.testing.assert_array_equal(cenote.load(content, threads=1)(EVERY), want)


def test_another_scale_is_a_table_and_the_same_is_nothing() -> None:
    assert check(between(last="x"), {"q": EVERY}, CONSTANTS, ["y"]) == ["byte_table"]
    nodes = between(N("Sigmoid", ["x"], ["a"]), last="a")
    again = [
        N("DequantizeLinear", ["y", "t", "o"], ["b"]),
        N("QuantizeLinear", ["b", "t", "o"], ["c"]),
    ]
    assert check([*nodes, *again], {"q": EVERY}, CONSTANTS, ["c"]) == ["byte_table"]


def test_what_lies_between_is_there_where_it_is_read() -> None:
    """The float is an output, too: it is computed as ever, and the bytes still come of a table."""
    nodes = between(N("Relu", ["x"], ["a"]), last="a")
    found = check(nodes, {"q": EVERY}, CONSTANTS, ["a", "y"], a=TensorProto.FLOAT)
    assert sorted(found) == ["byte_table", "chain(dequantize_linear, relu)"]


def test_floats_that_are_only_rounded_on_the_way_stay_one_pass() -> None:
    nodes = [N("QuantizeLinear", ["f", "s", "z"], ["q"]), *between(N("Relu", ["x"], ["a"]), last="a")]
    nodes.append(N("DequantizeLinear", ["y", "t", "o"], ["yf"]))
    found = check(nodes, {"f": np.linspace(-5, 5, 99).astype(np.float32)}, CONSTANTS, ["yf"])
    assert len(found) == 1


@pytest.mark.parametrize("kind", ["two tensors", "scales per channel", "broadcast to more elements"])
def test_what_is_no_function_of_one_byte_is_no_table(kind: str) -> None:
    constants, inputs = dict(CONSTANTS), {"q": EVERY.reshape(1, 4, 64)}
    nodes = between(N("Sigmoid", ["x"], ["r"]), last="r")
    if kind == "two tensors":
        inputs["p"] = EVERY[::-1].copy().reshape(1, 4, 64)
        more = [N("DequantizeLinear", ["p", "s", "z"], ["w"]), N("Mul", ["x", "w"], ["r"])]
        nodes = between(*more, last="r")
    elif kind == "scales per channel":
        constants |= {"s": np.float32([0.1, 0.2, 0.3, 0.4]), "z": np.uint8([1, 2, 3, 200])}
    else:
        constants["one"] = np.ones((3, 1, 1, 1), np.float32)
        nodes = between(N("Mul", ["x", "one"], ["r"]), last="r")
    found = check(nodes, inputs, constants, ["y"])
    assert "byte_table" not in found


def test_a_long_chain_is_one_table() -> None:
    nodes, name = [N("DequantizeLinear", ["q", "s", "z"], ["x"])], "x"
    for number in range(1500):
        nodes.append(N("Neg", [name], [f"v{number}"]))
        name = f"v{number}"
    nodes.append(N("QuantizeLinear", [name, "t", "o"], ["y"]))
    assert check(nodes, {"q": EVERY}, CONSTANTS, ["y"]) == ["byte_table"]
