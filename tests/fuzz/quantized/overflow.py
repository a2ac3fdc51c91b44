"""Numbers of which a judge of quantised graphs does not know what becomes: sums that overflow float32, and biases that
are taken for zero."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

from cenote.frontends.onnx import load_onnx
from cenote.graph.interpreter import evaluate
from tests.fuzz.quantized.maker import Array

SUMMING = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def overflowing(model: onnx.ModelProto, given: Mapping[str, Array]) -> set[str]:
    """The values that are made of a sum of products, of floats, whose terms' magnitudes add up to no float32 number."""
    sums = [node for node in model.graph.node if node.op_type in SUMMING]
    if not sums:
        return set()
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    del probe.graph.output[:]
    for node in sums:
        magnitudes = [f"{node.output[0]}.{place}.magnitude" for place in range(len(node.input))]
        probe.graph.node.extend(
            helper.make_node("Abs", [x], [name]) for x, name in zip(node.input, magnitudes, strict=True)
        )
        total = onnx.NodeProto()
        total.CopyFrom(node)
        total.input[:], total.output[:] = magnitudes, [f"{node.output[0]}.total"]
        probe.graph.node.append(total)
        probe.graph.output.append(onnx.ValueInfoProto(name=total.output[0]))
    totals = evaluate(load_onnx(probe.SerializeToString()).graph, given)
    unknown = {node.output[0] for node in sums if not np.isfinite(totals[f"{node.output[0]}.total"]).all()}
    for node in model.graph.node:
        if not unknown.isdisjoint(node.input):
            unknown.update(node.output)
    return unknown


def without_tiny_biases(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model, where biases of convolutions below the smallest normal number are zero, as Cenote takes them."""
    constants = {each.name: each for each in model.graph.initializer}
    makers = {name: node for node in model.graph.node for name in node.output}
    for node in model.graph.node:
        maker = makers.get(node.input[2]) if node.op_type == "Conv" and len(node.input) > 2 else None
        if maker is None or maker.op_type != "DequantizeLinear" or not {*maker.input} <= constants.keys():
            continue
        whole, scale = (numpy_helper.to_array(constants[name]) for name in maker.input[:2])
        bias = whole.astype(np.float32) * scale
        tiny = (np.abs(bias) < np.finfo(np.float32).smallest_normal) & (bias != 0)
        if tiny.any():
            kept = numpy_helper.from_array(np.where(tiny, 0, whole).astype(whole.dtype), maker.input[0])
            constants[maker.input[0]].CopyFrom(kept)
    return model
