"""Description of a plan's memory: how much, and the buffers of its arena."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cenote.compiler.barriers import StepOrigin
from cenote.compiler.memory import Placement, temporary_name
from cenote.core.deferred import dataclass
from cenote.graph.graph import Graph
from cenote.runtime.steps import SlotKind


@dataclass(frozen=True)
class BlockDescription:
    """A buffer of the arena: `nbytes` bytes from `offset`, from the step `first` to the step `last`."""

    name: str
    offset: int
    nbytes: int
    first: int
    last: int

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> BlockDescription:
        """Read the result of `as_dict`. Numbers that depended on sizes are texts in JSON."""
        return BlockDescription(**{**data, "offset": int(data["offset"]), "nbytes": int(data["nbytes"])})


@dataclass(frozen=True)
class MemoryDescription:
    """Memory in bytes. `arena` holds all intermediate values, `peak` is the largest set of them alive at once (no
    plan can need less), `constants` are the weights in the kernels' form, `scratch` is each thread's own memory.
    `blocks`: the buffers of the arena, with their places and lifetimes.
    """

    arena: int
    peak: int
    constants: int
    scratch: int
    buffers: int
    blocks: tuple[BlockDescription, ...] = ()

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> MemoryDescription:
        """Read the result of `as_dict`."""
        return MemoryDescription(**{**data, "blocks": tuple(map(BlockDescription.from_dict, data["blocks"]))})


def described_blocks(
    graph: Graph, memory: Placement, origins: Sequence[StepOrigin]
) -> Iterator[BlockDescription]:
    """Describe the buffers of the arena, with the steps of the nodes that touch them."""
    steps: dict[int, tuple[int, int]] = {}  # first and last of each node
    for number, origin in enumerate(origins):
        steps[origin.node] = (steps.get(origin.node, (number,))[0], number)
    times: dict[str, tuple[int, int]] = {}
    for index, (first, last) in steps.items():
        node = graph.nodes[index]
        roots = {
            memory.buffer_of[name].root for name in (*node.inputs, *node.outputs) if name in memory.buffer_of
        }
        roots |= {temporary_name(index, i) for i in range(len(memory.temporaries.get(index, ())))}
        for root in roots:
            before = times.get(root, (first, last))
            times[root] = (min(before[0], first), max(before[1], last))
    for buffer in memory.buffers:
        if buffer.slot is not None and buffer.slot.kind is SlotKind.ARENA and buffer.root in times:
            yield BlockDescription(buffer.root, buffer.slot.offset, buffer.nbytes, *times[buffer.root])
