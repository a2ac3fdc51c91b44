"""Checks a node against ONNX's own operator schemas: opset, number of inputs, attribute names and types."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from onnx import defs

from cenote.core.errors import ModelError, UnsupportedError
from cenote.frontends.onnx_tensors import kind_of

# Of the standard domain. 7 is where broadcasting became NumPy's; what changed from 6 to 7 is known (`onnx_legacy`), of
# older files only what did not change until 7 runs.
OLDEST_OPSET = 6
STANDARD = ""


def domain_of(domain: str) -> str:
    """The standard domain has two names."""
    return STANDARD if domain == "ai.onnx" else domain


def key_of(domain: str, op: str) -> str:
    """How `cenote.ops.DECODERS` and messages name an operator."""
    return f"{domain}.{op}" if domain else op


@cache
def opset_range(domain: str) -> tuple[int, int] | None:
    """Oldest and newest supported opset of a domain; None for domains that ONNX does not know."""
    ranges: Mapping[str, tuple[int, int]] = defs.C.schema_version_map()
    if domain not in ranges:
        return None
    oldest, newest = ranges[domain]
    return oldest, newest


def check_opset(domain: str, opset: int) -> None:
    """Raise UnsupportedError for an opset older or newer than what is supported."""
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
    """The schema in force at an opset; None when ONNX has none."""
    try:
        return defs.get_schema(op, max_inclusive_version=opset, domain=domain)
    except defs.SchemaError:
        return None


@cache
def _attributes_of(domain: str, op: str, opset: int) -> dict[str, tuple[str, bool, Any]]:
    """Attribute name -> (type, required, default)."""
    schema = schema_of(domain, op, opset)
    assert schema is not None
    return {
        name: (attribute.type.name, bool(attribute.required), attribute.default_value)
        for name, attribute in schema.attributes.items()
    }


def default_attributes(domain: str, op: str, opset: int) -> dict[str, Any]:
    """AttributeProtos of the schema's defaults, by name."""
    known = _attributes_of(domain, op, opset)
    return {name: default for name, (_, _, default) in known.items() if default is not None and default.name}


_STILL_RUN = {"GroupNormalization-18"}  # deprecated for scale and bias per group, which Cenote has


def check_node(node: Any, attributes: Iterable[Any], domain: str, opset: int) -> None:
    """Raise when a node with these AttributeProtos does not fit its operator's schema. Without a schema it passes."""
    signature = _signature(domain, node.op_type, opset)
    if signature is None:
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
    """Is an operator of the standard domain in opset 7 what it is in this one?"""
    before, later = schema_of(STANDARD, op, opset), schema_of(STANDARD, op, OLDEST_OPSET + 1)
    return before is not None and later is not None and before.since_version == later.since_version


@dataclass(frozen=True)
class _Signature:
    """What a schema says of inputs and outputs: least and most of each; names of inputs that must be there, else ""."""

    name: str
    deprecated: bool
    inputs: tuple[int, int]
    outputs: tuple[int, int]
    needed: tuple[str, ...]


@cache
def _signature(domain: str, op: str, opset: int) -> _Signature | None:
    """A schema's attributes take 10 us to read, for every node."""
    schema = schema_of(domain, op, opset)
    if schema is None:
        return None
    single = defs.OpSchema.FormalParameterOption.Single
    return _Signature(
        f"{key_of(domain, op)}-{schema.since_version}", schema.deprecated, (schema.min_input, schema.max_input),
        (schema.min_output, schema.max_output),
        tuple(each.name if each.option == single else "" for each in schema.inputs),
    )  # fmt: skip


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
    """The error for an operator without a decoder; names the nearest supported ones."""
    key = key_of(domain, op)
    near = difflib.get_close_matches(key, list(supported), n=3, cutoff=0.6)
    known = schema_of(domain, op, opset) is not None or opset_range(domain) is None
    text = (
        f"operator {key} (opset {opset}) is not supported"
        if known
        else f"{key} is no operator of opset {opset}"
    )
    return UnsupportedError(text + (f"; nearest supported: {', '.join(near)}" if near else ""))
