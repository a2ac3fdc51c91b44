"""Operations on lists of tensors: what Keras's recurrent layers and `tf.while_loop` read their steps from and write
them to. A list exists while a graph is imported, so loops over lists are those that are unrolled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from cenote.core.errors import ModelError, UnsupportedError
from cenote.frontends import pieces
from cenote.frontends.tensorflow.nodes import Decode, NodeSite, TensorList, Value

_MOST_ITEMS = 100_000


def _list(site: NodeSite) -> TensorList:
    value = site.inputs[0] if site.inputs else None
    if not isinstance(value, TensorList):
        raise ModelError("its input 0 is no list of tensors")
    return value


def _items(given: TensorList) -> tuple[str, ...]:
    """Return the items of a list that is no tensor."""
    if given.whole:
        raise UnsupportedError("changes a list that was made of a tensor")
    return given.items


def _place(site: NodeSite, count: int) -> int:
    index = site.number(1, "the index")
    if not 0 <= index < count:
        raise ModelError(f"item {index} of a list of {count}")
    return index


def _reserved(site: NodeSite) -> TensorList:
    count = site.number(1, "the number of items")
    if not 0 <= count <= _MOST_ITEMS:
        raise UnsupportedError(f"a list of {count:,} tensors; {_MOST_ITEMS:,} are supported")
    return TensorList(items=("",) * count)


def _read(site: NodeSite) -> str:
    given = _list(site)
    if given.whole:
        place = site.builder.constant(np.int64(site.number(1, "the index")))
        return site.builder.add("Gather", given.whole, place, name=site.name, axis=0)
    item = given.items[_place(site, len(given.items))]
    if not item:
        raise UnsupportedError("reads an item of a list before it is written")
    return item


def _written(site: NodeSite) -> TensorList:
    given = _list(site)
    items = [*_items(given)]
    items[_place(site, len(items))] = site.x(2)
    return replace(given, items=tuple(items))


def _pushed(site: NodeSite) -> TensorList:
    given = _list(site)
    return replace(given, items=(*_items(given), site.x(1)))


def _popped(site: NodeSite) -> Sequence[Value]:
    given = _list(site)
    items = _items(given)
    if not items:
        raise ModelError("takes an item of an empty list")
    return replace(given, items=items[:-1]), items[-1]


def _stacked(site: NodeSite) -> str:
    given = _list(site)
    if given.whole:
        return given.whole
    if not given.items or not all(given.items):
        raise UnsupportedError("stacks a list of which items were never written")
    return pieces.stacked(site.builder, given.items, 0, site.name)


def _length(site: NodeSite) -> str:
    given = _list(site)
    if not given.whole:
        return site.builder.constant(np.int32(len(given.items)))
    first = site.builder.add("Shape", given.whole, start=0, end=1)
    scalar = site.builder.add("Squeeze", first, site.builder.integers([0]))
    return site.builder.cast(scalar, np.dtype(np.int32), site.name)


LISTS: Mapping[str, Decode] = {
    "TensorListReserve": _reserved,
    "EmptyTensorList": lambda site: TensorList(),
    "TensorListFromTensor": lambda site: TensorList(whole=site.x(0)),
    "TensorListGetItem": _read,
    "TensorListSetItem": _written,
    "TensorListPushBack": _pushed,
    "TensorListPopBack": _popped,
    "TensorListStack": _stacked,
    "TensorListLength": _length,
}
