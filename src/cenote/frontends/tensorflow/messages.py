"""TensorFlow's protobuf messages, as field numbers, and a reader of them that leaves out the weights.

The numbers are those of the .proto files of TensorFlow's public interface (tensorflow/core/framework and
tensorflow/core/protobuf); fields that are never read are left out, and protobuf skips them.

A weight is the `tensor_content` of a TensorProto, at any depth. `parse` leaves each large one out of the bytes for
protobuf and replaces it by a mark with its place in the file; the mark starts with a random word, so that no file can
contain one.
"""

from __future__ import annotations

import os
import struct
from functools import cache
from typing import Any

import numpy as np
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
)
from google.protobuf.message import DecodeError

from cenote.core.deferred import dataclass
from cenote.core.errors import ModelError
from cenote.core.types import Array
from cenote.frontends.wire import SMALL, ByteRange, ByteSource, IrregularError, delimited, fields_of, join

_PACKAGE = "cenote_tensorflow"
_MESSAGES = """
GraphDef: 1 node NodeDef*, 2 library FunctionDefLibrary
NodeDef: 1 name string, 2 op string, 3 input string*, 4 device string, 5 attr AttrValue{}
AttrValue: 1 list ListValue|, 2 s bytes|, 3 i int64|, 4 f float|, 5 b bool|, 6 type DataType|,
  7 shape TensorShapeProto|, 8 tensor TensorProto|, 9 placeholder string|, 10 func NameAttrList|
ListValue: 2 s bytes*, 3 i int64*, 4 f float*, 5 b bool*, 6 type DataType*, 7 shape TensorShapeProto*,
  8 tensor TensorProto*, 9 func NameAttrList*
NameAttrList: 1 name string, 2 attr AttrValue{}
TensorShapeProto: 2 dim Dim*, 3 unknown_rank bool
Dim: 1 size int64, 2 name string
TensorProto: 1 dtype DataType, 2 tensor_shape TensorShapeProto, 3 version_number int32, 4 tensor_content bytes,
  5 float_val float*, 6 double_val double*, 7 int_val int32*, 8 string_val bytes*, 10 int64_val int64*,
  11 bool_val bool*, 13 half_val int32*, 16 uint32_val uint32*, 17 uint64_val uint64*
FunctionDefLibrary: 1 function FunctionDef*
FunctionDef: 1 signature OpDef, 3 node_def NodeDef*, 4 ret string{}, 5 attr AttrValue{}
OpDef: 1 name string, 2 input_arg ArgDef*, 3 output_arg ArgDef*
ArgDef: 1 name string, 3 type DataType, 4 type_attr string, 5 number_attr string, 6 type_list_attr string
SavedModel: 1 saved_model_schema_version int64, 2 meta_graphs MetaGraphDef*
MetaGraphDef: 1 meta_info_def MetaInfoDef, 2 graph_def GraphDef, 3 saver_def SaverDef, 5 signature_def SignatureDef{}
MetaInfoDef: 4 tags string*, 5 tensorflow_version string
SaverDef: 1 filename_tensor_name string, 2 save_tensor_name string, 3 restore_op_name string
SignatureDef: 1 inputs TensorInfo{}, 2 outputs TensorInfo{}, 3 method_name string
TensorInfo: 1 name string, 2 dtype DataType, 3 tensor_shape TensorShapeProto
BundleHeaderProto: 1 num_shards int32, 2 endianness int32
BundleEntryProto: 1 dtype DataType, 2 shape TensorShapeProto, 3 shard_id int32, 4 offset int64, 5 size int64,
  6 crc32c fixed32, 7 slices BundleSlice*
BundleSlice: 1 extent BundleSlice*
TrackableObjectGraph: 1 nodes TrackableObject*
TrackableObject: 1 children ObjectReference*, 2 attributes SerializedTensor*
ObjectReference: 1 node_id int32, 2 local_name string
SerializedTensor: 1 name string, 2 full_name string, 3 checkpoint_key string
"""
_DTYPES = """
    INVALID FLOAT DOUBLE INT32 UINT8 INT16 INT8 STRING COMPLEX64 INT64 BOOL QINT8 QUINT8 QINT32 BFLOAT16
    QINT16 QUINT16 UINT16 COMPLEX128 HALF RESOURCE VARIANT UINT32 UINT64
"""
DTYPES = _DTYPES.split()
# Types from here on are references to variables of the type 100 below.
REFERENCE = 100
_SCALARS = ("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string")
_KINDS = {name: number for number, name in enumerate(_SCALARS, 1)} | {"bytes": 12, "uint32": 13}
_MESSAGE, _ENUM = 11, 14
_ONE, _MANY = 1, 3


@dataclass(frozen=True)
class _Item:
    number: int
    name: str
    kind: str
    # "" one, "*" many, "{}" a map from strings, "|" a member of the one-of `value`.
    ending: str


@cache
def _tables() -> dict[str, list[_Item]]:
    tables: dict[str, list[_Item]] = {}
    for line in _MESSAGES.replace("\n  ", " ").strip().splitlines():
        name, _, items = line.partition(":")
        tables[name] = []
        for item in items.split(","):
            number, label, kind = item.split()
            plain = kind.rstrip("*{}|")
            tables[name].append(_Item(int(number), label, plain, kind[len(plain) :]))
    return tables


@cache
def _pool() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name=f"{_PACKAGE}.proto", package=_PACKAGE, syntax="proto3")
    dtypes = file.enum_type.add(name="DataType")
    for number, name in enumerate(DTYPES):
        dtypes.value.add(name=f"DT_{name}", number=number)
        if number:
            dtypes.value.add(name=f"DT_{name}_REF", number=number + REFERENCE)
    for name, items in _tables().items():
        message = file.message_type.add(name=name)
        if any(item.ending == "|" for item in items):
            message.oneof_decl.add(name="value")
        for item in items:
            _add_field(message, item)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def _add_field(message: Any, item: _Item) -> None:
    field = message.field.add(
        name=item.name, number=item.number, label=_MANY if item.ending in ("*", "{}") else _ONE
    )
    if item.ending == "|":
        field.oneof_index = 0
    if item.ending == "{}":
        entry = message.nested_type.add(name=f"{item.name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        _set_kind(entry.field.add(name="key", number=1, label=_ONE), "string")
        _set_kind(entry.field.add(name="value", number=2, label=_ONE), item.kind)
        field.type, field.type_name = _MESSAGE, f".{_PACKAGE}.{message.name}.{entry.name}"
    else:
        _set_kind(field, item.kind)


def _set_kind(field: Any, kind: str) -> None:
    if kind in _KINDS:
        field.type = _KINDS[kind]
    else:
        field.type, field.type_name = _ENUM if kind == "DataType" else _MESSAGE, f".{_PACKAGE}.{kind}"


@cache
def message_class(name: str) -> Any:
    """Return the protobuf class of a message of the table."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{_PACKAGE}.{name}"))


# ---- reading --------------------------------------------------------------------------------------------------------


class Contents:
    """The parts that were left out of a message: `of(bytes)` returns the content of a tensor as bytes in an array."""

    def __init__(self, source: ByteSource) -> None:
        self.source, self.word = source, os.urandom(16)

    def mark(self, span: ByteRange) -> bytes:
        """Return the replacement of a tensor's content that is at `span`."""
        return self.word + struct.pack("<QQ", span.offset, span.length)

    def of(self, content: bytes) -> Array:
        """Return the bytes of a tensor's content, read from the file if they were left out."""
        if not content.startswith(self.word) or len(content) != len(self.word) + 16:
            return np.frombuffer(content, np.uint8)
        offset, length = struct.unpack_from("<QQ", content, len(self.word))
        return self.source.array(offset, length)


def parse(source: ByteSource, name: str) -> tuple[Any, Contents]:
    """Return a message of a file, and the weights that were left out of it.

    Raises ModelError when the bytes are not such a message.
    """
    contents = Contents(source)
    try:
        content = _without_weights(source, ByteRange(0, source.size), name, contents)
    except IrregularError:
        content = source.read(0, source.size)
    return parse_bytes(content, name), contents


def parse_bytes(content: bytes, name: str) -> Any:
    """Return a message of bytes in memory. Raises ModelError when they are not such a message."""
    try:
        return message_class(name).FromString(content)
    except DecodeError as error:
        raise ModelError(
            f"not a TensorFlow {name}, or truncated or damaged: {len(content)} bytes cannot be parsed"
        ) from error


def parse_text(content: bytes, name: str) -> Any:
    """Return a message in protobuf's text form (.pbtxt). Raises ModelError for other text."""
    message = message_class(name)()
    try:
        text_format.Parse(content.decode(), message, allow_unknown_field=True)
    except (text_format.ParseError, UnicodeDecodeError, RecursionError) as error:
        raise ModelError(f"not a TensorFlow {name} in text form: {error!s:.300}") from error
    return message


def _without_weights(source: ByteSource, span: ByteRange, name: str, contents: Contents) -> bytes:
    """Return a message's bytes, with a mark for each large tensor's content."""
    inside = _large_fields(name)
    pieces: list[ByteRange | bytes] = []
    for field in fields_of(source, span):
        kind = inside.get(field.number)
        if kind is None or field.content is None or field.content.length < SMALL:
            pieces.append(field.whole)
        elif kind == "":
            pieces.append(delimited(field.number, contents.mark(field.content)))
        else:
            pieces.append(delimited(field.number, _without_weights(source, field.content, kind, contents)))
    return join(source, pieces)


@cache
def _large_fields(name: str) -> dict[int, str]:
    """Return the fields of a message that may contain tensors, with the message of each; "" is a tensor's content."""
    if name == "TensorProto":
        return {4: ""}
    # An entry of a map.
    if name.endswith("{}"):
        return {2: name[:-2]}
    return {
        item.number: item.kind + ("{}" if item.ending == "{}" else "")
        for item in _tables()[name]
        if item.kind in _holders()
    }


@cache
def _holders() -> frozenset[str]:
    """Return the messages that may contain a TensorProto."""
    holders = {"TensorProto"}
    while True:
        more = {name for name, items in _tables().items() if any(item.kind in holders for item in items)}
        if more <= holders:
            return frozenset(holders)
        holders |= more
