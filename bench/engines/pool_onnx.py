"""A pooling case as a one-node ONNX model, for the engines that only take models."""

from math import prod
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from bench.cases import PoolCase
from bench.engines.base import Arrays, UnavailableError

OPSET = 17


def pool_onnx(case: PoolCase) -> bytes:
    """The serialised model: input `x`, output `y`, and output `where` if the case asks for indices."""
    operator, attributes = operator_of(case)
    outputs = [("y", TensorProto.FLOAT)] + ([("where", TensorProto.INT64)] if case.indices else [])
    node = helper.make_node(operator, ["x"], [name for name, _ in outputs], **attributes)
    graph = helper.make_graph(
        [node],
        "pool",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, case.shape)],
        [helper.make_tensor_value_info(name, kind, case.output_shape) for name, kind in outputs],
    )
    # IR version 10 is read by every release of the last years; the newest would lock some peers out.
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    data: bytes = model.SerializeToString()
    return data


def within_plane(case: PoolCase, outputs: Arrays) -> Arrays:
    """The outputs with indices counted from the start of their plane, as torch and the reference do.

    ONNX counts from the start of the whole tensor.
    """
    return (outputs[0], *(np.asarray(where) % prod(case.shape[2:]) for where in outputs[1:]))


def operator_of(case: PoolCase) -> tuple[str, dict[str, Any]]:
    """ONNX operator and attributes."""
    if case.kind == "adaptive average":
        raise UnavailableError("ONNX has no adaptive pooling")
    if case.kind == "global average":
        return "GlobalAveragePool", {}
    attributes: dict[str, Any] = {
        "kernel_shape": [case.kernel] * case.rank,
        "strides": [case.stride] * case.rank,
        "pads": [case.padding] * (2 * case.rank),
    }
    if case.kind == "max":
        return "MaxPool", attributes
    return "AveragePool", {**attributes, "count_include_pad": int(case.count_padding)}
