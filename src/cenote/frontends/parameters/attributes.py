"""Operators as JSON: the name, and the fields that differ from their defaults.

Values that JSON lacks are objects with one key: {"float": "nan"}, {"dtype": "int8"}, {"values": name} (an array among
the values), {"operator": …, …}, {"nodes": […]}, {"record": class, …} for the few plain classes that operators have in
their fields. No other class is ever instantiated: operators are those of `cenote.ops`, and fields must be of their
declared types.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import sys
import types
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from cenote.core.errors import FAULTS, CenoteError, UnsupportedError, shown
from cenote.core.types import Array, dtype_named
from cenote.frontends.parameters.lines import JsonObject
from cenote.graph.conditional import Branch, Refused
from cenote.graph.graph import Node
from cenote.kernels.elementwise.activations import Activation
from cenote.ops.base import Op
from cenote.ops.table import operators

FORMAT, VERSION = "cenote-layers", 1
Keep = Callable[[Array], str]
Fetch = Callable[[str], Array]
_RECORDS: Mapping[str, type] = {"Activation": Activation}


@cache
def operators_by_name() -> Mapping[str, type[Op]]:
    """Return every operator that a graph may have, by name."""
    known: tuple[type[Op], ...] = (*operators(), Branch, Refused)
    return {op.name: op for op in known}


# ---- writing --------------------------------------------------------------------------------------------------------


def encoded_op(op: Op, keep: Keep) -> dict[str, Any]:
    """Encode an operator; `keep` stores an array among the values and returns its name there."""
    return {"operator": type(op).name, **_fields(op, keep)}


def encoded_node(node: Node, keep: Keep) -> dict[str, Any]:
    """Encode a node."""
    try:
        op = encoded_op(node.op, keep)
    except UnsupportedError as error:
        raise error.located(node.where) from None
    return {"name": node.label, **op, "inputs": list(node.inputs), "outputs": list(node.outputs)}


def _fields(thing: Any, keep: Keep) -> dict[str, Any]:
    changed = {}
    for field in dataclasses.fields(thing):
        value = getattr(thing, field.name)
        factory = field.default_factory
        default = field.default if factory is dataclasses.MISSING else factory()
        if isinstance(value, np.ndarray) or repr(value) != repr(default):
            changed[field.name] = _encoded(value, keep)
    return {"configuration": changed} if changed else {}


def _encoded(value: Any, keep: Keep) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else {"float": repr(float(value))}
    if isinstance(value, np.dtype):
        return {"dtype": value.name}
    if isinstance(value, np.ndarray):
        return {"values": keep(value)}
    if isinstance(value, tuple | list):
        return [_encoded(item, keep) for item in value]
    if isinstance(value, Node):
        return {"node": encoded_node(value, keep)}
    if isinstance(value, Op):
        return encoded_op(value, keep)
    if type(value).__name__ in _RECORDS:
        return {"record": type(value).__name__, **_fields(value, keep)}
    raise UnsupportedError(f"a configuration of type {type(value).__name__} cannot be written down")


# ---- reading --------------------------------------------------------------------------------------------------------


def decoded_node(record: JsonObject, fetch: Fetch) -> Node:
    """Decode a node; errors name its line."""
    record.only("name", "operator", "configuration", "inputs", "outputs")
    op = decoded_op(record, fetch)
    inputs, outputs = record.list("inputs", str), record.list("outputs", str)
    return Node(op, tuple(inputs), tuple(outputs), record.text("name", ""))


def decoded_op(record: JsonObject, fetch: Fetch) -> Op:
    """Decode an operator."""
    name = record.text("operator")
    kind = operators_by_name().get(name)
    if kind is None:
        raise record.fail(f"there is no operator '{name}'")
    op: Op = _made(kind, record, fetch)
    return op


def _made(kind: type, record: JsonObject, fetch: Fetch) -> Any:
    configuration = record.record("configuration") if "configuration" in record else JsonObject()
    names = [field.name for field in dataclasses.fields(kind)]
    configuration.line = configuration.line or record.line
    configuration.only(*names)
    arguments = {}
    for key, value in configuration.items():
        arguments[key] = _decoded(value, configuration, fetch)
        if not _fits(arguments[key], _hint(kind, key)):
            raise configuration.fail(f"'{key}' cannot be {shown(value)}")
    try:
        return kind(**arguments)
    except (CenoteError, *FAULTS) as error:
        raise record.fail(str(error)) from None


@cache
def _hint(kind: type, field: str) -> Any:
    """Return the declared type of a field."""
    home = next(each for each in kind.__mro__ if field in inspect.get_annotations(each))
    alone = types.SimpleNamespace(__annotations__={field: home.__annotations__[field]})
    return get_type_hints(alone, vars(sys.modules[home.__module__]))[field]


def _decoded(value: Any, record: JsonObject, fetch: Fetch) -> Any:
    if isinstance(value, list):
        return tuple(_decoded(item, record, fetch) for item in value)
    if not isinstance(value, JsonObject):
        return value
    if "operator" in value:
        value.only("operator", "configuration")
        return decoded_op(value, fetch)
    if "record" in value:
        value.only("record", "configuration")
        return _made(_RECORDS[value.choice("record", _RECORDS)], value, fetch)
    if len(value) != 1:
        raise value.fail("an object here has one key: float, dtype, values, node, operator or record")
    if "float" in value:
        return float(value.choice("float", ("nan", "inf", "-inf")))
    if "node" in value:
        return decoded_node(value.record("node"), fetch)
    if "values" in value:
        return fetch(value.text("values"))
    value.only("dtype")
    try:
        return dtype_named(value.text("dtype"))
    except TypeError:
        raise value.fail(f"there is no type {shown(value['dtype'])}") from None


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value is of a field's declared type."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(_fits(value, each) for each in inner)
    if origin is Literal:
        return value in inner
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(inner) == 2 and inner[1] is Ellipsis:
            return all(_fits(item, inner[0]) for item in value)
        return len(value) == len(inner) and all(map(_fits, value, inner))
    if hint is None or hint is type(None):
        return value is None
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, origin or hint)
