"""Mutations of ONNX models by structure: fields duplicated, removed, retyped, filled with extremes or with other parts.

They work on any message by its description, so nothing of ONNX is forgotten; a few know what a node or a tensor is. The
last step may work on the bytes, by the rules of the wire format.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import onnx
from onnx import TensorProto, helper

INTEGERS = (
    0, 1, -1, 2, 3, 4, 5, 7, 8, 16, 63, 64, 127, 128, 255, 256, 1000, 65535, 1 << 20, (1 << 31) - 1, 1 << 31,
    (1 << 31) + 1, (1 << 32) - 1, 1 << 32, (1 << 32) + 2, 1 << 40, 1 << 62, (1 << 62) + 1, (1 << 63) - 1, -2, -3,
    -(1 << 31), -(1 << 31) - 1, -(1 << 62), -(1 << 63),
)  # fmt: skip
FLOATS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1e-40,
    1e-6,
    1e6,
    3.4e38,
    -3.4e38,
    float("inf"),
    float("-inf"),
    float("nan"),
)
TEXTS = (
    "", "x", "y", "w", "nothing", "SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET", "linear", "cubic", "max", "none",
    "Relu", "ai.onnx.ml", "é" * 40, "\0", "%s%n", "../../etc/passwd", "/dev/zero", "a" * 3000, "kernel_shape",
    "ij,jk->ik", "...",
)  # fmt: skip
BYTES = (b"", b"\0", b"\xff" * 8, b"\x80\x00\x00\x00", b"\xff\xfe", b"linear", b"\0" * 4096)
Message = Any


def fields_of(message: Message, depth: int = 0) -> list[tuple[Message, Any]]:
    """Every set field of a message and of those inside, as (message, description)."""
    found = []
    for field, value in message.ListFields():
        found.append((message, field))
        if field.type == field.TYPE_MESSAGE and depth < 12:
            for item in value if is_repeated(field) else [value]:
                found += fields_of(item, depth + 1)
    return found


def is_repeated(field: Any) -> bool:
    repeated = getattr(field, "is_repeated", None)  # older protobuf has labels instead
    return bool(repeated if repeated is not None else field.label == field.LABEL_REPEATED)


def extreme(field: Any, rng: random.Random) -> Any:
    """A value for a scalar field."""
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return rng.choice(FLOATS)
    if field.type == field.TYPE_STRING:
        return rng.choice(TEXTS)
    if field.type == field.TYPE_BYTES:
        return rng.choice(BYTES)
    if field.type == field.TYPE_ENUM:
        return rng.choice(field.enum_type.values).number
    value = rng.choice(INTEGERS)
    if field.type == field.TYPE_INT32:
        return max(-(1 << 31), min((1 << 31) - 1, value))
    if field.type == field.TYPE_UINT64:
        return value % (1 << 64)
    return value


def set_extreme(proto: Message, rng: random.Random) -> None:
    message, field = rng.choice(fields_of(proto))
    if field.type == field.TYPE_MESSAGE:
        return
    if is_repeated(field):
        items = getattr(message, field.name)
        items[rng.randrange(len(items))] = extreme(field, rng)
    else:
        setattr(message, field.name, extreme(field, rng))


def set_absent(proto: Message, rng: random.Random) -> None:
    """Fill any field of any message there is."""
    messages = {id(message): message for message, _ in fields_of(proto)}
    message = rng.choice(list(messages.values()))
    field = rng.choice(message.DESCRIPTOR.fields)
    if field.type == field.TYPE_MESSAGE:
        if is_repeated(field):
            getattr(message, field.name).add()
        else:
            getattr(message, field.name).SetInParent()
    elif is_repeated(field):
        getattr(message, field.name).extend(extreme(field, rng) for _ in range(rng.randint(1, 4)))
    else:
        setattr(message, field.name, extreme(field, rng))


def clear(proto: Message, rng: random.Random) -> None:
    message, field = rng.choice(fields_of(proto))
    message.ClearField(field.name)


def repeated(proto: Message, rng: random.Random) -> None:
    """Remove, duplicate, swap or copy elements of a repeated field."""
    places = [(m, f) for m, f in fields_of(proto) if is_repeated(f)]
    if not places:
        return
    message, field = rng.choice(places)
    items = getattr(message, field.name)
    index = rng.randrange(len(items))
    kind = rng.random()
    if kind < 0.4:
        del items[index]
    elif kind < 0.7:
        for _ in range(rng.choice((1, 1, 2, 40))):
            items.append(items[index])
    else:
        values = list(items)
        rng.shuffle(values)
        copies = (
            [type(v).FromString(v.SerializeToString()) for v in values]
            if field.type == field.TYPE_MESSAGE
            else values
        )
        del items[:]
        items.extend(copies)


def splice(proto: Message, rng: random.Random, other: Message | None = None) -> None:
    """Put a message of the same type, of this model or another, in the place of one."""
    inside = [(m, f) for m, f in fields_of(proto) if f.type == f.TYPE_MESSAGE]
    outside = inside if other is None else [(m, f) for m, f in fields_of(other) if f.type == f.TYPE_MESSAGE]
    if not inside or not outside:
        return
    message, field = rng.choice(inside)
    fitting = [(m, f) for m, f in outside if f.message_type == field.message_type]
    if not fitting:
        return
    source, name = rng.choice(fitting)
    value = getattr(source, name.name)
    copy = type(rng.choice(value) if is_repeated(name) else value)()
    copy.CopyFrom(rng.choice(value) if is_repeated(name) else value)
    target = getattr(message, field.name)
    if not is_repeated(field):
        target.CopyFrom(copy)
    elif rng.random() < 0.5:
        target.append(copy)
    else:
        target[rng.randrange(len(target))].CopyFrom(copy)


def names_of(proto: Message) -> list[str]:
    graph = proto.graph
    found = {name for node in graph.node for name in (*node.input, *node.output)}
    return sorted(found | {item.name for item in (*graph.input, *graph.initializer)} | {""})


def rewire(proto: Message, rng: random.Random) -> None:
    """Another input or output of a node: cycles, values made twice, values that nobody makes."""
    if not proto.graph.node:
        return
    node = rng.choice(proto.graph.node)
    names = node.input if rng.random() < 0.7 or not node.output else node.output
    name = rng.choice(names_of(proto))
    if names and rng.random() < 0.8:
        names[rng.randrange(len(names))] = name
    else:
        names.append(name)


def operator(proto: Message, rng: random.Random) -> None:
    """Another operator on the same values."""
    if proto.graph.node:
        rng.choice(proto.graph.node).op_type = rng.choice(OPERATORS)


def attribute(proto: Message, rng: random.Random) -> None:
    """An attribute of another value, or of another type."""
    places = [node for node in proto.graph.node if node.attribute]
    if not places:
        return
    chosen = rng.choice(rng.choice(places).attribute)
    if rng.random() < 0.2:
        content = rng.choice([1, 1.5, "text", [1, 2], [0.5, 1.0], ["a"]])
        chosen.CopyFrom(helper.make_attribute(chosen.name, content))
    elif chosen.type == chosen.INTS:
        length = rng.choice((len(chosen.ints), len(chosen.ints), rng.randint(0, 6)))
        small = rng.random() < 0.6
        chosen.ints[:] = [rng.randint(-1, 5) if small else rng.choice(INTEGERS) for _ in range(length)]
    elif chosen.type == chosen.INT:
        chosen.i = rng.randint(-3, 5) if rng.random() < 0.6 else rng.choice(INTEGERS)
    elif chosen.type == chosen.FLOAT:
        chosen.f = rng.choice(FLOATS)
    elif chosen.type == chosen.STRING:
        chosen.s = rng.choice(TEXTS).encode()


def tensor(proto: Message, rng: random.Random) -> None:
    """A weight of other dims, another type, other content, or with its content elsewhere."""
    found = list(proto.graph.initializer)
    found += [a.t for node in proto.graph.node for a in node.attribute if a.HasField("t")]
    if not found:
        return
    chosen = rng.choice(found)
    kind = rng.random()
    if kind < 0.3 and chosen.dims:
        chosen.dims[rng.randrange(len(chosen.dims))] = rng.choice(INTEGERS)
    elif kind < 0.45:
        chosen.data_type = rng.randint(0, 26)
    elif kind < 0.6:
        chosen.data_location = TensorProto.EXTERNAL
        for key in rng.sample(("location", "offset", "length", "checksum"), rng.randint(1, 4)):
            chosen.external_data.add(key=key, value=rng.choice((*TEXTS, "0", "-1", "4096", str(1 << 63))))
    elif kind < 0.8 and chosen.raw_data:
        content = bytearray(chosen.raw_data)
        for _ in range(rng.randint(1, 4)):
            content[rng.randrange(len(content))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        chosen.raw_data = bytes(content)
    else:
        chosen.raw_data = chosen.raw_data[: rng.randint(0, len(chosen.raw_data))]


def shape(proto: Message, rng: random.Random) -> None:
    """Another declared shape of an input."""
    if not proto.graph.input:
        return
    dims = rng.choice(proto.graph.input).type.tensor_type.shape.dim
    if not dims or rng.random() < 0.15:
        dims.add().dim_value = rng.choice((1, 2, 3))
        return
    chosen = rng.choice(dims)
    if rng.random() < 0.3:
        chosen.dim_param = rng.choice(("N", "n", "", "M"))
    else:
        chosen.dim_value = rng.choice((0, 1, 2, 3, 5, 9, 16, 17, *rng.sample(INTEGERS, 2)))


def insert(proto: Message, rng: random.Random) -> None:
    """A node more that reads what there is."""
    names = names_of(proto)
    made = proto.graph.node.add(op_type=rng.choice(OPERATORS), output=[rng.choice((*names[:3], "made"))])
    made.input.extend(rng.choice(names) for _ in range(rng.randint(0, 3)))


def version(proto: Message, rng: random.Random) -> None:
    if proto.opset_import:
        rng.choice(proto.opset_import).version = rng.choice((*range(6, 27), *rng.sample(INTEGERS, 2)))


OPERATORS = sorted({schema.name for schema in onnx.defs.get_all_schemas()} | {"Foo", "", "If", "Loop"})
_PLAIN: tuple[Callable[[Message, random.Random], None], ...] = (
    set_extreme, set_absent, clear, repeated, splice, rewire, rewire, operator, attribute, attribute, attribute,
    attribute, tensor, tensor, shape, shape, insert, version,
)  # fmt: skip


def mutated(content: bytes, other: bytes, rng: random.Random) -> bytes:
    """A model's bytes after one to four mutations. `other` is a model to take parts from."""
    proto = onnx.ModelProto.FromString(content)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        chosen = rng.choice((*_PLAIN, None))
        if chosen is None:
            splice(proto, rng, onnx.ModelProto.FromString(other))
        else:
            chosen(proto, rng)
    made: bytes = proto.SerializeToString()
    return on_the_wire(made, rng) if rng.random() < 0.12 else made


def on_the_wire(content: bytes, rng: random.Random) -> bytes:
    """Fields of a random message retagged, removed, doubled or cut, lengths left wrong; or bytes changed."""
    start, end = 0, len(content)
    for _ in range(rng.randint(0, 6)):  # how deep
        inner = [(a, b) for tag, _, a, b in walk(content, start, end) if tag & 7 == 2 and b > a]
        if not inner:
            break
        start, end = rng.choice(inner)
    found = list(walk(content, start, end))
    if not found or rng.random() < 0.2:
        at = rng.randrange(len(content) or 1)
        return content[:at] + bytes([rng.randrange(256)]) + content[at + rng.randint(0, 2) :]
    tag, at, _, stop = rng.choice(found)
    kind = rng.random()
    if kind < 0.35:
        fresh = rng.choice((tag ^ rng.randint(1, 7), (tag & 7) | rng.randint(1, 31) << 3)) & 0x7F
        return content[:at] + bytes([fresh]) + content[at + 1 :]
    if kind < 0.6:
        return content[:at] + content[stop:]
    if kind < 0.85:
        return content[:stop] + content[at:stop] * rng.choice((1, 3)) + content[stop:]
    return content[: rng.randint(at, stop)] + content[stop:]


def walk(content: bytes, start: int, end: int) -> Any:
    """The fields between two places as (tag, place, begin and end of the content); nothing where that is no message."""
    found, at = [], start
    while at < end:
        place, (tag, at) = at, varint(content, at, end)
        wire = tag & 7
        if wire == 2:
            length, at = varint(content, at, end)
        else:
            length = {0: varint(content, at, end)[1] - at, 1: 8, 5: 4}.get(wire, -1)
        if tag < 8 or length < 0 or at + length > end:
            return []
        found.append((tag, place, at, at + length))
        at += length
    return found


def varint(content: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
    return 0, end
