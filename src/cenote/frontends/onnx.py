"""Reader of ONNX models: file mechanics only. The meaning of operators is in `cenote.ops`.

Imported on demand, because importing onnx takes 0.2 s. Files beside it: `onnx_wire` (weights without copies),
`onnx_tensors` (arrays, attributes, external data), `onnx_schema` (valid forms of a node), `onnx_order`
(topological order), `onnx_nodes` (decoding, inlining).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from cenote.core.errors import CenoteError, InputError, MissingFileError, ModelError, UnsupportedError
from cenote.core.files import reading
from cenote.core.types import Declared
from cenote.frontends.imported import Ends, ImportedModel
from cenote.frontends.onnx_nodes import OnnxImporter
from cenote.frontends.onnx_order import where
from cenote.frontends.onnx_outputs import declared_outputs
from cenote.frontends.onnx_schema import STANDARD, check_opset, domain_of, opset_range
from cenote.frontends.onnx_scope import OnnxScope
from cenote.frontends.onnx_tensors import Tensors, dtype_of, shape_of
from cenote.frontends.onnx_wire import split
from cenote.frontends.wire import ByteSource, BytesSource, FileSource
from cenote.graph.graph import Graph
from cenote.ops.user_operators import UserOperators

Contents = Mapping[int, NDArray[np.uint8]]
_ALL = Ends()


def load_onnx(
    source: str | os.PathLike[str] | bytes | BinaryIO | onnx.ModelProto,
    problems: list[str] | None = None,
    ends: Ends = _ALL,
    operators: UserOperators | None = None,
) -> ImportedModel:
    """Read a model from a path, bytes, a binary file object or an onnx.ModelProto.

    `operators` decode nodes of the user's.

    The graph is not specialised: only constants have types. Weights of a model given as bytes are views of them.

    `problems`, if given, collects nodes that are not supported instead of an error; the graph is incomplete then.
    Where the model is to be cut (`ends`), they are in the graph as `Refused`: the remaining part need not contain
    any.

    Raises ModelError when it is not a valid model (or cannot be read), UnsupportedError when it uses an
    operator, opset, type or attribute that Cenote does not have; the message names the file and the node.
    """
    name = _name(source)
    try:
        model, contents, folder = _parse(source)
        try:
            return _import(model, contents, folder, problems, ends, operators or UserOperators({}))
        except (TypeError, AttributeError, ValueError, LookupError) as error:
            # protobuf returns text that is not UTF-8 as bytes, which no code below expects.
            text = _not_text(model)
            if text is None:
                raise
            raise ModelError(f"{text!r} is not valid UTF-8 text; the file is damaged") from error
    except CenoteError as error:
        raise error.located(name) from error


def _name(source: object) -> str:
    """Return the model's name for errors."""
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    if isinstance(source, onnx.ModelProto):
        return f"model '{source.graph.name}'" if source.HasField("graph") else "ModelProto"
    name = getattr(source, "name", None)
    return name if isinstance(name, str) and name else f"model given as {type(source).__name__}"


def _parse(source: Any) -> tuple[Any, Contents, Path | None]:
    """Return the message, the raw bytes of initializers that are not in it, and the folder of external data."""
    if isinstance(source, onnx.ModelProto):
        return source, {}, None
    if isinstance(source, bytes | bytearray | memoryview):
        return (*_read(BytesSource(bytes(source))), None)
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        try:
            with reading(path) as file:
                return (*_read(FileSource(file)), path.parent)
        except FileNotFoundError:
            raise MissingFileError("there is no such file", os.fspath(path)) from None
        except (OSError, ValueError) as error:
            if isinstance(error, CenoteError):
                raise
            raise ModelError(f"the file cannot be read ({error})") from error
    if hasattr(source, "read"):
        content = source.read()
        if not isinstance(content, bytes):
            raise ModelError("the file object gives text; open it in binary mode ('rb')")
        return (*_read(BytesSource(content)), None)
    advice = (
        "; export it with torch.onnx.export (docs/from_torch.md)" if hasattr(source, "state_dict") else ""
    )
    raise ModelError(
        f"a model is a path, bytes, a binary file object or an onnx.ModelProto, not {type(source)}{advice}"
    )


def _read(source: ByteSource) -> tuple[Any, Contents]:
    if not source.size:
        raise ModelError("the file is empty")
    parts = split(source)
    try:
        model = onnx.ModelProto.FromString(parts.skeleton)
    except DecodeError as error:
        raise ModelError(
            f"not an ONNX model, or truncated or damaged: its {source.size} bytes cannot be parsed"
        ) from error
    return model, dict(zip(parts.weights, source.arrays([*parts.weights.values()]), strict=True))


def _import(
    model: Any,
    contents: Contents,
    folder: Path | None,
    problems: list[str] | None,
    ends: Ends,
    operators: UserOperators,
) -> ImportedModel:
    opsets = _opsets(model)
    graph = model.graph
    kinds = {value.name: value.type for value in (*graph.input, *graph.value_info)}
    importer = OnnxImporter(model.functions, Tensors(folder), kinds, problems, bool(ends), operators)
    scope = OnnxScope(opsets)
    importer.add_initializers(graph, scope, contents)
    inputs = []
    for value in graph.input:
        if value.name in importer.constants:
            # Before IR version 4 every initializer had to be listed as an input too.
            continue
        if not value.name or value.name in scope.names:
            raise ModelError(f"input '{value.name}' has no name or is declared twice")
        inputs.append(_declared(value, f"input '{value.name}'"))
        importer.define(value.name, scope)
    importer.taken.update(name for node in graph.node for name in node.output)
    scope.wanted = {name: name for node in graph.node for name in node.output if name}
    importer.add_nodes(graph.node, scope)
    outputs = tuple(value.name for value in graph.output)
    if not all(isinstance(name, str) for name in importer.taken):
        raise TypeError("a name is not text")
    for name in outputs:
        if not name or scope.find(name) is None:
            raise ModelError(f"output '{name}' of the graph is made by no node")
    if len(set(outputs)) != len(outputs):
        raise ModelError(f"an output of the graph is listed twice ({', '.join(outputs)})")
    return ImportedModel(
        Graph(tuple(inputs), outputs, tuple(importer.nodes), importer.constants, name=graph.name or "graph"),
        declared_outputs(model, _declared),
        {item.key: item.value for item in model.metadata_props},
        _about(model),
        tuple(importer.tensors.external),
        inside={
            value.name: _declared(value, f"value '{value.name}'")
            for value in graph.value_info
            if value.name in (ends.inputs or ())
        },
    )


def _about(model: Any) -> dict[str, str]:
    """Return the file's description of itself."""
    texts = {
        "producer_name": model.producer_name,
        "producer_version": model.producer_version,
        "graph_name": model.graph.name,
        "domain": model.domain,
        "description": model.doc_string,
        "graph_description": model.graph.doc_string,
        "version": str(model.model_version) if model.model_version else "",
    }
    return {name: text for name, text in texts.items() if text}


def _not_text(message: Any) -> bytes | None:
    """Return the first text field that is not UTF-8, of this message or of one in it."""
    for kind, content in message.ListFields():
        single = isinstance(content, str | bytes) or hasattr(content, "ListFields")
        items = (content,) if single else content
        if kind.type == kind.TYPE_STRING:
            text = next((item for item in items if isinstance(item, bytes)), None)
        elif kind.type == kind.TYPE_MESSAGE:
            text = next((inner for item in items if (inner := _not_text(item)) is not None), None)
        else:
            text = None
        if isinstance(text, bytes):
            return text
    return None


def _opsets(model: Any) -> dict[str, int]:
    """Return the opset by domain, after the checks that a file is a model at all."""
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise ModelError("this is not an ONNX model: it has no graph")
    if not model.graph.output:
        raise ModelError("the graph has no outputs")
    if model.ir_version > onnx.IR_VERSION:
        raise UnsupportedError(
            f"IR version {model.ir_version} is newer than the installed onnx package knows "
            f"({onnx.IR_VERSION}); upgrade the onnx package"
        )
    opsets = {domain_of(entry.domain): entry.version for entry in model.opset_import}
    if not opsets:
        # As the specification says for files older than opsets.
        opsets = {STANDARD: 1}
    if STANDARD in opsets:
        check_opset(STANDARD, opsets[STANDARD])
    return opsets


def _declared(value: Any, what: str) -> Declared:
    """Return an input or output with its declared type."""
    kind = value.type.WhichOneof("value")
    if kind in ("sequence_type", "optional_type"):
        return _container(value, what)
    if kind != "tensor_type":
        raise UnsupportedError(
            f"{what} is a {kind or 'value without a type'}; dense tensors are supported, and sequences and optionals "
            "of them"
        )
    tensor = value.type.tensor_type
    return Declared(value.name, dtype_of(tensor.elem_type, what), shape_of(tensor))


def _container(value: Any, what: str) -> Declared:
    """Return a sequence of tensors, or an optional tensor or sequence."""
    form, inner = "sequence", value.type
    if inner.HasField("optional_type"):
        form, inner = "optional", inner.optional_type.elem_type
    if inner.HasField("sequence_type"):
        inner = inner.sequence_type.elem_type
        form = form if form == "sequence" else "optional sequence"
    if not inner.HasField("tensor_type"):
        raise UnsupportedError(f"{what} holds something else than dense tensors, which is not supported")
    element = dtype_of(inner.tensor_type.elem_type, what).name if inner.tensor_type.elem_type else ""
    return Declared(value.name, np.dtype(object), (), form, element)


def model_of_node(node: onnx.NodeProto, inputs: Sequence[NDArray[Any]], opset: int | None) -> onnx.ModelProto:
    """Return a model of one node, for inputs like these: one array per input that the node has."""
    names = list(dict.fromkeys(name for name in node.input if name))
    if len(names) != len(inputs):
        raise InputError(
            f"{where(node)}: takes {len(names)} inputs ({', '.join(names)}), {len(inputs)} are given"
        )
    domain = domain_of(node.domain)
    known = opset_range(domain)
    version = opset or (known[1] if known else 1)
    make = onnx.helper.make_tensor_value_info
    declared = [
        make(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in zip(names, inputs, strict=True)
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = onnx.helper.make_graph([node], node.name or node.op_type, declared, outputs)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(domain, version)])
