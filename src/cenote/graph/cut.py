"""Where a graph is cut because shapes depend on content: what the host does there, and what the rest is then told.

What follows a cut is typed, and compiled, by what was found there: extents that an operator left open (how many boxes
were kept) and contents that decide shapes (a Reshape's target). A `Finding` holds both, as a pattern that is the same
for most runs, and numbers that differ; plans are made for a pattern, with the numbers unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cenote.core.computed import SizedArray
from cenote.core.errors import ModelError
from cenote.core.sizes import is_size
from cenote.core.types import Array, TensorType, dtype_named
from cenote.graph.graph import Node
from cenote.graph.interpreter import run_node
from cenote.ops.base import OpenShape

FOLLOWS, OPEN = -2, -1  # extents in a pattern: known from the inputs' types, and a number of the finding
_MOST_NUMBERS = 64  # of a content, beyond which all of it is part of the pattern
_LARGEST = 1 << 20  # of a number

Pattern = tuple[tuple[Any, ...], ...]


class Finding(NamedTuple):
    """What was found at a cut. `pattern`: per value that is not given by the inputs' types alone its dtype and
    extents, or, of a content, dtype, shape and elements; OPEN or () stands for the next of `numbers`, at least 1."""

    pattern: Pattern
    numbers: tuple[int, ...]


def count_of(pattern: Pattern) -> int:
    """How many numbers belong to a pattern."""
    return sum(
        entry[1].count(OPEN) if len(entry) == 2 else sum(element == () for element in entry[2])
        for entry in pattern
    )


@dataclass(frozen=True)
class Cut:
    """`host` nodes run on the host; `constants` are those that they read. `takes` are the values that the rest is
    given: inputs of the graph, values that the part before made (`made`, in order), and outputs of host nodes. Of
    `contents` it is told the content. `ends`: nothing follows, the host makes what is still wanted."""

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
        """The values, and those that the host nodes make: by their references, or by kernels on so many threads.
        `prepared` gives what to run for a node."""
        known = {**self.constants, **values}
        for node in self.host:
            given = [known[name] if name else None for name in node.inputs]
            outputs = run_node(prepared(node), given, threads)
            known.update({name: y for name, y in zip(node.outputs, outputs, strict=False) if name})
        return known

    def finding(self, values: Mapping[str, Array]) -> Finding:
        """What the rest is told of these values."""
        shapes = self.open_shapes({name: TensorType(x.dtype, x.shape) for name, x in values.items()})
        pattern: list[tuple[Any, ...]] = []
        numbers: list[int] = []
        for name in self.takes:
            if name in self.contents:
                pattern.append(_content(values[name], numbers))
            elif name in shapes:
                pattern.append(_extents(values[name], shapes[name], numbers))
        return Finding(tuple(pattern), tuple(numbers))

    def types(self, known: Mapping[str, TensorType], found: Finding) -> dict[str, TensorType]:
        """The types of what the rest takes, with the contents that it is told. `known`: those of what the host reads
        and of what is no output of it; numbers of the finding may be Sizes."""
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
        """The shapes of what host nodes make, as far as types tell."""
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
    """The entry of an array that the host made. An extent of 0 is part of the pattern."""
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
    """The shape of an entry."""
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
    """The entry of a content: whole numbers from 1 on count as sizes, others belong to the pattern."""
    if array.dtype.kind not in "iu" or array.size > _MOST_NUMBERS:
        return array.dtype.name, array.shape, np.ascontiguousarray(array).tobytes().hex()
    items = array.reshape(-1).tolist()
    numbers.extend(item for item in items if 0 < item <= _LARGEST)
    # An empty element stands for a number of the finding.
    elements = tuple((item,) if not 0 < item <= _LARGEST else () for item in items)
    return array.dtype.name, array.shape, elements


def _told(entry: tuple[Any, ...], numbers: Iterator[int]) -> Array:
    """The content of an entry."""
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
