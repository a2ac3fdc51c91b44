"""Writes the benchmark networks as ONNX files, each with a seeded input and torch's answers.

    python -m bench.export               all of them, into bench/.models
    python -m bench.export resnet18 --output elsewhere

For every network: `<name>.onnx`; `<name>.npz` with the input `x`, torch's float32 output `y`, the output
`y64` of the same weights in float64 (the yardstick for every engine's error) and the multiply-adds `macs`;
`<name>.pt`, the weights for the torch engine.
"""

import argparse
import time
import warnings
from math import prod
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import nn

from bench.files import MODEL_FOLDER, ModelFiles
from bench.networks import NETWORKS, build, names

OPSET = 17
INPUT_SEED = 7


def export(files: ModelFiles) -> None:
    """Writes everything that the benchmarks need of one network."""
    module = build(files.name)
    shape = NETWORKS[files.name].input_shape
    x = np.random.default_rng(INPUT_SEED).standard_normal(shape, dtype=np.float32)
    files.folder.mkdir(parents=True, exist_ok=True)
    torch.save(module.state_dict(), files.weights)
    write_onnx(module, torch.from_numpy(x), files)
    y, y64 = answers(module, torch.from_numpy(x))
    # The arrays come last: their presence says that the whole set is complete.
    np.savez(files.arrays, x=x, y=y, y64=y64, macs=multiply_adds(files.onnx))


def write_onnx(module: nn.Module, x: torch.Tensor, files: ModelFiles) -> None:
    """Exports by tracing, the path that leaves the plainest graphs."""
    mode = torch.onnx.TrainingMode
    keep = NETWORKS[files.name].keep_batch_norm
    with torch.no_grad(), warnings.catch_warnings():
        # The tracing exporter is deprecated; the new one rewrites the graph and cannot keep batch-norm nodes.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            (x,),
            str(files.onnx),
            opset_version=OPSET,
            input_names=["x"],
            output_names=["y"],
            training=mode.PRESERVE if keep else mode.EVAL,
            dynamo=False,
        )
    onnx.checker.check_model(str(files.onnx))


def answers(module: nn.Module, x: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The output in float32, and with the same weights in float64. Turns the module into a float64 one."""
    with torch.no_grad():
        y = module(x).numpy()
        y64 = module.double()(x.double()).numpy()
    return y, y64


def multiply_adds(path: Path) -> int:
    """Multiply-adds of one inference in convolutions and linear layers."""
    graph = onnx.shape_inference.infer_shapes(onnx.load(path)).graph
    weights = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    elements = {
        value.name: prod(axis.dim_value for axis in value.type.tensor_type.shape.dim)
        for value in (*graph.value_info, *graph.output)
    }
    total = 0
    for node in graph.node:
        if node.op_type == "Conv":
            total += elements[node.output[0]] * prod(weights[node.input[1]][1:])
        elif node.op_type == "Gemm":
            total += prod(weights[node.input[1]])
    return total


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.export", description="Write the benchmark networks."
    )
    parser.add_argument("names", nargs="*", default=names(), help="networks (default: all)")
    parser.add_argument("--output", type=Path, default=MODEL_FOLDER, help="folder (default: bench/.models)")
    parser.add_argument("--again", action="store_true", help="write again what is there already")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(names()))
    if unknown:
        parser.error(f"no such network: {', '.join(unknown)}; there are {', '.join(names())}")
    for name in arguments.names:
        files = ModelFiles(name, arguments.output)
        if files.arrays.exists() and not arguments.again:
            print(f"{name}: there already", flush=True)
            continue
        start = time.perf_counter()
        export(files)
        print(f"{name}: {time.perf_counter() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
