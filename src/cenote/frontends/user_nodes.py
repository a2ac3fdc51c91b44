"""Nodes of TensorFlow and TensorFlow Lite that operators of users compute.

Both formats name operations without a domain: here they have that of their format ("tflite.MyOp", "tensorflow.MyOp"),
and a namespace of TensorFlow's is a part of it ("tensorflow.Addons.Resample" is the operation Addons>Resample).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from cenote.core.extensions.installed import failures
from cenote.frontends.builder import GraphBuilder
from cenote.ops.base import Decoder
from cenote.ops.user_operators import UserOperators


def key_of_user(domain: str, op: str) -> str:
    """Return the name under which users give the operator of an operation."""
    return ".".join(filter(None, (domain, *re.split(r"\W+", op))))


def ways_to_add(key: str) -> str:
    """Return the end of an error's text about an operator that is not known: how a user adds it."""
    return (
        f'; a function of yours can compute it: cenote.load(…, operators={{"{key}": function}}), or an operator '
        "that a module registers (@cenote.register) or an installed package has (entry points cenote.operators): "
        "docs/extending.md"
    ) + "".join(f"; {failure}" for failure in failures())


def decoder_of_user(operators: UserOperators, key: str, known: bool) -> Decoder | None:
    """Return the decoder of a user's operator. Those of installed extensions count where Cenote has none (`known`)."""
    return operators.decoder(key) or (None if known else operators.installed(key))


def add_user_node(
    builder: GraphBuilder,
    decoder: Decoder,
    key: str,
    inputs: Sequence[str],
    names: Sequence[str],
    attributes: Mapping[str, Any],
) -> tuple[str, ...]:
    """Add the node of a user's operator; return its values."""
    domain, _, op = key.rpartition(".")
    return builder.add_decoded(op, inputs, names, domain, attributes, decoder)
