"""Small ONNX models for samples of causes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cenote.core.types import Array

Node = tuple[str, Sequence[str], Sequence[str], dict[str, Any]]


def model(
    nodes: Sequence[Node],
    inputs: dict[str, Sequence[int]],
    outputs: Sequence[str],
    constants: dict[str, Array],
    dtype: Any = np.float32,
) -> Any:
    """An onnx.ModelProto of (operator, inputs, outputs, attributes); each node is named after its first output."""
    from onnx import helper, numpy_helper

    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [helper.make_node(op, list(a), list(b), name=b[0], **attributes) for op, a, b, attributes in nodes],
        "sample",
        [helper.make_tensor_value_info(name, element, list(shape)) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, element, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def noise(*shape: int, dtype: Any = np.float32, scale: float = 1.0) -> Array:
    """Normal numbers, always the same."""
    made: Array = (np.random.default_rng(0).standard_normal(shape) * scale).astype(dtype)
    return made


def convolution(
    channels: int,
    filters: int,
    pixels: int,
    kernel: int = 3,
    count: int = 1,
    dtype: Any = np.float32,
    **attributes: Any,
) -> tuple[Any, dict[str, Array]]:
    """So many convolutions one after another, and an input. Pads keep the size."""
    dilation = attributes.get("dilations", [1, 1])[0]
    pad = dilation * (kernel // 2)
    groups = attributes.get("group", 1)
    nodes: list[Node] = []
    constants, width = dict[str, Array](), channels
    for index in range(count):
        source = f"y{index - 1}" if index else "x"
        nodes.append(("Conv", [source, f"w{index}"], [f"y{index}"], {"pads": [pad] * 4, **attributes}))
        constants[f"w{index}"] = noise(filters, width // groups, kernel, kernel, dtype=dtype, scale=0.05)
        width = filters
    shape = (1, channels, pixels, pixels)
    made = model(nodes, {"x": shape}, [f"y{count - 1}"], constants, dtype)
    return made, {"x": noise(*shape, dtype=dtype)}


def products(rows: int, size: int, count: int) -> tuple[Any, dict[str, Array]]:
    """So many matrix products one after another."""
    nodes: list[Node] = [("Gemm", [f"y{i - 1}" if i else "x", f"w{i}"], [f"y{i}"], {}) for i in range(count)]
    constants = {f"w{i}": noise(size, size, scale=0.01) for i in range(count)}
    made = model(nodes, {"x": (rows, size)}, [f"y{count - 1}"], constants)
    return made, {"x": noise(rows, size)}


def largest_in_rows(rows: int, numbers: int) -> tuple[Any, dict[str, Array]]:
    """Where the largest of each row is; so many numbers in rows, each row a piece of work."""
    shape = (rows, numbers // rows)
    graph = model([("ArgMax", ["x"], ["y"], {"axis": 1})], {"x": shape}, ["y"], {})
    return graph, {"x": noise(*shape)}
