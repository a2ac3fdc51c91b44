"""Models of a few nodes as bytes, and the operators of their steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx import NodeProto, TensorProto, helper, numpy_helper

import cenote
from cenote.core.types import Array

KINDS = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "int64": TensorProto.INT64,
    "uint8": TensorProto.UINT8,
    "int8": TensorProto.INT8,
}


def model(
    nodes: Sequence[NodeProto], inputs: Mapping[str, Array], constants: Mapping[str, Array], outputs: Sequence[str],
    kinds: Mapping[str, int] | None = None,
) -> bytes:  # fmt: skip
    declared = [helper.make_tensor_value_info(k, KINDS[x.dtype.name], x.shape) for k, x in inputs.items()]
    first = KINDS[next(iter(inputs.values())).dtype.name]
    made = [helper.make_tensor_value_info(name, (kinds or {}).get(name, first), None) for name in outputs]
    initial = [numpy_helper.from_array(x, k) for k, x in constants.items()]
    graph = helper.make_graph(list(nodes), "g", declared, made, initial)
    content: bytes = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8
    ).SerializeToString()
    return content


def steps(loaded: cenote.Model) -> list[str]:
    return [step.op for step in loaded.plan.describe().steps]
