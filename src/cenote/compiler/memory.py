"""The static memory plan: which values share memory, where each lies, and the halos around it.

1. Aliases. A view is its input's memory; the inputs of an in-place concat are pieces of its output; an elementwise
   operator may write over an input that nobody needs afterwards.
2. Halos. All values of one buffer share the largest halo any reader asks for.
3. Placement: `compiler.placement`.

All of it is linear in the nodes: values know the buffer they lie in (union by path compression), and a buffer
keeps what its members have in common, so that no step looks through them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cenote.compiler.placement import FOREVER, Buffer, live_peak, place
from cenote.compiler.schedule import ALIASES, IN_PLACE_CONCAT, PIECES, VIEW, Schedule
from cenote.core.errors import CapacityError
from cenote.core.types import Layout, TensorType
from cenote.graph.graph import Graph
from cenote.kernels.base import View, buffer_elements, dense_strides, halo_offset
from cenote.ops.base import Lowering
from cenote.runtime.program import Slot

_LARGEST = 1 << 46  # bytes; beyond any machine, and far from overflowing 64-bit offsets


@dataclass(frozen=True)
class MemoryPlan:
    """Where everything lies. `views` by value name; `temporaries` by step.

    `aliased` are the steps that need no work because their output is their input's memory; `peak` is the largest
    sum of buffers alive at once: no plan can need less than that.
    """

    views: Mapping[str, View]
    temporaries: Mapping[int, tuple[View, ...]]
    buffers: tuple[Buffer, ...]
    buffer_of: Mapping[str, Buffer]
    arena_bytes: int
    peak: int
    aliased: frozenset[int]


def plan_memory(schedule: Schedule, ranks: Sequence[int] = ()) -> MemoryPlan:
    """Plan a schedule. Raises CapacityError when sizes are beyond any machine.

    Nodes of the same rank may run at once (`ranks` gives one per node, never falling); without, each is its own.
    """
    return _Planner(schedule, ranks or range(len(schedule.graph.nodes))).run()


class _Planner:
    def __init__(self, schedule: Schedule, ranks: Sequence[int]) -> None:
        self.ranks = ranks
        self.graph: Graph = schedule.graph
        self.lowerings: tuple[Lowering | None, ...] = schedule.lowerings
        self.buffers: dict[str, Buffer] = {}
        self.offsets: dict[
            str, tuple[str, int]
        ] = {}  # value -> (the value it lies in, channel or element offset)
        self.lanes = {name: layout.lanes for name, layout in self.graph.layouts.items()}
        self.last_use: dict[str, int] = {}
        for step, node in enumerate(self.graph.nodes):
            for name in node.inputs:
                self.last_use[name] = step
        for name in self.graph.outputs:
            self.last_use[name] = FOREVER
        self.wanted_halo = self._wanted_halos()
        self.aliased: set[int] = set()

    def run(self) -> MemoryPlan:
        self._own_buffers()
        self._alias_concats()
        self._alias_splits()
        self._alias_views()
        self._alias_in_place()
        self._collect_halos()
        self._sizes_and_lifetimes()
        temporaries = self._temporaries()
        placed = [b for b in self.buffers.values() if b.slot is None]
        placed += [buffer for group in temporaries.values() for buffer, _ in group]
        arena_bytes = place(placed)
        views = {name: self._view(name) for name in self.offsets_and_roots()}
        plans = {
            step: tuple(_plain_view(type, buffer) for buffer, type in group)
            for step, group in temporaries.items()
        }
        buffer_of = {name: self.buffers[self._root(name)[0]] for name in views}
        return MemoryPlan(
            views,
            plans,
            tuple(self.buffers.values()),
            buffer_of,
            arena_bytes,
            live_peak(placed),
            frozenset(self.aliased),
        )

    # ---- aliases ----------------------------------------------------------------------------------------------

    def _own_buffers(self) -> None:
        for index, declared in enumerate(self.graph.inputs):
            self._add(declared.name, Slot("input", index))
        for index, name in enumerate(self.graph.constants):
            self._add(name, Slot("constant", index))
        outputs = {name: index for index, name in enumerate(self.graph.outputs)}
        for node in self.graph.nodes:
            for name in node.outputs:
                if name:
                    self._add(name, Slot("output", outputs[name]) if name in outputs else None)

    def _add(self, name: str, slot: Slot | None) -> None:
        self.buffers[name] = Buffer(
            name,
            slot,
            members=[name],
            lanes={self.lanes.get(name, 0)},
            sizes={self._type(name).nbytes},
            last_use=self.last_use.get(name, -1),
            wants_halo=bool(self.wanted_halo.get(name)),
        )

    def _join(self, child: str, parent: str, offset: int) -> None:
        """Put the child's whole buffer into the parent's, `offset` blocks of channels or elements from its start."""
        buffer = self.buffers.pop(child)
        self.offsets[child] = (parent, offset)
        self.buffers[self._root(parent)[0]].take_in(buffer)

    def _root(self, name: str) -> tuple[str, int]:
        """The value whose buffer a value lies in, and where in it. Every value on the way then knows it directly."""
        way = []
        while name in self.offsets:
            way.append(name)
            name = self.offsets[name][0]
        total = 0
        for inner in reversed(way):
            total += self.offsets[inner][1]
            self.offsets[inner] = (name, total)
        return name, total

    def _steps(self, kind: str) -> list[int]:
        return [i for i, option in enumerate(self.lowerings) if option is not None and option.name == kind]

    def _alias_concats(self) -> None:
        # Backwards, so that a concat of concats is joined from the outside in.
        for step in reversed(self._steps(IN_PLACE_CONCAT)):
            node = self.graph.nodes[step]
            self._join_pieces(node.inputs, [self.graph.types[name] for name in node.inputs], node.outputs[0])

    def _alias_splits(self) -> None:
        for step in self._steps(PIECES):
            node = self.graph.nodes[step]
            parts = node.op.infer(*self.graph.input_types(node))
            self._join_pieces(node.outputs, parts, node.inputs[0])

    def _join_pieces(self, pieces: Sequence[str], types: Sequence[TensorType], whole: str) -> None:
        """Put pieces one behind the other into the whole's memory; a piece that nobody reads has no name."""
        offset, lanes = 0, self.lanes.get(whole, 0)
        for name, type in zip(pieces, types, strict=False):
            if name:
                self._join(name, whole, offset)
            offset += -(-type.shape[1] // lanes) if lanes else type.size

    def _alias_views(self) -> None:
        for step in self._steps(VIEW):
            node = self.graph.nodes[step]
            source, result = node.inputs[0], node.outputs[0]
            if self._try_view(source, result):
                self.aliased.add(step)

    def _try_view(self, source: str, result: str) -> bool:
        """Let both names mean the same memory, if that memory can be what both need."""
        root, target = self._root(source)[0], self.buffers.get(result)
        if self.lanes.get(source, 0) != self.lanes.get(result, 0):
            # Where others lie in either of them, their offsets count blocks or elements, not both.
            alone = root == source and len(self.buffers[root].members) == 1
            alone = alone and (target is None or target.members == [result])
            if not alone or self.wanted_halo.get(source) or self.wanted_halo.get(result):
                return False
        if target is not None and target.slot is None:
            self._join(result, source, 0)
        elif self._may_move(
            source, result
        ):  # the result is an output's memory or a piece of a concat: its input moves there
            self._join(root, result, 0)
        else:
            return False
        return True

    def _may_move(self, name: str, result: str) -> bool:
        """Can the value's whole buffer become the result's memory? Only if all in it are views of the same elements."""
        root, offset = self._root(name)
        buffer = self.buffers[root]
        if result not in self.buffers and buffer.lanes != {self.lanes.get(result, 0)}:
            return False  # in a piece of a concat, offsets count blocks or elements, not both
        same = len(buffer.sizes) == 1
        free = not buffer.wants_halo
        return buffer.slot is None and offset == 0 and same and (free or buffer.members == [name])

    def _alias_in_place(self) -> None:
        for step, (node, option) in enumerate(zip(self.graph.nodes, self.lowerings, strict=True)):
            if option is None or not option.in_place or option.name in ALIASES:
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
        """Is the input's whole buffer dead after this step, of the same size, and read by this step only there?"""
        name = inputs[position]
        if not name or name in self.graph.constants:
            return False
        root, offset = self._root(name)
        buffer = self.buffers[root]
        other_inputs = {self._root(other)[0] for i, other in enumerate(inputs) if other and i != position}
        return (
            buffer.slot is None
            and offset == 0
            and root not in other_inputs
            and self.graph.types[root].nbytes == self.graph.types[result].nbytes
            and self.graph.types[name].shape == self.graph.types[result].shape
            and buffer.lanes == {self.lanes.get(result, 0)}
            and buffer.last_use <= step
        )

    # ---- halos, sizes, lifetimes ------------------------------------------------------------------------------

    def _wanted_halos(self) -> dict[str, tuple[tuple[int, int], ...]]:
        wanted: dict[str, tuple[tuple[int, int], ...]] = {}
        for node, option in zip(self.graph.nodes, self.lowerings, strict=True):
            if option is None:
                continue
            for name, layout in zip(node.inputs, option.inputs, strict=True):
                if name and layout is not None and any(b or e for b, e in layout.halo):
                    wanted[name] = _larger(wanted.get(name, ()), layout.halo)
        return wanted

    def _collect_halos(self) -> None:
        for name, halo in self.wanted_halo.items():
            buffer = self.buffers[self._root(name)[0]]
            buffer.halo = _larger(buffer.halo, halo)

    def _layout(self, name: str) -> Layout:
        lanes = self.lanes.get(name, 0)
        return Layout(lanes, self.buffers[self._root(name)[0]].halo if lanes else ())

    def _sizes_and_lifetimes(self) -> None:
        for root, buffer in self.buffers.items():
            type = self._type(root)
            buffer.nbytes = buffer_elements(type.shape, self._layout(root)) * type.dtype.itemsize
            if buffer.nbytes > _LARGEST:
                raise CapacityError(
                    f"value '{root}' ({type}) needs {buffer.nbytes:.3g} bytes; use a smaller input"
                )
        for step, node in enumerate(self.graph.nodes):
            for name in (*node.inputs, *node.outputs):
                if name and name not in self.graph.constants:
                    buffer = self.buffers[self._root(name)[0]]
                    rank, buffer.step = self.ranks[step], min(buffer.step, step)
                    buffer.first, buffer.last = min(buffer.first, rank), max(buffer.last, rank)

    def _temporaries(self) -> dict[int, list[tuple[Buffer, TensorType]]]:
        found: dict[int, list[tuple[Buffer, TensorType]]] = {}
        for step, option in enumerate(self.lowerings):
            if option is not None and option.temporaries:
                rank = self.ranks[step]
                found[step] = [
                    (Buffer(f"step {step} temporary {i}", None, type.nbytes, step, rank, rank), type)
                    for i, type in enumerate(option.temporaries)
                ]
        return found

    # ---- views ------------------------------------------------------------------------------------------------

    def _type(self, name: str) -> TensorType:
        found = self.graph.type_of(name)
        assert found is not None
        return found

    def offsets_and_roots(self) -> list[str]:
        """Every value that has memory."""
        return [member for buffer in self.buffers.values() for member in buffer.members]

    def _view(self, name: str) -> View:
        root, offset = self._root(name)
        buffer, type, layout = self.buffers[root], self._type(name), self._layout(name)
        assert buffer.slot is not None
        if layout.is_blocked and root != name and self.lanes.get(root, 0):
            outer = self._type(root)
            strides = dense_strides(outer.shape, self._layout(root))
            elements = offset * strides[1] + halo_offset(outer.shape, self._layout(root))
        else:
            strides = dense_strides(type.shape, layout)
            elements = offset + halo_offset(type.shape, layout)
        slot = Slot(buffer.slot.kind, buffer.slot.index, buffer.slot.offset + elements * type.dtype.itemsize)
        return View(TensorType(type.dtype, type.shape), layout, strides, slot)


def _plain_view(type: TensorType, buffer: Buffer) -> View:
    assert buffer.slot is not None
    return View(type, Layout(), dense_strides(type.shape), buffer.slot)


def _larger(a: tuple[tuple[int, int], ...], b: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    if not a:
        return b
    return tuple((max(x[0], y[0]), max(x[1], y[1])) for x, y in zip(a, b, strict=True))
