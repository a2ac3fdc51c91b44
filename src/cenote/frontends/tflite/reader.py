"""Reader of TensorFlow Lite models: tensors, their quantisation, operators one by one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from cenote.core.errors import ArgumentError, CenoteError, ModelError, UnsupportedError
from cenote.core.types import dtype_named
from cenote.frontends.builder import GraphBuilder, decoded
from cenote.frontends.imported import ImportedModel
from cenote.frontends.tensorflow_common import MOST_NODES
from cenote.frontends.tflite import schema
from cenote.frontends.tflite.custom import decode_of
from cenote.frontends.tflite.dilation import gathered, in_batch, spread_of, waits
from cenote.frontends.tflite.flatbuffer import FlatTable, root
from cenote.frontends.tflite.importer import Quantization, Tensor, TfliteImporter
from cenote.frontends.tflite.operators import OPERATORS
from cenote.frontends.tflite.site import OperatorSite
from cenote.frontends.wire import ByteSource
from cenote.ops.user_operators import UserOperators


def load_tflite(
    source: ByteSource,
    signature: str | None = None,
    problems: list[str] | None = None,
    operators: UserOperators | None = None,
) -> ImportedModel:
    """Read a model's first subgraph, or the one of a signature; inputs and outputs are in the file's order and keep
    its names. `operators` decode custom operators of the user's.

    Raises ModelError for a file of another kind, UnsupportedError for operators and types that Cenote does not have.
    """
    model = root(source, schema.IDENTIFIER, schema.MODEL)
    file = _File(model, source)
    index = 0 if signature is None else _of_signature(model, signature)
    graph = file.subgraph(index)
    importer = file.importer(index)
    importer.problems = problems
    file.operators = operators or UserOperators({})
    for number in graph.numbers("inputs"):
        importer.declare(number)
    file.add_operators(index)
    outputs: dict[str, str] = {}
    for number in graph.numbers("outputs"):
        if number in importer.failed:
            raise UnsupportedError(
                f"output '{importer.tensor(number).name}' depends on what is not supported"
            )
        name = importer.tensor(number).name or f"output {number}"
        outputs[name if name not in outputs else f"{name}.{number}"] = importer.stored(number)
    if not outputs:
        raise ModelError("the model has no outputs")
    return ImportedModel(
        file.builder.graph(outputs, graph["name"] or "graph"),
        {},
        {},
        {"producer_name": "TensorFlow Lite"},
    )


class _File:
    """A file under import: an importer of each subgraph that is used, all of which add to one graph."""

    def __init__(self, model: FlatTable, source: ByteSource) -> None:
        self.model, self.builder, self.operators = model, GraphBuilder(), UserOperators({})
        self.codes = [_operator_name(code) for code in model.tables("operator_codes", schema.OPERATOR_CODE)]
        self.subgraphs = list(model.tables("subgraphs", schema.SUBGRAPH))
        self.buffers = [_content(buffer, source) for buffer in model.tables("buffers", schema.BUFFER)]
        self.importers: dict[int, TfliteImporter] = {}
        self.open: list[int] = []  # subgraphs that are being called
        self.count = 0  # operators so far

    def subgraph(self, index: int) -> FlatTable:
        if not 0 <= index < len(self.subgraphs):
            raise ModelError(f"the model has no subgraph {index}")
        return self.subgraphs[index]

    def importer(self, index: int) -> TfliteImporter:
        if index not in self.importers:
            tables = self.subgraph(index).tables("tensors", schema.TENSOR)
            tensors = [_tensor(each, self.buffers) for each in tables]
            made = self.importers[index] = TfliteImporter(self.model.buffer, tensors, self.call, self.builder)
            made.in_batch = lambda spread: in_batch(spread, made, OPERATORS)
        return self.importers[index]

    def add_operators(self, index: int) -> None:
        importer = self.importer(index)
        importer.operators = self.operators
        self.open.append(index)
        for position, operator in enumerate(self.subgraph(index).tables("operators", schema.OPERATOR)):
            self.count += 1
            if self.count > MOST_NODES:
                raise UnsupportedError(
                    f"unrolling the model's loops makes more than {MOST_NODES:,} operators"
                )
            _add(importer, operator, self.codes, position)
        self.open.pop()

    def call(self, index: int, values: Sequence[str]) -> Sequence[str]:
        """Add a subgraph as part of another one, see `SubgraphCall`."""
        if index in self.open:
            raise ModelError(f"subgraph {index} calls itself")
        graph, importer, label = self.subgraph(index), self.importer(index), self.builder.label
        importer.begin(graph.numbers("inputs"), values)
        self.add_operators(index)
        self.builder.label = label
        return [importer.stored(number) for number in graph.numbers("outputs")]


def _operator_name(code: FlatTable) -> str:
    number = max(int(code["deprecated_builtin_code"]), int(code["builtin_code"]))
    name = schema.NAMES.get(number, f"number {number}")
    return f"custom {code['custom_code'] or '?'}" if name == "CUSTOM" else name


def _of_signature(model: FlatTable, wanted: str) -> int:
    offered = {
        each["signature_key"]: int(each["subgraph_index"])
        for each in model.tables("signature_defs", schema.SIGNATURE)
    }
    if wanted not in offered:
        raise ArgumentError(
            f"signature: '{wanted}' is not in the model; it has {', '.join(map(str, offered)) or 'none'}"
        )
    return offered[wanted]


def _content(buffer: FlatTable, source: ByteSource) -> tuple[int, int] | None:
    """Return the place of a buffer's bytes; None when it is empty. Large buffers are stored behind the flatbuffer."""
    offset, size = buffer.span("data")
    if not size and int(buffer["size"]) > 1:
        offset, size = int(buffer["offset"]), int(buffer["size"])
    if offset + size > source.size:
        raise ModelError(f"damaged: a buffer of {size} bytes at {offset} of a file of {source.size}")
    return (offset, size) if size else None


def _tensor(table: FlatTable, buffers: list[tuple[int, int] | None]) -> Tensor:
    kind, number = int(table["type"]), int(table["buffer"])
    if number >= len(buffers):
        raise ModelError(f"tensor '{table['name']}' names buffer {number} of {len(buffers)}")
    shape = table.numbers("shape")
    if min(shape, default=0) < 0 or math.prod(shape) > 1 << 40:
        raise ModelError(f"tensor '{table['name']}' has shape {list(shape)}")
    signature = table.numbers("shape_signature") or shape
    return Tensor(
        name=table["name"] or "",
        dtype=dtype_named(schema.TYPES[kind]) if kind in schema.TYPES else None,
        kind=kind,
        shape=shape,
        signature=tuple(extent if extent >= 0 else None for extent in signature),
        content=buffers[number],
        quantization=_quantization(table.table("quantization", schema.QUANTIZATION), len(shape)),
        sparsity=table.table("sparsity", schema.SPARSITY),
    )


def _quantization(table: FlatTable | None, rank: int) -> Quantization | None:
    if table is None or table["scale"] is None or not len(table["scale"]):
        return None
    scale = table["scale"].astype(np.float32)
    points = table["zero_point"]
    points = np.zeros(len(scale), np.int64) if points is None or not len(points) else points.astype(np.int64)
    axis = int(table["quantized_dimension"])
    if len(points) not in (1, len(scale)) or (len(scale) > 1 and not 0 <= axis < rank):
        raise ModelError(
            f"quantisation: {len(scale)} scales, {len(points)} zero points along axis {axis} of {rank}"
        )
    if not (np.isfinite(scale).all() and (scale > 0).all()):
        raise ModelError("quantisation: a scale that is not a positive number")
    return Quantization(scale, np.broadcast_to(points, scale.shape), axis)


def _add(importer: TfliteImporter, operator: FlatTable, codes: list[str], position: int) -> None:
    """Import an operator; errors name it and its first output."""
    code = int(operator["opcode_index"])
    if code >= len(codes):
        raise ModelError(f"operator {position} is of kind {code} of {len(codes)}")
    outputs, inputs = operator.numbers("outputs"), operator.numbers("inputs")
    if not outputs:
        raise ModelError(f"operator {position} makes nothing")
    name = importer.tensor(outputs[0]).name
    where = f"operator {position} {codes[code]} -> '{name}'"
    if importer.failed.intersection(inputs):
        importer.failed.update(outputs)
        return
    importer.builder.label = name
    try:
        fields = schema.OPTIONS.get(codes[code])
        options = None if fields is None else operator.table("builtin_options", fields)
        wanted = importer.wanted_name(outputs[0])
        values = decoded(
            _decoded, OperatorSite(codes[code], wanted, inputs, outputs, options, operator, importer)
        )
        results: Mapping[int, str] = dict(
            zip(outputs, [values] if isinstance(values, str) else values, strict=False)
        )
        for number, value in results.items():
            importer.give(number, value)
    except CenoteError as error:
        located = error.located(where)
        if importer.problems is None or not isinstance(error, UnsupportedError):
            raise located from error
        importer.problems.append(str(located))
        importer.failed.update(outputs)


def _decoded(site: OperatorSite) -> str | Sequence[str]:
    """Return the values that an operator makes; none where it waits for the end of a dilated convolution."""
    spreads = site.importer.spreads
    spread = spreads.get(site.tensor_number(0))
    if site.op == "SPACE_TO_BATCH_ND":
        spreads[site.outputs[0]] = spread_of(site)
        return ()
    if site.op == "BATCH_TO_SPACE_ND":
        return gathered(spread, site, OPERATORS)
    if spread is not None and waits(site):
        spreads[site.outputs[0]] = replace(spread, waiting=(*spread.waiting, site))
        return ()
    return decode_of(site)(site)
