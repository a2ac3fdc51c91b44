"""Work of the steps of a node: operations, those that are really executed, bytes that must be moved at least once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from cenote.compiler.barriers import Work
from cenote.core.sizes import minimum, plain
from cenote.core.types import TensorType, dtype_name
from cenote.kernels.base import Call, Packed, View
from cenote.ops.base import Op
from cenote.runtime.steps import Slot

_NARROW = ("float16", "bfloat16")  # types in memory; such values are computed in float32


Place = tuple[str, int, int]


def place_of(slot: Slot) -> Place:
    """Return a key that distinguishes operands: of a weight that a call takes as it lies, also its place in it."""
    return slot.kind, slot.index, 0 if slot.is_operand else plain(slot.offset)


class Bytes(dict[Place, int]):
    """Bytes of the operands of a node, by their places, without halo and junk lanes."""

    def add(self, slot: Slot, nbytes: int) -> None:
        """Add a tensor: one that a node takes twice under two names counts twice."""
        place = place_of(slot)
        self[place] = self.get(place, 0) + nbytes


def works_of(
    op: Op,
    types: Sequence[TensorType | None],
    made: Sequence[TensorType],
    calls: Sequence[Call],
    inputs: Bytes,
    outputs: Bytes,
    temporaries: Bytes,
) -> list[Work]:
    """Return the work of the calls of a node with inputs of `types` and outputs of the types `made`. Several calls
    share its operations in the ratio of those that are executed; where no call says how many these are, in the ratio
    of the bytes (of two calls that add up a map, the second has only the sums of the parts).
    """
    total = op.operations(tuple(made), *(op.arranged(types) if op.operands else types))
    dtype = computation_dtype(made)
    moved = _moved(calls, inputs, outputs, temporaries)
    if op.selects:
        moved = [(minimum(read, written), written) for read, written in moved]
    said = [plain(call.operations) for call in calls]
    parts = said if any(said) else [plain(read + written) for read, written in moved]
    works, whole, some = [], max(1, sum(parts)), any(said)
    for call, part, (read, written) in zip(calls, parts, moved, strict=True):
        operations = total if len(calls) == 1 else total * part // whole
        executed = call.operations if some else operations
        works.append(Work(operations, executed, read, written, dtype))
    return works


def computation_dtype(made: Sequence[TensorType]) -> str:
    """Return the name of the type in which a node with these outputs computes."""
    name = dtype_name(made[0].dtype)
    return "float32" if name in _NARROW else name


def _moved(calls: Sequence[Call], inputs: Bytes, outputs: Bytes, temporaries: Bytes) -> list[tuple[int, int]]:
    """Return the bytes that each call reads and writes at least. Several calls share what they write; a temporary is
    written by the first that has it and read by those after, which may have a view of a part."""
    touched = [
        {place_of(x.slot): x.type.nbytes for x in call.arguments if isinstance(x, View)} for call in calls
    ]
    writers = Counter(place for places in touched for place in places)
    seen: set[Place] = set()
    moved = []
    for call, places in zip(calls, touched, strict=True):
        read = sum(inputs[place] for place in places if place in inputs)
        constants = [x for x in call.arguments if isinstance(x, np.ndarray | Packed)]
        read += sum(x.size * x.dtype.itemsize for x in constants)
        written = sum(
            outputs[place] if writers[place] == 1 else outputs[place] // writers[place]
            for place in places
            if place in outputs
        )
        for place, part in places.items():
            if place in temporaries:
                nbytes = minimum(temporaries[place], part)
                read, written = (read + nbytes, written) if place in seen else (read, written + nbytes)
                seen.add(place)
        moved.append((read, written))
    return moved
