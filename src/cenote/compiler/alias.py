"""Analysis of values that share memory.

A view is its input's memory; inputs of a concat in place are parts of its output, outputs of a split parts of its
input; an elementwise operator may write over an input that is not needed afterwards.

All of it is linear in the nodes: values know the buffer they lie in (union by path compression), and a buffer keeps
what its members have in common, so that no step searches them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cenote.compiler.placement import FOREVER, Buffer
from cenote.compiler.schedule import Schedule
from cenote.core.types import TensorType
from cenote.kernels.base import present
from cenote.ops.base import Alias
from cenote.runtime.steps import Slot, SlotKind

Halo = tuple[tuple[int, int], ...]


class SharedBuffers:
    """Buffers that are left once values share memory.

    `buffers` by the value that owns each (its root); `offsets` gives for every other value the one in which it lies,
    and how many blocks of channels, or elements, from its start. `aliased` are the steps whose output is their
    input's memory.
    """

    def __init__(self, schedule: Schedule, wanted_halo: Mapping[str, Halo]) -> None:
        self.graph, self.lowerings, self.wanted_halo = schedule.graph, schedule.lowerings, wanted_halo
        self.buffers: dict[str, Buffer] = {}
        self.offsets: dict[str, tuple[str, int]] = {}
        self.lanes = {name: layout.lanes for name, layout in self.graph.layouts.items()}
        self.last_use = {name: step for step, node in enumerate(self.graph.nodes) for name in node.inputs}
        self.last_use.update(dict.fromkeys(self.graph.outputs, FOREVER))
        self.aliased: set[int] = set()
        self._own_buffers()
        self._alias_concats()
        self._alias_splits()
        self._alias_views()
        self._alias_in_place()

    def _own_buffers(self) -> None:
        for index, declared in enumerate(self.graph.inputs):
            self._add(declared.name, Slot(SlotKind.INPUT, index))
        for index, name in enumerate(self.graph.constants):
            self._add(name, Slot(SlotKind.CONSTANT, index))
        outputs = {name: index for index, name in enumerate(self.graph.outputs)}
        for node in self.graph.nodes:
            for name in node.outputs:
                if name:
                    self._add(name, Slot(SlotKind.OUTPUT, outputs[name]) if name in outputs else None)

    def _add(self, name: str, slot: Slot | None) -> None:
        self.buffers[name] = Buffer(
            name,
            slot,
            members=[name],
            lanes={self.lanes.get(name, 0)},
            each=present(self.graph.type_of(name)).nbytes,
            last_use=self.last_use.get(name, -1),
            wants_halo=bool(self.wanted_halo.get(name)),
        )

    def _join(self, child: str, parent: str, offset: int) -> None:
        """Put the child's whole buffer into the parent's, `offset` blocks of channels or elements from its start."""
        buffer = self.buffers.pop(child)
        self.offsets[child] = (parent, offset)
        self.buffers[self.root(parent)[0]].take_in(buffer)

    def root(self, name: str) -> tuple[str, int]:
        """Return the value whose buffer a value lies in, and its place there. Every value on the way then stores the
        result."""
        way = []
        while name in self.offsets:
            way.append(name)
            name = self.offsets[name][0]
        total = 0
        for inner in reversed(way):
            total += self.offsets[inner][1]
            self.offsets[inner] = (name, total)
        return name, total

    def _steps(self, kind: Alias) -> list[int]:
        return [i for i, option in enumerate(self.lowerings) if option is not None and option.alias is kind]

    def _alias_concats(self) -> None:
        # Backwards, so that a concat of concats is joined from the outside in.
        for step in reversed(self._steps(Alias.JOINED)):
            node = self.graph.nodes[step]
            self._join_parts(node.inputs, [self.graph.types[name] for name in node.inputs], node.outputs[0])

    def _alias_splits(self) -> None:
        for step in self._steps(Alias.PARTS):
            node = self.graph.nodes[step]
            parts = node.op.infer(*self.graph.input_types(node))
            self._join_parts(node.outputs, parts, node.inputs[0])

    def _join_parts(self, parts: Sequence[str], types: Sequence[TensorType], whole: str) -> None:
        """Put parts one behind the other into the whole's memory; a part that is never read has no name."""
        offset, lanes = 0, self.lanes.get(whole, 0)
        for name, type in zip(parts, types, strict=False):
            if name:
                self._join(name, whole, offset)
            offset += -(-type.shape[1] // lanes) if lanes else type.size

    def _alias_views(self) -> None:
        for step in self._steps(Alias.VIEW):
            node = self.graph.nodes[step]
            source, result = node.inputs[0], node.outputs[0]
            if self._try_view(source, result):
                self.aliased.add(step)

    def _try_view(self, source: str, result: str) -> bool:
        """Make both names share memory, if its layout suits both."""
        root, target = self.root(source)[0], self.buffers.get(result)
        if self.lanes.get(source, 0) != self.lanes.get(result, 0):
            # Where other values lie in either of them, their offsets count blocks or elements, not both.
            alone = root == source and len(self.buffers[root].members) == 1
            alone = alone and (target is None or target.members == [result])
            if not alone or self.wanted_halo.get(source) or self.wanted_halo.get(result):
                return False
        if target is not None and target.slot is None:
            self._join(result, source, 0)
        elif self._may_move(source, result):
            # The result is an output's memory or a part of a concat: its input moves there.
            self._join(root, result, 0)
        else:
            return False
        return True

    def _may_move(self, name: str, result: str) -> bool:
        """Whether the value's whole buffer can become the result's memory: only if all in it are views of the same
        elements."""
        root, offset = self.root(name)
        buffer = self.buffers[root]
        if result not in self.buffers and buffer.lanes != {self.lanes.get(result, 0)}:
            return False  # in a part of a concat, offsets count blocks or elements, not both
        same = buffer.each is not None
        free = not buffer.wants_halo
        return buffer.slot is None and offset == 0 and same and (free or buffer.members == [name])

    def _alias_in_place(self) -> None:
        for step, (node, option) in enumerate(zip(self.graph.nodes, self.lowerings, strict=True)):
            if option is None or not option.in_place or option.alias is not None:
                continue
            result = node.outputs[0]
            target = self.buffers.get(result)
            if target is None or target.slot is not None or len(target.members) > 1:
                continue
            for position in option.in_place:
                if position < len(node.inputs) and self._may_overwrite(node.inputs, position, result, step):
                    self._join(result, node.inputs[position], 0)
                    break

    def _may_overwrite(self, inputs: Sequence[str], position: int, result: str, step: int) -> bool:
        """Whether the input's whole buffer is dead after this step, of the same size, and read by this step only
        there."""
        name = inputs[position]
        if not name or name in self.graph.constants:
            return False
        root, offset = self.root(name)
        buffer = self.buffers[root]
        other_inputs = {self.root(other)[0] for i, other in enumerate(inputs) if other and i != position}
        return (
            buffer.slot is None
            and offset == 0
            and root not in other_inputs
            and self.graph.types[root].nbytes == self.graph.types[result].nbytes
            and self.graph.types[name].shape == self.graph.types[result].shape
            and buffer.lanes == {self.lanes.get(result, 0)}
            and buffer.last_use <= step
        )
