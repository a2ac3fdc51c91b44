"""Checks of a node against ONNX's own operator schemas: opset, number of inputs, attribute names and types."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from onnx import defs

from cenote.core.deferred import dataclass
from cenote.core.errors import ModelError, UnsupportedError
from cenote.frontends.onnx_tensors import kind_of
from cenote.frontends.user_nodes import ways_to_add

# Of the standard domain. At 7 broadcasting became NumPy's. The changes from 6 to 7 are known (`onnx_legacy`); of
# older files only nodes run whose operator did not change until 7.
OLDEST_OPSET = 6
STANDARD = ""


def domain_of(domain: str) -> str:
    """Return the domain's name; the standard domain has two."""
    return STANDARD if domain == "ai.onnx" else domain


def key_of(domain: str, op: str) -> str:
    """Return an operator's name in `cenote.ops.table.DECODERS` and in messages."""
    return f"{domain}.{op}" if domain else op


@cache
def opset_range(domain: str) -> tuple[int, int] | None:
    """Return the oldest and newest supported opset of a domain; None for domains that ONNX does not know."""
    ranges: Mapping[str, tuple[int, int]] = defs.C.schema_version_map()
    if domain not in ranges:
        return None
    oldest, newest = ranges[domain]
    return oldest, newest


def check_opset(domain: str, opset: int) -> None:
    """Raise UnsupportedError for an opset older or newer than the supported ones."""
    supported = opset_range(domain)
    if supported is None:
        if opset < 1:
            raise ModelError(f"opset {opset} of domain '{domain}' is not a version")
        return
    oldest, newest = supported
    if not oldest <= opset <= newest:
        advice = (
            "upgrade the model with onnx.version_converter or export it again"
            if opset < oldest
            else "export it with an older opset or upgrade the onnx package"
        )
        raise UnsupportedError(
            f"opset {opset} of domain '{domain or 'ai.onnx'}' is not supported ({oldest} to {newest} are); "
            f"{advice}"
        )


@cache
def schema_of(domain: str, op: str, opset: int) -> Any | None:
    """Return the schema in force at an opset; None when ONNX has none."""
    try:
        return defs.get_schema(op, max_inclusive_version=opset, domain=domain)
    except defs.SchemaError:
        return None


@cache
def _attributes_of(domain: str, op: str, opset: int) -> dict[str, tuple[str, bool, Any]]:
    """Return the attributes by name: type, whether it is required, default."""
    schema = schema_of(domain, op, opset)
    assert schema is not None
    return {
        name: (attribute.type.name, bool(attribute.required), attribute.default_value)
        for name, attribute in schema.attributes.items()
    }


def default_attributes(domain: str, op: str, opset: int) -> dict[str, Any]:
    """Return AttributeProtos of the schema's defaults, by name."""
    known = _attributes_of(domain, op, opset)
    return {name: default for name, (_, _, default) in known.items() if default is not None and default.name}


# Deprecated for scale and bias per group, which Cenote has.
_STILL_RUN = {"GroupNormalization-18"}


def check_node(node: Any, attributes: Iterable[Any], domain: str, opset: int) -> None:
    """Raise when a node with these AttributeProtos does not fit its operator's schema. Without a schema it passes; of
    an operator of later opsets, which exporters write into older ones, only results that no opset has are refused."""
    signature = _signature(domain, node.op_type, opset)
    if signature is None:
        later = _newest_signature(domain, node.op_type)
        if later is not None:
            _check_count(later.name, "outputs", len(node.output), *later.outputs)
        return
    name = signature.name
    if domain == STANDARD and opset < OLDEST_OPSET and not _same_later(node.op_type, opset):
        raise UnsupportedError(
            f"{node.op_type} of opset {opset} is not supported ({OLDEST_OPSET} and later are); upgrade the model with "
            "onnx.version_converter or export it again"
        )
    if signature.deprecated and name not in _STILL_RUN:
        raise UnsupportedError(f"{name} is deprecated at opset {opset}; export the model again")
    _check_count(name, "inputs", len(node.input), *signature.inputs)
    _check_count(name, "outputs", len(node.output), *signature.outputs)
    for position, (value, needed) in enumerate(zip(node.input, signature.needed, strict=False)):
        if needed and not value:
            raise ModelError(f"{name}: input {position} ('{needed}') is missing")
    _check_attributes(name, attributes, _attributes_of(domain, node.op_type, opset))


def _same_later(op: str, opset: int) -> bool:
    """Return whether an operator of the standard domain is the same in opset 7 as in this one."""
    before, later = schema_of(STANDARD, op, opset), schema_of(STANDARD, op, OLDEST_OPSET + 1)
    return before is not None and later is not None and before.since_version == later.since_version


@dataclass(frozen=True)
class _Signature:
    """Inputs and outputs of a schema: least and most of each; names of required inputs, "" for others."""

    name: str
    deprecated: bool
    inputs: tuple[int, int]
    outputs: tuple[int, int]
    needed: tuple[str, ...]


@cache
def _signature(domain: str, op: str, opset: int) -> _Signature | None:
    """Return the signature of an operator's schema, cached: a schema's attributes take 10 us to read, for every
    node."""
    schema = schema_of(domain, op, opset)
    if schema is None:
        return None
    single = defs.OpSchema.FormalParameterOption.Single
    return _Signature(
        f"{key_of(domain, op)}-{schema.since_version}",
        schema.deprecated,
        (schema.min_input, schema.max_input),
        (schema.min_output, schema.max_output),
        tuple(each.name if each.option == single else "" for each in schema.inputs),
    )


def _newest_signature(domain: str, op: str) -> _Signature | None:
    """Return the signature of an operator at the newest opset of its domain; None where ONNX does not know it."""
    known = opset_range(domain)
    return None if known is None else _signature(domain, op, known[1])


def _check_count(name: str, what: str, count: int, least: int, most: int) -> None:
    if not least <= count <= most:
        allowed = (
            str(least) if least == most else f"{least} to {most}" if most < 1 << 20 else f"{least} or more"
        )
        raise ModelError(f"{name}: has {count} {what}, but takes {allowed}")


def _check_attributes(
    name: str, attributes: Iterable[Any], known: Mapping[str, tuple[str, bool, Any]]
) -> None:
    seen = set()
    for attribute in attributes:
        if attribute.name in seen:
            raise ModelError(f"{name}: attribute '{attribute.name}' is given twice")
        seen.add(attribute.name)
        if attribute.name not in known:
            allowed = ", ".join(sorted(known)) or "none"
            raise ModelError(
                f"{name}: attribute '{attribute.name}' does not belong to it (it has: {allowed})"
            )
        kind, expected = kind_of(attribute), known[attribute.name][0]
        if kind != expected:
            raise ModelError(f"{name}: attribute '{attribute.name}' must be {expected}, not {kind}")
    missing = sorted(key for key, (_, required, _) in known.items() if required and key not in seen)
    if missing:
        raise ModelError(f"{name}: attribute {', '.join(missing)} is required but missing")


def unsupported_operator(domain: str, op: str, opset: int, supported: Iterable[str]) -> UnsupportedError:
    """Return the error for an operator without a decoder, with the nearest supported ones."""
    key = key_of(domain, op)
    near = difflib.get_close_matches(key, list(supported), n=3, cutoff=0.6)
    known = schema_of(domain, op, opset) is not None or opset_range(domain) is None
    text = (
        f"operator {key} (opset {opset}) is not supported"
        if known
        else f"{key} is no operator of opset {opset}"
    )
    if near:
        text += f"; nearest supported: {', '.join(near)}"
    if domain and opset_range(domain) is None:
        text += ways_to_add(key)
    return UnsupportedError(text)
