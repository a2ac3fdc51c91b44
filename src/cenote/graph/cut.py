"""Cut of a graph where shapes depend on content: the host's part, and the facts that the rest is compiled for.

The part after a cut is typed, and compiled, by the findings there: extents that an operator left open (how many boxes
were kept) and contents that decide shapes (a Reshape's target). A `CutFindings` holds both, as a pattern that is the
same for most runs, and numbers that differ; plans are made for a pattern, with the numbers unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from cenote.core.computed import SizedArray
from cenote.core.deferred import dataclass
from cenote.core.errors import ModelError
from cenote.core.sizes import is_size
from cenote.core.types import Array, TensorType, dtype_named
from cenote.graph.graph import Node
from cenote.graph.interpreter import run_node
from cenote.ops.base import OpenShape

# Extents in a pattern: one that the inputs' types give, and one that is a number of the finding.
FOLLOWS, OPEN = -2, -1
_MOST_NUMBERS = 64  # most numbers of a content; a longer one is part of the pattern as a whole
_LARGEST = 1 << 20  # largest number that counts as a size

Pattern = tuple[tuple[Any, ...], ...]


class CutFindings(NamedTuple):
    """Facts that are found at a cut. `pattern` has, for each value whose type does not follow from the inputs' types,
    its dtype and extents; for a content its dtype, shape and elements. OPEN, or () among elements, stands for the next
    of `numbers`, each at least 1."""

    pattern: Pattern
    numbers: tuple[int, ...]


def count_of(pattern: Pattern) -> int:
    """Return how many numbers belong to a pattern."""
    return sum(
        entry[1].count(OPEN) if len(entry) == 2 else sum(element == () for element in entry[2])
        for entry in pattern
    )


@dataclass(frozen=True)
class Cut:
    """Cut of a graph. `host` are the nodes that run on the host, `constants` those that they read. `takes` are the
    values that the rest reads: inputs of the graph, values that the part before made (`made`, in order), and outputs of
    host nodes. The rest is compiled for the content of the values in `contents`. `ends`: there is no rest, and the host
    makes the remaining outputs."""

    host: tuple[Node, ...]
    constants: Mapping[str, Array]
    made: tuple[str, ...]
    takes: tuple[str, ...]
    contents: tuple[str, ...]
    ends: bool = False

    def run(
        self,
        values: Mapping[str, Array],
        prepared: Callable[[Node], Node] = lambda node: node,
        threads: int | None = None,
    ) -> dict[str, Array]:
        """Return the values together with those that the host nodes make, by their references or by kernels on this
        number of threads. `prepared` returns the node to run in place of a host node."""
        known = {**self.constants, **values}
        for node in self.host:
            inputs = [known[name] if name else None for name in node.inputs]
            outputs = run_node(prepared(node), inputs, threads)
            known.update({name: y for name, y in zip(node.outputs, outputs, strict=False) if name})
        return known

    def finding(self, values: Mapping[str, Array]) -> CutFindings:
        """Return the finding for which the rest is compiled, from these values."""
        shapes = self.open_shapes({name: TensorType(x.dtype, x.shape) for name, x in values.items()})
        pattern: list[tuple[Any, ...]] = []
        numbers: list[int] = []
        for name in self.takes:
            if name in self.contents:
                pattern.append(_content(values[name], numbers))
            elif name in shapes:
                pattern.append(_extents(values[name], shapes[name], numbers))
        return CutFindings(tuple(pattern), tuple(numbers))

    def types(self, known: Mapping[str, TensorType], found: CutFindings) -> dict[str, TensorType]:
        """Return the types of the values that the rest takes, with the contents of the finding. `known` has the types
        of the host's inputs and of the other values that no host node makes; numbers of the finding may be Sizes."""
        shapes, numbers = self.open_shapes(known), iter(found.numbers)
        entries, types = iter(found.pattern), {}
        for name in self.takes:
            if name in self.contents:
                types[name] = TensorType.known(_told(next(entries), numbers))
            elif name in shapes:
                dtype, extents = next(entries)
                types[name] = TensorType(dtype_named(dtype), _whole(name, extents, shapes[name], numbers))
            else:
                types[name] = TensorType(known[name].dtype, known[name].shape)
        return types

    def open_shapes(self, known: Mapping[str, TensorType]) -> dict[str, OpenShape | None]:
        """Return the shapes of the values that host nodes make, as far as types determine them."""
        constants = {name: TensorType.known(array) for name, array in self.constants.items()}
        found: dict[str, OpenShape | None] = {}
        for node in self.host:
            if node.op.apart:
                found.update(dict.fromkeys(node.outputs))
                continue
            inputs = [(constants.get(name) or known[name]) if name else None for name in node.inputs]
            shapes = node.op.open_shapes(*node.op.arranged(inputs) if node.op.operands else inputs)
            for index, name in enumerate(node.outputs):
                found[name] = None if shapes is None else shapes[index]
        return found


def _extents(array: Array, known: OpenShape | None, numbers: list[int]) -> tuple[Any, ...]:
    """Return the entry of an array that the host made. An extent of 0 is part of the pattern."""
    extents = []
    for axis, extent in enumerate(array.shape):
        if known is not None and known[axis] is not None:
            extents.append(FOLLOWS)
        elif 0 < extent <= _LARGEST:
            extents.append(OPEN)
            numbers.append(extent)
        else:
            extents.append(extent)
    return array.dtype.name, tuple(extents)


def _whole(
    name: str, extents: Sequence[int], known: OpenShape | None, numbers: Iterator[int]
) -> tuple[int, ...]:
    """Return the shape of an entry."""
    shape = []
    for axis, extent in enumerate(extents):
        follows = known[axis] if known is not None and len(known) == len(extents) else None
        if extent == FOLLOWS:
            if follows is None:
                raise ModelError(f"'{name}': nothing is known about axis {axis}")
            shape.append(follows)
        else:
            shape.append(next(numbers) if extent == OPEN else extent)
    return tuple(shape)


def _content(array: Array, numbers: list[int]) -> tuple[Any, ...]:
    """Return the entry of a content: whole numbers from 1 on count as sizes, others belong to the pattern."""
    if array.dtype.kind not in "iu" or array.size > _MOST_NUMBERS:
        return array.dtype.name, array.shape, np.ascontiguousarray(array).tobytes().hex()
    items = array.reshape(-1).tolist()
    numbers.extend(item for item in items if 0 < item <= _LARGEST)
    # An empty element stands for a number of the finding.
    elements = tuple((item,) if not 0 < item <= _LARGEST else () for item in items)
    return array.dtype.name, array.shape, elements


def _told(entry: tuple[Any, ...], numbers: Iterator[int]) -> Array:
    """Return the content of an entry."""
    dtype, shape, elements = dtype_named(entry[0]), tuple(entry[1]), entry[2]
    if isinstance(elements, str):
        content: Array = np.frombuffer(bytes.fromhex(elements), dtype).reshape(shape)
        return content
    items = [element[0] if element else next(numbers) for element in elements]
    if not any(map(is_size, items)):
        return np.array(items, dtype).reshape(shape)
    array = np.empty(math.prod(shape), object)
    array[:] = items
    return SizedArray.of(array.reshape(shape), dtype)
