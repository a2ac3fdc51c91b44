"""Sums of 8-bit products that engines saturate or round early, counted layer by layer.

Every quantised value of a network is both an output and, for the layers that read it, an input: each layer gets the
numbers that a plain computation found, so that errors are not carried on. A number is counted that is more than one
step from the plain one, which sums in floats; a tie that rounds the other way is one step.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from bench.engines import EngineSpec
from bench.files import ModelFiles
from bench.narrow import ISAS, narrowed
from bench.process import EngineError, EngineProcess
from bench.quantized_files import plain_session

PEERS = {
    name: EngineSpec(name, "bench.engines.whole", class_name)
    for name, class_name in (
        ("cenote", "CenoteModel"),
        ("onnxruntime", "OnnxRuntimeModel"),
        ("openvino", "OpenVinoModel"),
    )
}


@dataclass(frozen=True)
class Saturation:
    """What one engine made of all layers of a network: numbers in all, those more than one step off, and the most
    steps; or why there is nothing."""

    network: str
    isa: str
    engine: str
    numbers: int = 0
    off: int = 0
    steps: int = 0
    failure: str = ""


def saturations(models: Sequence[ModelFiles], engines: Sequence[str]) -> list[Saturation]:
    """Run each network on each engine, on the CPU as it is ("" as `isa`) and narrowed."""
    found = []
    for isa in ("", *ISAS):
        with narrowed(isa):
            for files in models:
                proto, given, wanted = in_layers(files)
                path = files.converted("layers.onnx")
                onnx.save(proto, path)
                for name in engines:
                    found.append(compared(Saturation(files.name, isa, name), str(path), given, wanted))
                path.unlink()
    return found


def in_layers(
    files: ModelFiles,
) -> tuple[onnx.ModelProto, Mapping[str, np.ndarray], Sequence[np.ndarray]]:
    """Return the network cut at its quantised values, its inputs, and the outputs that a plain run gives."""
    model = onnx.load(files.onnx)
    names = [node.output[0] for node in model.graph.node if node.op_type == "QuantizeLinear"]
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    del whole.graph.output[:]
    whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    x = files.read("x")
    values = dict(zip(names, plain_session(whole.SerializeToString()).run(None, {"x": x}), strict=True))
    cut = onnx.ModelProto()
    cut.CopyFrom(whole)
    read = set()
    for node in cut.graph.node:
        for place, name in enumerate(node.input):
            if name in values:
                node.input[place] = f"{name}.given"
                read.add(name)
    del cut.graph.value_info[:]
    for declared, suffix, kept in (
        (cut.graph.input, ".given", [name for name in names if name in read]),
        (cut.graph.output, "", names),
    ):
        if not suffix:
            del declared[:]
        for name in kept:
            kind = helper.np_dtype_to_tensor_dtype(values[name].dtype)
            declared.append(helper.make_tensor_value_info(name + suffix, kind, values[name].shape))
    given = {"x": x, **{f"{name}.given": values[name] for name in names if name in read}}
    return cut, given, [values[name] for name in names]


def compared(
    entry: Saturation, path: str, given: Mapping[str, np.ndarray], wanted: Sequence[np.ndarray]
) -> Saturation:
    """Run the layers in a process of the engine's own, and count."""
    process = EngineProcess(PEERS[entry.engine], 1)
    try:
        process.call("start", PEERS[entry.engine], 1)
        process.call("load", path, 1)
        _, found = process.call("first", given)
    except EngineError as problem:
        return Saturation(entry.network, entry.isa, entry.engine, failure=str(problem))
    finally:
        process.close()
    apart = np.concatenate(list(distances(found, wanted)))
    return Saturation(
        entry.network, entry.isa, entry.engine, apart.size, int((apart > 1).sum()), int(apart.max())
    )


def distances(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
    """Yield how many steps the numbers of each value are off."""
    for y, truth in zip(found, wanted, strict=True):
        yield np.abs(y.astype(np.int64) - truth.astype(np.int64)).ravel()
