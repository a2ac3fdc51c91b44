"""What dynamic quantisation writes behind convolutions of bytes is a part of them, with the bits of the steps."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

import cenote
from cenote.core.types import Array
from tests.passes.models import model, steps

N = helper.make_node
RANDOM = np.random.default_rng(27)
X = RANDOM.standard_normal((2, 20, 9, 7)).astype(np.float32)
CONSTANTS: dict[str, Array] = {
    "w": RANDOM.integers(-127, 128, (40, 20, 3, 3)).astype(np.int8),
    "wz": np.array(0, np.int8),
    "ws": np.float32(0.003),
    "many": (RANDOM.random((40, 1, 1)) * 0.01 + 0.001).astype(np.float32),
    "b": RANDOM.standard_normal((1, 40, 1, 1)).astype(np.float32),
    "rows": RANDOM.standard_normal((9, 1)).astype(np.float32),
}


def nodes(
    scale: str = "ws", bias: str = "b", relu: bool = True, swapped: bool = False
) -> list[onnx.NodeProto]:
    """x quantised by its range, a convolution, and its sums as floats: y."""
    product = ["sc", "f"] if swapped else ["f", "sc"]
    sum_ = [bias, "m"] if swapped else ["m", bias]
    return [
        N("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        N("ConvInteger", ["q", "w", "z", "wz"], ["i"], pads=[1, 1, 1, 1]),
        N("Cast", ["i"], ["f"], to=1),
        N("Mul", ["s", scale], ["sc"]),
        N("Mul", product, ["m"]),
        N("Add", sum_, ["a"]),
        N("Relu" if relu else "Identity", ["a"], ["y"]),
    ]


def checked(made: list[onnx.NodeProto]) -> list[str]:
    """The operators of the steps; every bit is that of the operators one by one."""
    content = model(made, {"x": X}, CONSTANTS, ["y"])
    apart = model(made, {"x": X}, CONSTANTS, ["y", "i", "f", "m", "a"])  # all are read: nothing is folded
    loaded, whole = cenote.load(content), cenote.load(apart)
    assert any(op.startswith("conv_integer(") for op in steps(whole))
    np.testing.assert_array_equal(np.asarray(loaded(X)), np.asarray(whole(X)[0]))
    return steps(loaded)


@pytest.mark.parametrize("scale", ["ws", "many"])
@pytest.mark.parametrize("swapped", [False, True])
def test_conversion_scale_bias_and_activation_are_one_step_with_the_convolution(
    scale: str, swapped: bool
) -> None:
    found = checked(nodes(scale, swapped=swapped))
    (sums,) = {op for op in found if op.startswith("conv_integer")}
    assert "conv_integer_to_float" in sums
    assert "activation=relu" in sums
    assert not {"cast", "add", "relu"} & {op.partition("(")[0] for op in found}


def test_numbers_per_row_are_no_bias() -> None:
    found = checked(nodes(bias="rows"))
    assert any(op.startswith("conv_integer_to_float") for op in found)
    assert any("add" in op or "chain" in op for op in found)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_bits_do_not_depend_on_threads_or_on_what_is_known_of_the_sizes(threads: int) -> None:
    content = onnx.load_from_string(model(nodes(), {"x": X}, CONSTANTS, ["y"]))
    fixed = np.asarray(cenote.load(content.SerializeToString(), threads=1)(X))
    for axis, name in ((0, "n"), (2, "h"), (3, "w")):
        content.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    opened = cenote.load(content.SerializeToString(), threads=threads)
    np.testing.assert_array_equal(np.asarray(opened(X)), fixed)
    assert np.asarray(opened(X[:1, :, :4, :5])).shape == (1, 40, 4, 5)
