"""Filters of zeros in networks whose channels meet: residuals, depthwise convolutions, concatenations, shuffles."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import cenote
from cenote.compression.network import SharedNetwork
from cenote.compression.structure import pruned
from cenote.core.types import Array

SIZE = 12


class Builder:
    """A network with random weights; filters of zeros have biases of zero, or any."""

    def __init__(self, seed: int, biased: bool) -> None:
        self.random, self.biased = np.random.default_rng(seed), biased
        self.nodes, self.constants = list[NodeProto](), dict[str, Array]()

    def add(self, op: str, *inputs: str, **attributes: object) -> str:
        name = f"{op}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        return name

    def constant(self, array: Array | np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def noise(self, *shape: int) -> Array:
        return self.random.standard_normal(shape).astype(np.float32)

    def gone(self, count: int) -> Array:
        """Return a random choice of channels."""
        mask: Array = self.random.random(count) < 0.4
        mask[self.random.integers(count)] = False
        return mask

    def conv(self, x: str, depth: int, gone: Array, kernel: int = 3, group: int = 1, stride: int = 1) -> str:
        """Return a convolution with a filter of zeros where one is gone."""
        w, b = self.noise(len(gone), depth // group, kernel, kernel), self.noise(len(gone))
        w[gone], b[gone] = 0, b[gone] * self.biased
        pads, inputs = [kernel // 2] * 4, [x, self.constant(w / np.float32(kernel)), self.constant(b)]
        return self.add("Conv", *inputs, group=group, pads=pads, strides=[stride, stride])

    def normalised(self, x: str, count: int) -> str:
        """Return a normalisation that makes zeros of zeros."""
        mean, scale = np.zeros(count, np.float32), self.noise(count)
        shift = self.noise(count) if self.biased else np.zeros(count, np.float32)
        content = [scale, shift, mean, 1 + np.abs(self.noise(count))]
        return self.add("BatchNormalization", x, *map(self.constant, content))

    def model(self, y: str, depth: int) -> ModelProto:
        """Return the network with a classifier of what it has made."""
        y = self.add("Flatten", self.add("GlobalAveragePool", y))
        y = self.add("Gemm", y, self.constant(self.noise(depth, 5)), self.constant(self.noise(5)))
        x, z = (
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in (("x", [2, 3, SIZE, SIZE]), (y, [2, 5]))
        )
        constants = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(self.nodes, "network", [x], [z], constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def residual(made: Builder, width: int, blocks: int) -> ModelProto:
    """Return a network as ResNet: all that an addition meets has the same filters of zeros."""
    gone = made.gone(width)
    y = made.add("Relu", made.conv("x", 3, gone))
    y = made.add("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for _ in range(blocks):
        inner = made.gone(width + 2)
        branch = made.add("Relu", made.conv(y, width, inner))
        y = made.add("Relu", made.add("Add", made.conv(branch, width + 2, gone), y))
    return made.model(y, width)


def inverted(made: Builder, width: int, blocks: int) -> ModelProto:
    """Return a network as MobileNet and EfficientNet: depthwise convolutions, gates of channels, residuals."""
    gone = made.gone(width)
    low, high = made.constant(np.float32(0)), made.constant(np.float32(6))
    y = made.conv("x", 3, gone, stride=2)
    for _ in range(blocks):
        inner, wide = made.gone(2 * width), 2 * width
        branch = made.add("Clip", made.conv(y, width, inner, 1), low, high)
        branch = made.add("Clip", made.conv(branch, wide, inner, 3, wide), low, high)
        gate = made.conv(made.add("GlobalAveragePool", branch), wide, made.gone(3), 1)
        gate = made.add("Sigmoid", made.conv(gate, 3, inner, 1))
        y = made.add("Add", y, made.conv(made.add("Mul", branch, gate), wide, gone, 1))
    return made.model(y, width)


def dense(made: Builder, width: int, blocks: int) -> ModelProto:
    """Return a network as DenseNet: concatenations of all, normalised before they are read."""
    y, depth = made.conv("x", 3, made.gone(width)), width
    for _ in range(blocks):
        part = made.add("Relu", made.normalised(y, depth))
        y = made.add("Concat", y, made.conv(part, depth, made.gone(4)), axis=1)
        depth += 4
    y = made.add("AveragePool", made.conv(y, depth, made.gone(width)), kernel_shape=[2, 2], strides=[2, 2])
    sizes = made.constant(np.array([2, width, SIZE, SIZE]))
    y = made.add("Resize", y, "", "", sizes, mode="linear")
    return made.model(made.conv(y, width, made.gone(6), 1), 6)


def shuffled(made: Builder, width: int, blocks: int) -> ModelProto:
    """Return a network as ShuffleNet: halves that are convolved apart, and mixed by a shuffle of channels."""
    half = width
    y = made.add("Relu", made.conv("x", 3, made.gone(2 * half)))
    for _ in range(blocks):
        name = made.add("Split", y, made.constant(np.array([half, half])), axis=1)
        made.nodes[-1].output.append(f"{name}b")
        inner = made.gone(half)
        branch = made.add("Relu", made.conv(f"{name}b", half, inner, 1))
        branch = made.conv(branch, half, inner, 3, half)
        branch = made.add("Relu", made.conv(branch, half, made.gone(half), 1))
        y = made.add("Concat", name, branch, axis=1)
        apart, back = ([2, 2, half, SIZE, SIZE], [2, 2 * half, SIZE, SIZE])
        y = made.add("Reshape", y, made.constant(np.array(apart)))
        y = made.add("Transpose", y, perm=[0, 2, 1, 3, 4])
        y = made.add("Reshape", y, made.constant(np.array(back)))
    if blocks == 2:
        y = made.conv(y, 2 * half, np.zeros(2 * half, bool), 3, 2)  # of two groups, which need all
    return made.model(made.conv(y, 2 * half, made.gone(6), 1), 6)


KINDS = {"ResNet": residual, "MobileNet": inverted, "DenseNet": dense, "ShuffleNet": shuffled}


def ran(model: ModelProto, x: Array) -> Array:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return np.asarray(session.run(None, {"x": x})[0])


def weights(network: SharedNetwork) -> int:
    return sum(network.array(each).size for each in network.tensors)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 10**6), width=st.integers(2, 9), blocks=st.integers(1, 3), biased=st.booleans())
def test_answers_stay_as_they_are(kind: str, seed: int, width: int, blocks: int, biased: bool) -> None:
    made = Builder(seed, biased)
    before = KINDS[kind](made, width, blocks)
    x = made.noise(2, 3, SIZE, SIZE)
    after = pruned(SharedNetwork.of(before), 0.0)
    if after is None:
        return
    assert weights(after) < weights(SharedNetwork.of(before))
    onnx.checker.check_model(after.message(), full_check=True)
    wanted = ran(before, x)
    np.testing.assert_allclose(
        ran(after.message(), x), wanted, rtol=0, atol=2e-5 * (1 + np.abs(wanted).max())
    )


@pytest.mark.parametrize("kind", KINDS)
def test_all_filters_of_zeros_go(kind: str) -> None:
    """Without biases channels of zeros are zeros everywhere."""
    made = Builder(7, biased=False)
    before = KINDS[kind](made, 8, 3)
    after = pruned(SharedNetwork.of(before), 0.0)
    assert after is not None
    for node in after.nodes:
        if node.op_type == "Conv":
            w = after.array(node.input[1])
            assert np.abs(w).reshape(len(w), -1).max(axis=1).min() > 0
    x = made.noise(2, 3, SIZE, SIZE)
    with cenote.load(after.message()) as model:
        np.testing.assert_allclose(np.asarray(model(x)), ran(before, x), rtol=1e-4, atol=1e-3)
