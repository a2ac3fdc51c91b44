"""A residual network of 18 layers over volumes, as an ONNX model whose weights are inputs: planners need no values."""

from __future__ import annotations

from onnx import ModelProto, TensorProto, helper


def residual_volumes(frames: int = 16, size: int = 112) -> ModelProto:
    """x: (1, 3, frames, size, size)."""
    nodes, inputs = [], [_input("x", (1, 3, frames, size, size))]

    def convolution(x: str, shape: tuple[int, ...], stride: int | tuple[int, ...]) -> str:
        strides = [stride] * 3 if isinstance(stride, int) else list(stride)
        name = f"c{len(nodes)}"
        inputs.append(_input(f"{name}_w", shape))
        pads = [extent // 2 for extent in shape[2:]] * 2
        nodes.append(helper.make_node("Conv", [x, f"{name}_w"], [name], strides=strides, pads=pads))
        return name

    def relu(x: str) -> str:
        nodes.append(helper.make_node("Relu", [x], [f"{x}_relu"]))
        return f"{x}_relu"

    y, channels = relu(convolution("x", (64, 3, 3, 7, 7), (1, 2, 2))), 64
    for stage, filters in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            inner = relu(convolution(y, (filters, channels, 3, 3, 3), stride))
            outer = convolution(inner, (filters, filters, 3, 3, 3), 1)
            shortcut = y if stride == 1 else convolution(y, (filters, channels, 1, 1, 1), stride)
            nodes.append(helper.make_node("Add", [outer, shortcut], [f"{outer}_sum"]))
            y, channels = relu(f"{outer}_sum"), filters
    nodes.append(helper.make_node("GlobalAveragePool", [y], ["y"]))
    graph = helper.make_graph(nodes, "residual_volumes", inputs, [_input("y", (1, 512, 1, 1, 1))])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _input(name: str, shape: tuple[int, ...]) -> object:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
