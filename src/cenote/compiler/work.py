"""What the steps of a node do: operations, those that are really executed, bytes that must be moved at least once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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

    def is_of(self, call: Call) -> bool:
        """Does the call get a place in it?"""
        slot = self.extent.slot
        return any(
            isinstance(argument, View)
            and (argument.slot.kind, argument.slot.index) == (slot.kind, slot.index)
            and slot.offset <= plain(argument.slot.offset) < slot.offset + max(1, self.extent.nbytes)
            for argument in call.arguments
        )


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
    works = []
    for call, part, (read, written) in zip(calls, parts, moved, strict=True):
        operations = total if len(calls) == 1 else total * part // max(1, sum(parts))
        executed = call.operations if any(said) else operations
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
    writers = [sum(output.is_of(call) for call in calls) for output in outputs]
    seen: set[int] = set()
    moved = []
    for call in calls:
        read = sum(x.nbytes for x in inputs if x.is_of(call))
        constants = [x for x in call.arguments if isinstance(x, np.ndarray | Packed)]
        read += sum(x.size * x.dtype.itemsize for x in constants)
        written = sum(
            y.nbytes if writer == 1 else y.nbytes // writer
            for y, writer in zip(outputs, writers, strict=True)
            if writer and y.is_of(call)
        )
        for index, between in enumerate(temporaries):
            if between.is_of(call):
                read, written = (
                    (read + between.nbytes, written) if index in seen else (read, written + between.nbytes)
                )
                seen.add(index)
        moved.append((read, written))
    return moved
