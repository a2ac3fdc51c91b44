"""ONNX graphs as exporters of channels-last networks write them: no transpose is left in the plan.

What remains is the change of layout at the caller's arrays, which a network of channels first has too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import cenote

FIRST, LAST = [0, 3, 1, 2], [0, 2, 3, 1]


class Exported:
    """A graph in the making, all of whose maps have their channels last."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(5)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, value: Any) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value), f"c{len(self.constants)}"))
        return str(self.constants[-1].name)

    def add(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        made = [f"v{len(self.nodes)}_{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), made, **attributes))
        return made[0] if outputs == 1 else made

    def surrounded(self, op: str, x: str, *rest: str, **attributes: Any) -> str:
        """An operator that wants its channels first."""
        inner = self.add(op, self.add("Transpose", x, perm=FIRST), *rest, **attributes)
        return str(self.add("Transpose", inner, perm=LAST))

    def conv(self, x: str, channels: int, made: int, stride: int = 1) -> str:
        weights = self.rng.standard_normal((made, channels, 3, 3)) / (3 * channels**0.5)
        bias = self.constant(self.rng.standard_normal(made).astype(np.float32))
        return self.surrounded(
            "Conv", x, self.constant(weights.astype(np.float32)), bias, auto_pad="SAME_UPPER", strides=[stride] * 2
        )  # fmt: skip

    def model(self, y: str) -> bytes:
        graph = helper.make_graph(
            self.nodes, "exported",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 12, 10, 3])],
            [helper.make_tensor_value_info(y, TensorProto.FLOAT, None)],
            self.constants,
        )  # fmt: skip
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
        content: bytes = made.SerializeToString()
        return content


def _chain(g: Exported, x: str) -> str:
    return g.add("Relu", g.conv(g.add("Relu", g.conv(x, 16, 24, 2)), 24, 16))


def _pad(g: Exported, x: str) -> str:
    padded = g.add("Pad", x, g.constant(np.array([0, 1, 0, 0, 0, 2, 1, 0])))
    return g.conv(padded, 16, 16, 2)


def _concat(g: Exported, x: str) -> str:
    pooled = g.surrounded("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    return g.conv(g.add("Concat", g.conv(x, 16, 16), pooled, x, axis=3), 48, 16)


def _gate(g: Exported, x: str) -> str:
    """Squeeze and excitation over channels last."""
    mean = g.add("ReduceMean", x, g.constant(np.array([1, 2])), keepdims=1)
    return g.conv(g.add("Mul", x, g.add("Sigmoid", g.conv(mean, 16, 16))), 16, 16)


def _mean(g: Exported, x: str) -> str:
    mean = g.add("ReduceMean", g.conv(x, 16, 24), g.constant(np.array([1, 2])), keepdims=0)
    return g.add("MatMul", mean, g.constant(g.rng.standard_normal((24, 5)).astype(np.float32)))


def _resize(g: Exported, x: str) -> str:
    scales = g.constant(np.array([1, 1, 2, 2], np.float32))
    return g.conv(g.surrounded("Resize", x, "", scales, mode="linear"), 16, 16)


def _resize_last(g: Exported, x: str) -> str:
    scales = g.constant(np.array([1, 2, 2, 1], np.float32))
    return g.conv(g.add("Resize", x, "", scales, mode="nearest"), 16, 16)


def _norm(g: Exported, x: str) -> str:
    numbers = [g.constant(np.abs(g.rng.standard_normal(16)).astype(np.float32) + 0.5) for _ in range(4)]
    y = g.surrounded("BatchNormalization", x, *numbers)
    return g.conv(g.add("Clip", y, g.constant(np.float32(0)), g.constant(np.float32(6))), 16, 16)


def _cut(g: Exported, x: str) -> str:
    """Halves of the channels, one of them shifted by a row."""
    a, b = g.add("Split", x, outputs=2, axis=3, num_outputs=2)
    shifted = g.add("Slice", g.add("Pad", b, g.constant(np.array([0, 1, 0, 0, 0, 0, 0, 0]))),
                    g.constant(np.array([0])), g.constant(np.array([-1])), g.constant(np.array([1])))  # fmt: skip
    return g.conv(g.add("Concat", shifted, a, axis=3), 16, 16)


def _rows(g: Exported, x: str) -> str:
    """As rows of pixels and back."""
    pixels = g.add("Reshape", x, g.constant(np.array([1, 120, 16])))
    y = g.add("Softmax", g.add("Mul", pixels, g.constant(np.arange(16, dtype=np.float32))), axis=-1)
    return g.conv(g.add("Reshape", y, g.constant(np.array([1, 12, 10, 16]))), 16, 16)


def _new_axes(g: Exported, x: str) -> str:
    """An axis more and one less, by each of the operators that say so."""
    one = g.constant(np.array([1]))
    y = g.add("Relu", g.add("Unsqueeze", x, one))
    y = g.add("Reshape", g.add("Squeeze", y, one), g.constant(np.array([1, 12, 1, 10, 16])))
    return g.conv(g.add("Squeeze", g.add("Tanh", y), g.constant(np.array([2]))), 16, 16)


BODIES: dict[str, Callable[[Exported, str], str]] = {
    each.__name__[1:]: each
    for each in (
        _chain, _pad, _concat, _gate, _mean, _resize, _resize_last, _norm, _cut, _rows, _new_axes
    )
}  # fmt: skip


@pytest.mark.parametrize("body", BODIES)
def test_none_is_left(body: str) -> None:
    g = Exported()
    content = g.model(BODIES[body](g, g.conv("x", 3, 16)))
    model = cenote.load(content, threads=1)
    x = g.rng.standard_normal((1, 12, 10, 3)).astype(np.float32)
    (wanted,) = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    np.testing.assert_allclose(model(x), wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())
    assert not [step for step in model.plan.describe().steps if step.op.startswith("transpose")]
