"""Small networks to quantise, and what ONNX Runtime makes of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import cenote

Array = NDArray[Any]
Shape = Sequence[int | str]


def noise(*shape: int, scale: float = 1.0) -> Array:
    return (scale * np.random.default_rng(sum(shape)).standard_normal(shape)).astype(np.float32)


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), outputs.split()[0], **attributes)


def model(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Shape],
    outputs: str,
    constants: Mapping[str, Array],
    opset: int = 17,
) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs.split()],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(made)  # of outputs, which the checker wants


def classifier(opset: int = 17) -> ModelProto:
    """Convolutions with normalisations, a depthwise one, a residual, pools, a concatenation, a linear layer."""
    weights = {
        "w1": noise(8, 3, 3, 3, scale=0.3),
        "w2": noise(8, 1, 3, 3, scale=0.4),
        "b2": noise(8, scale=0.2),
        "w3": noise(8, 8, 1, 1, scale=0.4),
        "w4": noise(6, 16, 3, 3, scale=0.1),
        "b4": noise(6, scale=0.1),
        "w5": noise(5, 6, scale=0.5),
        "b5": noise(5),
        "gamma": 1 + noise(8, scale=0.2),
        "beta": noise(8, scale=0.3),
        "mean": noise(8, scale=0.1),
        "variance": 1 + np.abs(noise(8, scale=0.5)),
        "low": np.float32(0),
        "high": np.float32(6),
    }
    nodes = [
        node("Conv", "x w1", "c1", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "c1 gamma beta mean variance", "n1"),
        node("Relu", "n1", "r1"),
        node("Conv", "r1 w2 b2", "c2", pads=[1, 1, 1, 1], group=8),
        node("Clip", "c2 low high", "r2"),
        node("Conv", "r2 w3", "c3"),
        node("Add", "c3 r1", "sum"),
        node("MaxPool", "sum", "pooled", kernel_shape=[2, 2], strides=[2, 2]),
        node("AveragePool", "r2", "averaged", kernel_shape=[2, 2], strides=[2, 2]),
        node("Concat", "pooled averaged", "both", axis=1),
        node("Conv", "both w4 b4", "c4", strides=[2, 2]),
        node("Relu", "c4", "r4"),
        node("GlobalAveragePool", "r4", "g"),
        node("Flatten", "g", "f"),
        node("Gemm", "f w5 b5", "y", transB=1),
    ]
    if opset < 11:  # bounds are attributes
        nodes[4] = node("Clip", "c2", "r2", min=0.0, max=6.0)
        del weights["low"], weights["high"]
    return model(nodes, {"x": ["n", 3, 12, 12]}, "y", weights, opset)


def examples(count: int = 24) -> Array:
    return np.random.default_rng(2).standard_normal((count, 3, 12, 12)).astype(np.float32)


def onnxruntime(source: ModelProto | Path, feed: Mapping[str, Array]) -> list[Array]:
    """Answers of ONNX Runtime node by node, whose sums are floats: they do not depend on the CPU."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    given = source.SerializeToString() if isinstance(source, ModelProto) else str(source)
    session = ort.InferenceSession(given, options, providers=["CPUExecutionProvider"])
    found: list[Array] = session.run(None, dict(feed))
    return found


def ops(path: Path) -> list[str]:
    """The operators of a file."""
    return [each.op_type for each in onnx.load(path).graph.node]


def quantized(
    tmp_path: Path, given: Any = None, data: Any = None, **options: Any
) -> tuple[Path, cenote.QuantizationReport]:
    """Quantise a model (default: `classifier`) on data (default: `examples`); return the file and the report."""
    path = tmp_path / "quantized.onnx"
    report = cenote.quantize(
        classifier() if given is None else given,
        examples() if data is None else data,
        path,
        measure=False,
        threads=1,
        **options,
    )
    onnx.checker.check_model(onnx.load(path))
    return path, report
