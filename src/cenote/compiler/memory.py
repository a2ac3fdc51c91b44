"""Static memory plan: which values share memory (`alias`), the place of each (`placement`), and the halos around it.

All values of one buffer share the largest halo that any reader needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cenote.compiler.alias import Sharing
from cenote.compiler.offsets import defer_offsets
from cenote.compiler.placement import Buffer, live_peak, place
from cenote.compiler.schedule import Schedule
from cenote.core.errors import CapacityError
from cenote.core.trace import Trace
from cenote.core.types import Layout, TensorType
from cenote.graph.graph import Graph
from cenote.kernels.base import View, buffer_elements, dense_strides, halo_offset, present
from cenote.ops.base import Lowering
from cenote.runtime.steps import Slot

_LARGEST = 1 << 46  # bytes; beyond any machine, and far from overflowing 64-bit offsets


@dataclass(frozen=True)
class MemoryPlan:
    """Places of all values. `views` by value name; `temporaries` by step.

    `aliased` are the steps that need no work because their output is their input's memory; `peak` is the largest sum
    of buffers alive at once: no plan can need less than that.
    """

    views: Mapping[str, View]
    temporaries: Mapping[int, tuple[View, ...]]
    buffers: tuple[Buffer, ...]
    buffer_of: Mapping[str, Buffer]
    arena_bytes: int
    peak: int
    aliased: frozenset[int]


def plan_memory(schedule: Schedule, ranks: Sequence[int] = (), trace: Trace | None = None) -> MemoryPlan:
    """Plan a schedule. Raises CapacityError when sizes are beyond any machine.

    Nodes of the same rank may run at once (`ranks` gives one per node, never falling); without, each is its own. With a
    `trace`, offsets in the arena are numbers whose formulas come later (`offsets`).
    """
    return _Planner(schedule, ranks or range(len(schedule.graph.nodes)), trace).run()


class _Planner:
    def __init__(self, schedule: Schedule, ranks: Sequence[int], trace: Trace | None) -> None:
        self.ranks, self.trace = ranks, trace
        self.graph: Graph = schedule.graph
        self.lowerings: tuple[Lowering | None, ...] = schedule.lowerings
        self.shared = Sharing(schedule, self._wanted_halos())

    def run(self) -> MemoryPlan:
        self._collect_halos()
        self._sizes_and_lifetimes()
        temporaries = self._temporaries()
        placed = [b for b in self.shared.buffers.values() if b.slot is None]
        placed += [buffer for group in temporaries.values() for buffer, _ in group]
        arena_bytes = place(placed)
        if self.trace is not None:
            defer_offsets(placed, self.trace)
        views = {name: self._view(name) for name in self.offsets_and_roots()}
        plans = {
            step: tuple(_plain_view(type, buffer) for buffer, type in group)
            for step, group in temporaries.items()
        }
        buffer_of = {name: self.shared.buffers[self.shared.root(name)[0]] for name in views}
        return MemoryPlan(
            views,
            plans,
            (
                *self.shared.buffers.values(),
                *(buffer for group in temporaries.values() for buffer, _ in group),
            ),
            buffer_of,
            arena_bytes,
            live_peak(placed),
            frozenset(self.shared.aliased),
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
        for name, halo in self.shared.wanted_halo.items():
            buffer = self.shared.buffers[self.shared.root(name)[0]]
            buffer.halo = _larger(buffer.halo, halo)

    def _layout(self, name: str) -> Layout:
        lanes = self.shared.lanes.get(name, 0)
        return Layout(lanes, self.shared.buffers[self.shared.root(name)[0]].halo if lanes else ())

    def _sizes_and_lifetimes(self) -> None:
        for root, buffer in self.shared.buffers.items():
            type = self._type(root)
            buffer.nbytes = buffer_elements(type.shape, self._layout(root)) * type.dtype.itemsize
            if buffer.nbytes > _LARGEST:
                raise CapacityError(
                    f"value '{root}' ({type}) needs {buffer.nbytes:.3g} bytes; use a smaller input"
                )
        for step, node in enumerate(self.graph.nodes):
            for name in (*node.inputs, *node.outputs):
                if name and name not in self.graph.constants:
                    buffer = self.shared.buffers[self.shared.root(name)[0]]
                    rank, buffer.step = self.ranks[step], min(buffer.step, step)
                    buffer.first, buffer.last = min(buffer.first, rank), max(buffer.last, rank)

    def _temporaries(self) -> dict[int, list[tuple[Buffer, TensorType]]]:
        temporaries: dict[int, list[tuple[Buffer, TensorType]]] = {}
        for step, option in enumerate(self.lowerings):
            if option is not None and option.temporaries:
                rank = self.ranks[step]
                temporaries[step] = [
                    (Buffer(temporary_name(step, i), None, type.nbytes, step, rank, rank), type)
                    for i, type in enumerate(option.temporaries)
                ]
                if option.check is not None:
                    temporaries[step][-1][0].last = self._looked_at(step)
        return temporaries

    def _looked_at(self, step: int) -> int:
        """Return the rank at which the notes of a step's kernels are checked: before NumPy goes on, or at the end."""
        hosts = (i for i in range(step + 1, len(self.ranks)) if self.lowerings[i] is None)
        return self.ranks[next(hosts, len(self.ranks) - 1)]

    # ---- views ------------------------------------------------------------------------------------------------

    def _type(self, name: str) -> TensorType:
        return present(self.graph.type_of(name))

    def offsets_and_roots(self) -> list[str]:
        """Return every value that has memory."""
        return [member for buffer in self.shared.buffers.values() for member in buffer.members]

    def _view(self, name: str) -> View:
        root, offset = self.shared.root(name)
        buffer, type, layout = self.shared.buffers[root], self._type(name), self._layout(name)
        assert buffer.slot is not None
        if layout.is_blocked and root != name and self.shared.lanes.get(root, 0):
            outer = self._type(root)
            strides = dense_strides(outer.shape, self._layout(root))
            elements = offset * strides[1] + halo_offset(outer.shape, self._layout(root))
        else:
            strides = dense_strides(type.shape, layout)
            elements = offset + halo_offset(type.shape, layout)
        slot = Slot(buffer.slot.kind, buffer.slot.index, buffer.slot.offset + elements * type.dtype.itemsize)
        return View(TensorType(type.dtype, type.shape), layout, strides, slot)


def temporary_name(step: int, number: int) -> str:
    """Return the root of a step's temporary buffer."""
    return f"step {step} temporary {number}"


def _plain_view(type: TensorType, buffer: Buffer) -> View:
    assert buffer.slot is not None
    return View(type, Layout(), dense_strides(type.shape), buffer.slot)


def _larger(a: tuple[tuple[int, int], ...], b: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    if not a:
        return b
    return tuple((max(x[0], y[0]), max(x[1], y[1])) for x, y in zip(a, b, strict=True))
