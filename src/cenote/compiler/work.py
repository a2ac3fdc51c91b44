"""What the steps of a node do: operations, those that are really executed, bytes that must be moved at least once."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter

import numpy as np

from cenote.compiler.barriers import Extent, Work
from cenote.core.sizes import minimum, plain
from cenote.core.types import TensorType
from cenote.kernels.base import Call, Packed, View
from cenote.ops.base import Op

_NARROW = ("float16", "bfloat16")  # stored so; computed in float32


@dataclass(frozen=True)
class Operand:
    """A tensor that calls of a node may take: where its buffer lies, and its bytes, halo and junk lanes left out."""

    extent: Extent
    nbytes: int


class _Operands:
    """Tensors that calls of a node may take, by where they lie."""

    def __init__(self, operands: Sequence[Operand]) -> None:
        self.places: dict[tuple[str, int], list[tuple[int, int, int]]] = {}  # begin, end, which; sorted
        for number, operand in enumerate(operands):
            slot, extent = operand.extent.slot, operand.extent
            place = (slot.offset, slot.offset + max(1, extent.nbytes), number)
            self.places.setdefault((slot.kind, slot.index), []).append(place)
        self.reach: dict[tuple[str, int], list[int]] = {}  # the furthest end so far
        for key, places in self.places.items():
            places.sort()
            self.reach[key] = [*accumulate((end for _, end, _ in places), max)]

    def of(self, call: Call) -> list[int]:
        """Return the buffers in which the call gets a place, in order."""
        found: set[int] = set()
        for argument in call.arguments:
            if not isinstance(argument, View):
                continue
            key, offset = (argument.slot.kind, argument.slot.index), plain(argument.slot.offset)
            places = self.places.get(key, ())
            at = bisect.bisect_right(places, offset, key=itemgetter(0)) - 1
            while at >= 0 and self.reach[key][at] > offset:
                if places[at][1] > offset:
                    found.add(places[at][2])
                at -= 1
        return sorted(found)


def _distinct(operands: Sequence[Operand]) -> list[Operand]:
    """One for each place: a tensor that a node takes twice counts twice there."""
    bytes_of: dict[Extent, int] = {}
    for operand in operands:
        bytes_of[operand.extent] = bytes_of.get(operand.extent, 0) + operand.nbytes
    return [Operand(extent, nbytes) for extent, nbytes in bytes_of.items()]


def works_of(
    op: Op,
    types: Sequence[TensorType | None],
    made: Sequence[TensorType],
    calls: Sequence[Call],
    inputs: Sequence[Operand],
    outputs: Sequence[Operand],
    temporaries: Sequence[Operand],
) -> list[Work]:
    """Of the calls of a node with inputs of `types` and outputs of those `made`. Several calls share its operations as
    they share those that are executed; where none says how many these are, as they share the bytes (of two calls that
    add up a map, the second has only the sums of the parts)."""
    total = op.operations(tuple(made), *(op.arranged(types) if op.operands else types))
    dtype = made[0].dtype.name
    moved = _moved(calls, inputs, outputs, temporaries)
    if op.selects:
        moved = [(minimum(read, written), written) for read, written in moved]
    said = [plain(call.operations) for call in calls]
    parts = said if any(said) else [plain(read + written) for read, written in moved]
    works, whole, some = [], max(1, sum(parts)), any(said)
    for call, part, (read, written) in zip(calls, parts, moved, strict=True):
        operations = total if len(calls) == 1 else total * part // whole
        executed = call.operations if some else operations
        works.append(Work(operations, executed, read, written, "float32" if dtype in _NARROW else dtype))
    return works


def _moved(
    calls: Sequence[Call],
    inputs: Sequence[Operand],
    outputs: Sequence[Operand],
    temporaries: Sequence[Operand],
) -> list[tuple[int, int]]:
    """Bytes that each call reads and writes at least. Several calls share what they write; a temporary is written by
    the first that has it and read by those after."""
    inputs = _distinct(inputs)
    reading, writing, between = (_Operands(each) for each in (inputs, outputs, temporaries))
    writes = [writing.of(call) for call in calls]
    writers = Counter(index for each in writes for index in each)
    seen: set[int] = set()
    moved = []
    for call, makes in zip(calls, writes, strict=True):
        read = sum(inputs[index].nbytes for index in reading.of(call))
        constants = [x for x in call.arguments if isinstance(x, np.ndarray | Packed)]
        read += sum(x.size * x.dtype.itemsize for x in constants)
        written = sum(
            outputs[index].nbytes if writers[index] == 1 else outputs[index].nbytes // writers[index]
            for index in makes
        )
        for index in between.of(call):
            nbytes = temporaries[index].nbytes
            read, written = (read + nbytes, written) if index in seen else (read, written + nbytes)
            seen.add(index)
        moved.append((read, written))
    return moved
