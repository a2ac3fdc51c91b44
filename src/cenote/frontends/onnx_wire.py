"""Splitting of an ONNX file into a small skeleton and the weights, so that weights are read once and never copied.

Parsing a model of 100 MB with protobuf holds it up to three times: the file's bytes, the parsed message, and the
bytes object that each access to a tensor makes. Only three levels of the file matter for the weights

    ModelProto.graph (7) -> GraphProto.initializer (5) -> TensorProto.raw_data (9)

so this module walks the protobuf wire format (tags, lengths) down these three, leaves out every large `raw_data`, and
returns the place of each. The skeleton, usually a few hundred kilobytes, goes to protobuf; each weight is read
directly into its own array, which is freed on its own when the program has packed it. An irregular file is left
whole, so that protobuf reports the error.
"""

from __future__ import annotations

from cenote.core.deferred import dataclass
from cenote.frontends.wire import SMALL, ByteRange, ByteSource, IrregularError, delimited, fields_of, join

GRAPH, INITIALIZER, RAW_DATA = 7, 5, 9


@dataclass(frozen=True)
class SplitModel:
    """`skeleton`: a ModelProto without the large weights; `weights`: their places in the file, by position among the
    graph's initializers."""

    skeleton: bytes
    weights: dict[int, ByteRange]


def split(source: ByteSource) -> SplitModel:
    """Return the skeleton and the weights of an ONNX file; all bytes and no weights when the file is irregular."""
    try:
        return _split_model(source)
    except IrregularError:
        return SplitModel(source.read(0, source.size), {})


def _split_model(source: ByteSource) -> SplitModel:
    model = fields_of(source, ByteRange(0, source.size))
    graphs = [field for field in model if field.number == GRAPH]
    if len(graphs) != 1 or graphs[0].content is None:
        raise IrregularError
    weights: dict[int, ByteRange] = {}
    pieces: list[ByteRange | bytes] = []
    position = 0
    for field in fields_of(source, graphs[0].content):
        if field.number != INITIALIZER or field.content is None:
            pieces.append(field.whole)
            continue
        tensor = _without_raw_data(source, field.content) if field.content.length >= SMALL else None
        if tensor is None:
            pieces.append(field.whole)
        else:
            kept, weights[position] = tensor
            pieces.append(delimited(INITIALIZER, kept))
        position += 1
    graph = delimited(GRAPH, join(source, pieces))
    outside = [field.whole for field in model if field.number != GRAPH]
    return SplitModel(join(source, [*outside, graph]), weights)


def _without_raw_data(source: ByteSource, tensor: ByteRange) -> tuple[bytes, ByteRange] | None:
    """Return a TensorProto's bytes without raw_data, and the place of that; None when it has none or it is small."""
    fields = fields_of(source, tensor)
    raw = [field for field in fields if field.number == RAW_DATA]
    if len(raw) != 1 or raw[0].content is None or raw[0].content.length < SMALL:
        return None
    return join(source, [field.whole for field in fields if field.number != RAW_DATA]), raw[0].content
