"""Files of TensorFlow and TensorFlow Lite as records (dicts, lists, numbers, text, bytes), changed and written again.

A changed record is still a well-formed file: what is wrong in it is what it says. Both formats are read and written by
the tables of fields that the readers have.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

from cenote.frontends.tensorflow.messages import message_class
from cenote.frontends.tflite import schema
from cenote.frontends.tflite.flatbuffer import Fields, FlatTable, root
from cenote.frontends.wire import BytesSource

Draw = Callable[[Any], Any]
INTEGERS = (
    0, 1, -1, 2, 3, 4, 5, 7, 16, 100, 127, 128, 255, 65535, 1 << 20, (1 << 31) - 1, -(1 << 31), 1 << 32, 1 << 40,
    (1 << 63) - 1, -(1 << 63),
)  # fmt: skip
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-40, 3.4e38, float("inf"), float("-inf"), float("nan"))
TEXTS = (
    "",
    "x",
    "nothing",
    "SAME",
    "VALID",
    "EXPLICIT",
    "NHWC",
    "NCHW",
    "../../etc/passwd",
    "\0",
    "é" * 40,
    "^x",
    "x:1",
)

# ---- changes --------------------------------------------------------------------------------------------------------


def places(found: Any, label: str = "") -> list[tuple[Any, Any, str]]:
    """Every entry of a tree of records: its holder, its key there, and what it is called."""
    items = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    listed = []
    for key, inner in items:
        name = str(key) if isinstance(found, dict) else f"{label}[]"
        listed.append((found, key, name))
        listed += places(inner, name)
    return listed


def change(tree: Any, draw: Draw) -> None:
    """One change of a tree of records."""
    every = places(tree)
    if not every:
        return
    holder, key, name = every[draw(st.integers(0, len(every) - 1))]
    kind = draw(st.sampled_from(["drop", "double", "swap", "like", "value", "value"]))
    if kind == "drop":
        del holder[key]
    elif kind == "double" and isinstance(holder, list):
        holder.insert(key, holder[key])
    elif kind == "swap" and isinstance(holder, list):
        other = draw(st.integers(0, len(holder) - 1))
        holder[key], holder[other] = holder[other], holder[key]
    elif kind == "like":  # what another entry of that name holds
        alike = [(each, at) for each, at, called in every if called == name]
        source, at = alike[draw(st.integers(0, len(alike) - 1))]
        if type(source[at]) is type(holder[key]) and not _holds(source[at], holder):
            holder[key] = source[at]
    else:
        holder[key] = _other(holder[key], draw)


def _holds(tree: Any, wanted: Any) -> bool:
    """Whether a tree has this very part, so that it cannot be put inside of it."""
    if tree is wanted:
        return True
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return any(_holds(each, wanted) for each in inner)


def _other(value: Any, draw: Draw) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return draw(st.sampled_from(INTEGERS)) if draw(st.booleans()) else value + draw(st.integers(-3, 3))
    if isinstance(value, float):
        return draw(st.sampled_from(FLOATS))
    if isinstance(value, str):
        return draw(st.sampled_from(TEXTS))
    if isinstance(value, bytes):
        cut = draw(st.integers(0, max(0, len(value) - 1)))
        return draw(
            st.sampled_from([b"", value[:cut], value + bytes(4), b"\xff" * len(value), b"SAME", b"\xff\xfe"])
        )
    return {} if isinstance(value, dict) else []


# ---- protobuf -------------------------------------------------------------------------------------------------------


def record_of(message: Any) -> dict[str, Any]:
    """A message's fields; maps are dicts by key."""
    record: dict[str, Any] = {}
    for field, value in message.ListFields():
        inner = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            record[field.name] = {key: _plain(value[key]) for key in value}
        elif isinstance(value, str | bytes | int | float) or hasattr(value, "ListFields"):
            record[field.name] = _plain(value)
        else:
            record[field.name] = [_plain(each) for each in value]
    return record


def _plain(value: Any) -> Any:
    return record_of(value) if hasattr(value, "ListFields") else value


def graph_bytes(record: Mapping[str, Any]) -> bytes:
    """A GraphDef."""
    message = message_class("GraphDef")()
    _fill(message, record)
    content: bytes = message.SerializeToString()
    return content


def _fill(message: Any, record: Mapping[str, Any]) -> None:
    for field in message.DESCRIPTOR.fields:
        if field.name not in record:
            continue
        value, inner = record[field.name], field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            for key, each in value.items():
                held = getattr(message, field.name)
                if isinstance(each, dict):
                    _fill(held[key], each)
                else:
                    held[key] = each
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, dict):
                    _fill(getattr(message, field.name).add(), each)
                else:
                    getattr(message, field.name).append(_fitting(field, each))
        elif isinstance(value, dict):
            getattr(message, field.name).SetInParent()
            _fill(getattr(message, field.name), value)
        else:
            setattr(message, field.name, _fitting(field, value))


def _fitting(field: Any, value: Any) -> Any:
    """A number within the range of its field."""
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    if field.type in (field.TYPE_INT64, field.TYPE_UINT64):
        low, bits = (0, 64) if field.type == field.TYPE_UINT64 else (-(1 << 63), 64)
    else:
        low, bits = (0, 32) if field.type in (field.TYPE_UINT32, field.TYPE_FIXED32) else (-(1 << 31), 32)
    return (value - low) % (1 << bits) + low


# ---- FlatBuffers ----------------------------------------------------------------------------------------------------

_INNER: Mapping[str, Fields] = {
    "operator_codes": schema.OPERATOR_CODE, "subgraphs": schema.SUBGRAPH, "buffers": schema.BUFFER,
    "signature_defs": schema.SIGNATURE, "tensors": schema.TENSOR, "operators": schema.OPERATOR,
    "quantization": schema.QUANTIZATION, "sparsity": schema.SPARSITY, "dim_metadata": schema.DIMENSION_METADATA,
}  # fmt: skip
_VECTORS = {1: schema.INT32_VECTOR, 2: schema.UINT16_VECTOR, 3: schema.UINT8_VECTOR}
_PACKED = {
    "bool": "?", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q",
    "uint64": "Q", "float32": "f", "float64": "d",
}  # fmt: skip


def lite_record(content: bytes) -> dict[str, Any]:
    """A TensorFlow Lite file; what none of the readers looks at is left out."""
    model = root(BytesSource(content), schema.IDENTIFIER, schema.MODEL)
    codes = [
        schema.NAMES.get(max(code["deprecated_builtin_code"], code["builtin_code"]), "")
        for code in model.tables("operator_codes", schema.OPERATOR_CODE)
    ]
    return _lite(model, codes)


def _lite(table: FlatTable, codes: list[str]) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for name, (_, kind, _default) in table.fields.items():
        if not table.place(name):
            continue
        if kind not in ("table", "tables"):
            value = table[name]
            is_bytes = kind == "uint8[]"
            record[name] = value.tobytes() if is_bytes else value.tolist() if kind.endswith("[]") else value
            continue
        inner = _inner(name, table.fields, lambda key, table=table: table[key], codes)  # type: ignore[misc]
        if inner is None:
            continue
        if kind == "tables":
            record[name] = [_lite(each, codes) for each in table.tables(name, inner)]
        elif (found := table.table(name, inner)) is not None:
            record[name] = _lite(found, codes)
    return record


def _inner(name: str, fields: Fields, value: Callable[[str], Any], codes: list[str]) -> Fields | None:
    """The fields of the tables in a field."""
    if fields is schema.SIGNATURE:
        return schema.TENSOR_MAP
    if name == "builtin_options":
        index = value("opcode_index")
        return schema.OPTIONS.get(codes[index]) if 0 <= index < len(codes) else None
    if name in ("array_segments", "array_indices"):
        return _VECTORS.get(value(f"{name}_type"))
    return _INNER.get(name)


def lite_bytes(record: Mapping[str, Any], codes: list[str] | None = None) -> bytes:
    """A TensorFlow Lite file of a record; `codes` are the names of operators by whose options they are written."""
    if codes is None:
        codes = [
            schema.NAMES.get(
                max(each.get("deprecated_builtin_code", 0), each.get("builtin_code", 0)) if each else 0, ""
            )
            for each in record.get("operator_codes", [])
        ]
    buffer = bytearray(struct.pack("<I4s", 0, schema.IDENTIFIER))
    _point(buffer, 0, _table(buffer, record, schema.MODEL, codes))
    return bytes(buffer)


def _point(buffer: bytearray, place: int, target: int) -> None:
    struct.pack_into("<I", buffer, place, target - place)


def _align(buffer: bytearray, size: int) -> int:
    buffer.extend(bytes(-len(buffer) % size))
    return len(buffer)


def _table(buffer: bytearray, record: Mapping[str, Any], fields: Fields, codes: list[str]) -> int:
    """Write a table behind what is there, what it points to behind it; its position."""
    slots = 1 + max(slot for slot, _, _ in fields.values())
    vtable = _align(buffer, 8)
    buffer.extend(bytes(4 + 2 * slots))
    position = _align(buffer, 8)
    buffer.extend(struct.pack("<i", position - vtable))
    later: list[tuple[int, str, str]] = []
    for name, (slot, kind, _default) in fields.items():
        if name not in record:
            continue
        packed = _PACKED.get(kind)
        place = _align(buffer, struct.calcsize(f"<{packed}") if packed else 4)
        struct.pack_into("<H", buffer, vtable + 4 + 2 * slot, place - position)
        buffer.extend(_number(kind, record[name]) if packed else bytes(4))
        if not packed:
            later.append((place, name, kind))
    struct.pack_into("<HH", buffer, vtable, 4 + 2 * slots, len(buffer) - position)
    for place, name, kind in later:
        inner = _inner(name, fields, lambda key: record.get(key, 0), codes)
        _point(buffer, place, _content(buffer, record[name], kind, inner or {"-": (0, "int8", 0)}, codes))
    return position


def _content(buffer: bytearray, value: Any, kind: str, inner: Fields, codes: list[str]) -> int:
    """Write text, a vector or a table; its position."""
    if kind == "table":
        return _table(buffer, value, inner, codes)
    if kind == "tables":
        position = _align(buffer, 4)
        buffer.extend(struct.pack("<I", len(value)) + bytes(4 * len(value)))
        for index, each in enumerate(value):
            _point(buffer, position + 4 + 4 * index, _table(buffer, each, inner, codes))
        return position
    if isinstance(value, int | float | dict) or (kind == "text" and isinstance(value, list)):
        value = []  # what options of another operator have under that name
    content = value.encode() if isinstance(value, str) else value
    if not isinstance(content, bytes):
        content = b"".join(_number(kind[:-2], each) for each in value)
    size = 1 if kind == "text" else struct.calcsize(f"<{_PACKED[kind[:-2]]}")
    position = _align(buffer, 4)
    buffer.extend(struct.pack("<I", len(content) // size) + content + bytes(kind == "text"))
    return position


def _number(kind: str, value: Any) -> bytes:
    """A number, wrapped to what its kind holds; 0 for what is none."""
    if not isinstance(value, int | float):
        value = 0
    if kind.startswith("float"):
        try:
            return struct.pack(f"<{_PACKED[kind]}", value)
        except OverflowError:
            return struct.pack(f"<{_PACKED[kind]}", float("inf"))
    size = struct.calcsize(f"<{_PACKED[kind]}")
    return (int(value) % (1 << (8 * size))).to_bytes(size, "little")
