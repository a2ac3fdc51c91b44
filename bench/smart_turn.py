"""smart-turn, a trained model in 8 bits (QDQ; whether a speaker has finished), as files that the benchmarks read.

The package holds no float model, so the one beside it computes in float32 with the weights that the 8 bits stand for
and without rounding activations: the truth that both are compared with.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from bench.files import ModelFiles
from bench.quantized_files import FURTHER, own_error, run_plainly
from examples.real_models import fetch

NAME = "smart_turn"
SHAPE = (1, 80, 800)  # log-mel features of 8 s of sound
SPREAD = 0.5  # of features, which a logarithm and a shift leave near [-1, 1.5]
SEED = 11


def write(folder: Path) -> None:
    """Write both models and their arrays, unless they are there. Raises FetchError when the package cannot be had."""
    floats, quantized = ModelFiles(NAME, folder), ModelFiles(f"{NAME}.int8", folder)
    if quantized.arrays.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    model = onnx.load(fetch("turn"))
    name_and_fix(model)
    onnx.save(model, quantized.onnx)
    onnx.save(without_rounding(model), floats.onnx)
    x = np.random.default_rng(SEED).normal(0, SPREAD, SHAPE).astype(np.float32)
    y = run_plainly(floats.onnx, x)
    tolerance = FURTHER * own_error(quantized.onnx, x, y)
    np.savez(quantized.arrays, x=x, y64=y, macs=0, tolerance=tolerance)
    np.savez(floats.arrays, x=x, y64=y, macs=0)


def name_and_fix(model: onnx.ModelProto) -> None:
    """Call the input x, and fix its batch to 1."""
    given = model.graph.input[0]
    for node in model.graph.node:
        node.input[:] = ["x" if name == given.name else name for name in node.input]
    given.name = "x"
    for dimension, extent in zip(given.type.tensor_type.shape.dim, SHAPE, strict=True):
        dimension.dim_value = extent


def without_rounding(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with activations as they are before quantisation, and constants as what they stand for."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    constants = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    before = {node.output[0]: node.input[0] for node in model.graph.node if node.op_type == "QuantizeLinear"}
    instead: dict[str, str] = {}
    del made.graph.node[:]
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear":
            continue
        if node.op_type == "DequantizeLinear" and node.input[0] in before:
            source = before[node.input[0]]
            instead[node.output[0]] = instead.get(source, source)
        elif node.op_type == "DequantizeLinear":
            axis = next((each.i for each in node.attribute if each.name == "axis"), 1)
            value = dequantized([constants[name] for name in node.input if name], axis)
            made.graph.initializer.append(numpy_helper.from_array(value, node.output[0]))
        else:
            kept = made.graph.node.add()
            kept.CopyFrom(node)
            kept.input[:] = [instead.get(name, name) for name in node.input]
    for output in made.graph.output:
        if output.name in instead:
            made.graph.node.append(onnx.helper.make_node("Identity", [instead[output.name]], [output.name]))
    read = {name for node in made.graph.node for name in node.input}
    kept_constants = [each for each in made.graph.initializer if each.name in read]
    del made.graph.initializer[:]
    made.graph.initializer.extend(kept_constants)
    return made


def dequantized(inputs: Sequence[np.ndarray], axis: int) -> np.ndarray:
    """Return what numbers stand for: (q - zero) * scale, by the axis where there are several scales."""
    q, scale, zero = (*inputs, np.zeros_like(inputs[1]))[:3]
    if scale.ndim:
        along = [-1 if place == axis % q.ndim else 1 for place in range(q.ndim)]
        scale, zero = scale.reshape(along), zero.reshape(along)
    found: np.ndarray = ((q.astype(np.int64) - zero.astype(np.int64)) * scale).astype(np.float32)
    return found
