"""Static placement: which values share memory (`alias`), the place of each (`placement`), and the halos around it.

All values of one buffer share the largest halo that any reader needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cenote.compiler.alias import SharedBuffers
from cenote.compiler.placement import Buffer, live_peak, place
from cenote.compiler.schedule import Schedule
from cenote.core.deferred import dataclass
from cenote.core.errors import CapacityError
from cenote.core.types import PLAIN, Layout, TensorType
from cenote.graph.graph import Graph
from cenote.kernels.base import View, buffer_elements, dense_strides, halo_offset, present
from cenote.ops.base import Lowering
from cenote.runtime.steps import Slot, SlotKind

_LARGEST = 1 << 46  # bytes; beyond any machine, and far from overflowing 64-bit offsets


@dataclass(frozen=True)
class Placement:
    """Places of all values. `views` by value name; `temporaries` by step.

    `aliased` are the steps that need no work because their output is their input's memory; `peak` is the largest sum
    of buffers alive at once: no plan can need less than that. Where sizes are open, a view in the arena names its
    buffer, by its number among `buffers`, whose places are those for the shapes at hand until they get formulas.
    """

    views: Mapping[str, View]
    temporaries: Mapping[int, tuple[View, ...]]
    buffers: tuple[Buffer, ...]
    buffer_of: Mapping[str, Buffer]
    arena_bytes: int
    peak: int
    aliased: frozenset[int]

    def in_arena(self, slot: Slot) -> Slot:
        """Return the place of a slot that may name a buffer."""
        if slot.kind is not SlotKind.BUFFER:
            return slot
        buffer = present(self.buffers[slot.index].slot)
        return Slot(buffer.kind, buffer.index, buffer.offset + slot.offset)


def place_values(schedule: Schedule, ranks: Sequence[int] = (), open_sizes: bool = False) -> Placement:
    """Return the place of every value. Raises CapacityError when sizes are beyond any machine.

    Nodes of the same rank may run at once (`ranks` gives one per node, never falling); without, each is its own. With
    `open_sizes`, views name buffers of the arena, whose offsets get formulas later (`offsets`).
    """
    return _Placer(schedule, ranks or range(len(schedule.graph.nodes)), open_sizes).run()


@dataclass(frozen=True)
class _Geometry:
    """Strides of values of a type in a buffer of their own, the `first` real element, and the bytes of the buffer."""

    type: TensorType
    layout: Layout
    strides: tuple[int, ...]
    first: int
    nbytes: int

    @staticmethod
    def of(type: TensorType, layout: Layout) -> _Geometry:
        strides, first = dense_strides(type.shape, layout), halo_offset(type.shape, layout)
        nbytes = buffer_elements(type.shape, layout) * type.dtype.itemsize
        return _Geometry(type, layout, strides, first, nbytes)


class _Placer:
    def __init__(self, schedule: Schedule, ranks: Sequence[int], open_sizes: bool) -> None:
        self.ranks, self.open_sizes = ranks, open_sizes
        self.graph: Graph = schedule.graph
        self.lowerings: tuple[Lowering | None, ...] = schedule.lowerings
        self.shared = SharedBuffers(schedule, self._wanted_halos())
        self.bases: dict[str, Slot] = {}  # by the roots of buffers
        # By the ids of types and halos, which graph and buffers keep.
        self.geometries: dict[tuple[int, int, int], _Geometry] = {}

    def run(self) -> Placement:
        self._collect_halos()
        self._sizes_and_lifetimes()
        temporaries = self._temporaries()
        buffers = list(self.shared.buffers.values())
        buffers += [buffer for group in temporaries.values() for buffer, _ in group]
        placed = [buffer for buffer in buffers if buffer.slot is None]
        arena_bytes = place(placed)
        self._set_bases(buffers)
        views = {name: self._view(name) for name in self.offsets_and_roots()}
        within = {
            step: tuple(
                View(type, PLAIN, dense_strides(type.shape), self.bases[buffer.root])
                for buffer, type in group
            )
            for step, group in temporaries.items()
        }
        buffer_of = {name: self.shared.buffers[self.shared.root(name)[0]] for name in views}
        return Placement(
            views,
            within,
            tuple(buffers),
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

    def _sizes_and_lifetimes(self) -> None:
        for root, buffer in self.shared.buffers.items():
            type = self._type(root)
            buffer.nbytes = self._geometry(root).nbytes
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
        """Return the rank at which the notes of a step's kernels are checked: that of the next host step, or the
        last."""
        hosts = (i for i in range(step + 1, len(self.ranks)) if self.lowerings[i] is None)
        return self.ranks[next(hosts, len(self.ranks) - 1)]

    # ---- views ------------------------------------------------------------------------------------------------

    def _set_bases(self, buffers: Sequence[Buffer]) -> None:
        """Set the slot at which views of each buffer begin: its place, or for open sizes the buffer itself by its
        number."""
        for number, buffer in enumerate(buffers):
            slot = present(buffer.slot)
            self.bases[buffer.root] = (
                Slot(SlotKind.BUFFER, number) if self.open_sizes and slot.kind is SlotKind.ARENA else slot
            )

    def _type(self, name: str) -> TensorType:
        return present(self.graph.type_of(name))

    def offsets_and_roots(self) -> list[str]:
        """Return every value that has memory."""
        return [member for buffer in self.shared.buffers.values() for member in buffer.members]

    def _geometry(self, name: str) -> _Geometry:
        """Return the geometry of a value in its buffer, made once for values of one type."""
        type, lanes = self._type(name), self.shared.lanes.get(name, 0)
        halo = self.shared.buffers[self.shared.root(name)[0]].halo if lanes else ()
        key = id(type), lanes, id(halo)
        if key not in self.geometries:
            self.geometries[key] = _Geometry.of(type, Layout(lanes, halo))
        return self.geometries[key]

    def _view(self, name: str) -> View:
        root, offset = self.shared.root(name)
        base, own = self.bases[root], self._geometry(name)
        outer = own
        if own.layout.is_blocked and root != name and self.shared.lanes.get(root, 0):
            outer = self._geometry(root)
            offset = offset * outer.strides[1]
        begin = base.offset + (offset + outer.first) * own.type.dtype.itemsize
        return View(own.type.bare, own.layout, outer.strides, Slot(base.kind, base.index, begin))


def temporary_name(step: int, number: int) -> str:
    """Return the root of a step's temporary buffer."""
    return f"step {step} temporary {number}"


def _larger(a: tuple[tuple[int, int], ...], b: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    if not a:
        return b
    return tuple((max(x[0], y[0]), max(x[1], y[1])) for x, y in zip(a, b, strict=True))
