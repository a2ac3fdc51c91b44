"""Operations of TensorFlow that operators of users compute.

A function gets all attributes of the node, but for those that begin with "_": types by NumPy's names, shapes as tuples
with -1 for an open extent. The file does not say how many outputs an operation has: they are those that are read, up to
the last.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from cenote.core.errors import UnsupportedError
from cenote.frontends.tensorflow.tensors import array_of, dtype_of, shape_of
from cenote.frontends.user_nodes import add_user_node, decoder_of_user, key_of_user, ways_to_add
from cenote.ops.base import Decoder

DOMAIN = "tensorflow"
Message = Any
"""Message of TensorFlow's files: their classes are made when they are read."""
Decode = Callable[[Any], Any]
"""Function from a node's site to what it is imported as."""


class NodeOfUser(Protocol):
    """Protocol of a node of the graph that is imported (`nodes.NodeSite`)."""

    op: str
    node: str
    importer: Any
    scope: Any

    @property
    def builder(self) -> Any: ...

    @property
    def attributes(self) -> Mapping[str, Message]: ...

    def values(self) -> Sequence[str]: ...

    def names(self, count: int) -> Sequence[str]: ...


def decode_of(site: NodeOfUser, decode: Decode | None) -> Decode:
    """Return the decoder of an operation: the user's, or `decode`, Cenote's. Raises UnsupportedError for none."""
    key = key_of_user(DOMAIN, site.op)
    decoder = decoder_of_user(site.importer.user_operators, key, decode is not None)
    if decoder is not None:
        return functools.partial(_of_user, decoder, key)
    if decode is None:
        raise UnsupportedError(f"TensorFlow's operation {site.op} is not supported{ways_to_add(key)}")
    return decode


def _of_user(decoder: Decoder, key: str, site: NodeOfUser) -> Sequence[str]:
    attributes = {
        name: value
        for name, each in site.attributes.items()
        if not name.startswith("_") and (value := _attribute(site, name, each)) is not None
    }
    return add_user_node(site.builder, decoder, key, site.values(), site.names(_outputs(site)), attributes)


def _attribute(site: NodeOfUser, name: str, each: Message) -> Any:
    """Return an attribute as functions take it; None for an empty one."""
    kind = each.WhichOneof("value")
    if kind == "tensor":
        return array_of(each.tensor, site.importer.contents, f"attribute '{name}'")
    if kind != "list":
        return None if kind is None else _plain(name, kind, getattr(each, kind))
    for inner in ("s", "i", "f", "b", "type", "shape"):
        if listed := getattr(each.list, inner):
            return tuple(_plain(name, inner, value) for value in listed)
    return ()


def _plain(name: str, kind: str, value: Message) -> Any:
    if kind == "s":
        try:
            return value.decode()
        except UnicodeDecodeError:  # bytes that are no text
            return np.frombuffer(value, np.uint8)
    if kind == "f":
        return float(np.float32(value))
    if kind in ("i", "b"):
        return int(value) if kind == "i" else bool(value)
    if kind == "type":
        return dtype_of(value, f"attribute '{name}'").name
    if kind == "shape" and (shape := shape_of(value)) is not None:
        return tuple(-1 if extent is None else int(extent) for extent in shape)
    raise UnsupportedError(f"attribute '{name}' ({kind}) cannot be given to a function")


def _outputs(site: NodeOfUser) -> int:
    """Return how many of a node's outputs are read, up to the last.

    Raises UnsupportedError in a function's body, which names outputs, where several are read: their order is not in
    the file.
    """
    read = [reference for reference in _references(site) if reference.split(":")[0] == site.node]
    named = {parts[1] for each in read if len(parts := each.split(":")) > 2}
    if len(named) > 1:
        raise UnsupportedError(
            f"its outputs {', '.join(sorted(named))} are read in the body of a function, which does not say their "
            "order; freeze the graph"
        )
    return 1 + max((site.scope.place(each)[1] for each in read), default=0)


def _references(site: NodeOfUser) -> Iterable[str]:
    for node in site.scope.nodes.values():
        yield from (each for each in node.input if not each.startswith("^"))
    yield from site.scope.results
