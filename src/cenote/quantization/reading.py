"""ONNX files for the quantiser: read whole, brought to opset 13 or later, written with external data where they are
large."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import BinaryIO, TypeAlias

import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto
from onnx.external_data_helper import convert_model_to_external_data, write_external_data_tensors

from cenote.core.errors import ArgumentError, MissingFileError, ModelError, UnsupportedError, shown
from cenote.core.files import replacing
from cenote.frontends.formats import format_of_file
from cenote.quantization.network import Network, label

Source: TypeAlias = str | os.PathLike[str] | bytes | BinaryIO | ModelProto
# QuantizeLinear with an axis: scales per channel.
LEAST_OPSET = 13
_LEAST_IR = 7
# Bytes of constants from which on they are written beside the file: protobuf's limit is 2^31.
LARGEST_FILE = 1_900_000_000
_QUANTISED = (
    "QuantizeLinear",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "QLinearConv",
    "QLinearMatMul",
    "ConvInteger",
    "MatMulInteger",
)
_CONVERT = {
    "tflite": "a TensorFlow Lite model: convert it with tf2onnx (python -m tf2onnx.convert --tflite)",
    "savedmodel": "a SavedModel: convert it with tf2onnx (python -m tf2onnx.convert --saved-model)",
    "graphdef": "a frozen graph of TensorFlow: convert it with tf2onnx (python -m tf2onnx.convert --graphdef)",
    "metagraph": "a checkpoint of TensorFlow: convert it with tf2onnx (python -m tf2onnx.convert --checkpoint)",
    "keras": "a Keras model: write it as ONNX (model.export(path, format='onnx'))",
}


def read(source: Source) -> tuple[Network, list[str]]:
    """Return a copy of a model of ONNX as a network of opset 13 or later, and notes of what was changed for it.

    Raises MissingFileError, ModelError for what is no model, UnsupportedError for other formats, for models that are
    quantised, and where onnx cannot convert an opset.
    """
    model = parsed(source, "quantize")
    _refuse_quantised(model)
    ir_version = model.ir_version
    notes: list[str] = []
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    opset = next((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), 0)
    if opset < LEAST_OPSET:
        model = _converted(model, opset)
        notes.append(f"converted from opset {opset} to {LEAST_OPSET}")
    model.ir_version = max(model.ir_version, _LEAST_IR)
    # Before IR version 4 every initializer had to be listed as an input too; since then such an input is a default.
    replaceable = without_defaults(model)
    if replaceable and ir_version >= 4:
        first = ", ".join(f"'{name}'" for name in replaceable[:3])
        more = f" and {len(replaceable) - 3} more" if len(replaceable) > 3 else ""
        notes.append(
            f"inputs with default values are constants now, which callers cannot give: {first}{more}"
        )
    return Network(model), notes


def without_defaults(model: ModelProto) -> list[str]:
    """Make constants of inputs with default values, in place; return their names, sorted."""
    names = {each.name for each in model.graph.initializer}
    inputs = [each for each in model.graph.input if each.name not in names]
    replaced = sorted(names & {each.name for each in model.graph.input})
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    return replaced


def _converted(model: ModelProto, opset: int) -> ModelProto:
    try:
        return onnx.version_converter.convert_version(model, LEAST_OPSET)
    except Exception as error:  # of the library in C++, of many kinds
        raise UnsupportedError(
            f"the model is of opset {opset}; scales per channel need {LEAST_OPSET}, to which onnx cannot convert it "
            f"({' '.join(str(error).split())}): export it with a later opset"
        ) from error


def write(network: Network, path: Path) -> None:
    """Write a model, its constants in PATH.data where they are too many for one file. Raises OSError."""
    model = network.model
    if network.weight_bytes() < LARGEST_FILE:
        with replacing(path, 0o644) as file:
            file.write(model.SerializeToString())
        return
    _write_in_two(model, path)


def _write_in_two(model: ModelProto, path: Path) -> None:
    """Write a model and its constants in two files. The constants have a name that the model at this path, if there is
    one, does not have for its own, so that it stays whole until the new one takes its place."""
    names, old = [f"{path.name}.data", f"{path.name}.data2"], _files_of(path)
    if names[0] in old:
        names.reverse()
    data, other = map(path.with_name, names)
    copy = ModelProto()
    copy.CopyFrom(model)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=path.parent) as folder:
        convert_model_to_external_data(copy, location=data.name, size_threshold=1024)
        write_external_data_tensors(copy, folder)
        os.replace(Path(folder) / data.name, data)
    with replacing(path, 0o644) as file:
        file.write(copy.SerializeToString())
    if other.name in old:  # else it is another's
        other.unlink(missing_ok=True)


def _files_of(path: Path) -> set[str]:
    """Return the names of the files beside it that the model at this path, if there is one, has its constants in."""
    try:
        model = onnx.load(path, load_external_data=False)
    except (OSError, DecodeError):
        return set()
    entries = (each for tensor in model.graph.initializer for each in tensor.external_data)
    return {each.value for each in entries if each.key == "location"}


def parsed(source: Source, doing: str) -> ModelProto:
    """Return a message of its own, constants in it. `doing`: the function that takes it, for errors."""
    if isinstance(source, ModelProto):
        copy = ModelProto()
        copy.CopyFrom(source)
        return copy
    if hasattr(source, "read"):
        source = source.read()
    if isinstance(source, bytearray | memoryview):
        source = bytes(source)
    if not isinstance(source, bytes | str | os.PathLike):
        raise ModelError(f"a model is a path, bytes, a binary file or an onnx.ModelProto, not {type(source)}")
    name = "the model" if isinstance(source, bytes) else os.fspath(source)
    try:
        form = format_of_file(source)
    except FileNotFoundError:
        raise MissingFileError(f"{name}: there is no such file", name) from None
    except OSError as error:
        raise ModelError(f"{name}: the file cannot be read ({error})") from error
    if form != "onnx":
        what = _CONVERT.get(form or "savedmodel", f"in the format {form}")
        raise UnsupportedError(f"{name}: {doing} takes models of ONNX; this is {what}")
    try:
        model = onnx.load_model_from_string(source) if isinstance(source, bytes) else onnx.load(source)
    except DecodeError as error:
        raise ModelError(f"{name}: not an ONNX model, or truncated or damaged") from error
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise ModelError(f"{name}: it cannot be read with its external data ({error})") from error
    if not model.HasField("graph") or not model.graph.node:
        raise ModelError(f"{name}: this is not an ONNX model: it has no graph")
    return model


def destination(source: Source, out: str | os.PathLike[str]) -> Path:
    """Return the path to write, known to be possible before anything is computed."""
    if not isinstance(out, str | os.PathLike):
        raise ArgumentError(f"out: {shown(out)} is not a path")
    path = Path(out)
    if path.is_dir() or not path.parent.is_dir():
        raise ArgumentError(f"out: {path} is a folder, or lies in a folder that does not exist")
    origin = Path(source) if isinstance(source, str | os.PathLike) else None
    if origin is not None and origin.exists() and path.exists() and path.samefile(origin):
        raise ArgumentError(f"out: {path} is the float model itself")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise ArgumentError(
            f"out: nothing can be written in the folder {path.parent} ({error.strerror}): name a path in another"
        ) from None
    return path


def _refuse_quantised(model: ModelProto) -> None:
    for node in model.graph.node:
        if node.op_type in _QUANTISED:
            raise UnsupportedError(
                f"the model is quantised already: node '{label(node)}' is {node.op_type}; give the float model"
            )
