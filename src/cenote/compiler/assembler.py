"""Assembly of a program: binds lowerings to memory, and collects the steps."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Sequence

from cenote.codegen import jit
from cenote.compiler.barriers import Extent, PendingStep, StepKind, StepOrigin, levels_of
from cenote.compiler.binding import Binder
from cenote.compiler.constants import ConstantPool, Constants, Weights
from cenote.compiler.memory import Placement, temporary_name
from cenote.compiler.offsets import offsets_as_formulas
from cenote.compiler.placement import Buffer
from cenote.compiler.schedule import Schedule
from cenote.compiler.templates import Assembled, lifetimes, make_template
from cenote.core.errors import errors_at
from cenote.core.formulas.expressions import SizeFormula
from cenote.core.sizes import plain
from cenote.core.target import Target
from cenote.core.trace import Trace
from cenote.core.types import Array
from cenote.graph.graph import Node
from cenote.kernels.base import Call, KernelSpec, present
from cenote.kernels.driver import driver_abi
from cenote.kernels.launch import Launcher, chosen_spec
from cenote.kernels.layout.copy import can_copy
from cenote.ops.base import Alias, Bind, Lowering
from cenote.ops.reorder import Reorder
from cenote.runtime.program import Program
from cenote.runtime.steps import HostStep, Slot, SlotKind
from cenote.runtime.template import Template

_log = logging.getLogger(__name__)


class Assembler:
    """Assembler that binds lowerings to memory and makes the program.

    It owns `weights` and `binds` and drops each after its last use, so that memory never holds all weights twice.
    """

    def __init__(
        self,
        scheduled: Schedule,
        memory: Placement,
        target: Target,
        pool: ConstantPool,
        weights: dict[str, Array],
        binds: list[Bind | None],
        trace: Trace | None,
        loads: bool = True,
    ) -> None:
        """`loads`: whether this process will run the program; else no kernel is compiled."""
        self.loads = loads
        self.scheduled, self.graph, self.lowerings = scheduled, scheduled.graph, scheduled.lowerings
        self.memory, self.target, self.binds, self.trace = memory, target, binds, trace
        self.constants = Constants(pool)
        self.weights = Weights(weights, self.constants)
        self.binder = Binder(self.graph, memory.views, self.weights, binds, trace)
        self.extents: dict[str, Extent] = {}
        self.outputs = set(self.graph.outputs)
        self.halos: dict[int, list[Buffer]] = {}  # buffers with a halo, by the first step that touches them
        for buffer in memory.buffers:
            if any(begin or end for begin, end in buffer.halo):
                self.halos.setdefault(buffer.step, []).append(buffer)
        self.last_use = {name: i for i, node in enumerate(self.graph.nodes) for name in node.inputs}
        self.steps: list[PendingStep] = []
        self.checks: list[PendingStep] = []  # checks that wait for the end of a native stretch

    def make_steps(self) -> None:
        """Bind every node."""
        for index, (node, option) in enumerate(zip(self.graph.nodes, self.lowerings, strict=True)):
            self._zero_halos(index)
            with errors_at(node.where):
                self._add_node(index, node, option)
            for name in node.inputs:
                if self.last_use[name] == index and name not in self.outputs:
                    self.weights.arrays.pop(name, None)
        self._add_checks()

    def program(self, threads: int, alone: bool) -> Program:
        """Return the program of the steps."""
        barriers = self._barriers(self._side_by_side())
        launcher = self._launcher()
        steps = tuple(
            launcher.step(step.call, step.label, barrier, step.words)
            if step.call is not None
            else present(step.host)
            for step, barrier in zip(self.steps, barriers, strict=True)
        )
        return Program(
            steps=steps,
            inputs=tuple(self.graph.types[declared.name] for declared in self.graph.inputs),
            outputs=tuple(present(self.graph.type_of(name)).bare for name in self.graph.outputs),
            constants=tuple(self.constants.arrays),
            arena_bytes=self.memory.arena_bytes,
            driver=driver_abi(),
            threads=1 if alone else threads,
            alone=alone,
        )

    def template(
        self, threads: int, seconds: float, worth: float, trace: Trace
    ) -> tuple[Template, dict[str, int]]:
        """Return the template of the steps, and the positions of the numbers of its description, by their formulas.
        Below `worth` seconds of work it runs on one thread."""
        levels, arena = self.open_arena(trace)
        launcher = self._launcher()
        parts = Assembled(
            self.steps,
            self._barriers(levels),
            [self.graph.types[declared.name] for declared in self.graph.inputs],
            [present(self.graph.type_of(name)).bare for name in self.graph.outputs],
            self.constants.arrays,
            [table for _, table in self.weights.tables.values()],
            arena,
            trace.unknown(SizeFormula(trace, "int", SizeFormula(trace, "<", seconds, worth)), 0, 1),
        )
        return make_template(parts, launcher, trace, threads, self._shown(), self.memory.in_arena)

    def open_arena(self, trace: Trace) -> tuple[list[int], int]:
        """Order the steps and place buffers for all sizes; return the steps' levels and the arena's size."""
        levels = self._side_by_side()
        return levels, offsets_as_formulas(self.memory.buffers, lifetimes(self.steps, levels), trace)

    def _shown(self) -> Iterator[int]:
        """Yield the numbers of the plan's description that may be Sizes."""
        for type in self.graph.types.values():
            yield from type.shape
        for step in self.steps:
            yield from step.origin.work.numbers
        for buffer in self.memory.buffers:
            yield buffer.nbytes
            yield present(buffer.slot).offset

    def _launcher(self) -> Launcher:
        """Return the kernels of all calls, found or compiled while weights are packed."""
        with self.constants.packing():
            calls = (step.call for step in self.steps if step.call is not None)
            return Launcher(calls, self.target, self.loads)

    @property
    def kernels(self) -> dict[str, KernelSpec]:
        """Kernels of the steps by symbol."""
        specs = dict.fromkeys(chosen_spec(step.call) for step in self.steps if step.call is not None)
        return {spec.symbol: spec for spec in specs}

    def _expect(self, call: Call) -> None:
        """Let the kernel of a call be compiled meanwhile."""
        if self.loads:
            jit.expect(chosen_spec(call), self.target)

    def _side_by_side(self) -> list[int]:
        """Move steps before others that they need not wait for; return the levels of the steps in the new order,
        rising."""
        levels = levels_of(self.steps)
        order = sorted(range(len(levels)), key=levels.__getitem__)
        self.steps = [self.steps[i] for i in order]
        return [levels[i] for i in order]

    def _barriers(self, levels: Sequence[int]) -> list[bool]:
        """Return, per step, whether all threads meet after it."""
        return [*(a != b for a, b in itertools.pairwise(levels)), True] if levels else []

    # ---- steps on their way ---------------------------------------------------------------------------------------

    def _zero_halos(self, step: int) -> None:
        for buffer in self.halos.get(step, ()):
            call, words = self.binder.zero_halo(buffer.root)
            self._expect(call)
            label, origin = f"zero halo of {buffer.root}", StepOrigin(step, StepKind.HALO)
            zeros = PendingStep(label, origin, call, None, halo_of=buffer.root, words=words)
            zeros.writes.append(_whole(buffer))
            self.steps.append(zeros)

    def _add_node(self, index: int, node: Node, option: Lowering | None) -> None:
        bind, self.binds[index] = self.binds[index], None
        if index in self.memory.aliased:
            if node.inputs[0] in self.weights.arrays:
                # The reader of the view needs it after the weight has been dropped.
                self.weights.slot(node.inputs[0])
            return
        if option is not None and option.alias is Alias.VIEW:  # it could not share memory
            option = self._copy(node)
            bind = None if option is None else option.bind
        if option is None or bind is None:
            self._add_host(index, node)
            return
        if option.alias is not None:
            return
        temporaries, batch = self.memory.temporaries.get(index, ()), 0
        bound, slots = self.binder.bind(node, bind, temporaries)
        reads = [self._extent_of(name) for name in node.inputs if name and name not in self.weights.arrays]
        writes = [self._extent_of(name) for name in node.outputs if name] + self._of_temporaries(index)
        label = f"{node.title}: {option.name}"
        for number, each in enumerate(bound):
            self._expect(each.call)
            batch = batch if each.call.independent else number
            origin = StepOrigin(index, StepKind.KERNEL, option.name, each.work)
            step = PendingStep(
                label, origin, each.call, None, reads, writes, batch=batch, words=each.at(slots)
            )
            self.steps.append(step)
        if option.check is not None:
            noted = temporaries[-1]
            check = HostStep(
                f"{node.title}: check", option.check, ((noted.slot, noted.type),), (), node.where
            )
            origin = StepOrigin(index, StepKind.CHECK)
            self.checks.append(PendingStep(check.label, origin, None, check, self._of_temporaries(index)))

    def _copy(self, node: Node) -> Lowering | None:
        """Return the kernel of a view that could not share memory; None for elements that no kernel moves."""
        source, result = self.memory.views[node.inputs[0]], self.memory.views[node.outputs[0]]
        if not can_copy(source.type.dtype):
            return None
        for option in Reorder().lowerings((source.type,), self.target):
            layout = option.inputs[0]
            if (
                layout
                and layout.lanes == source.layout.lanes
                and option.outputs[0].lanes == result.layout.lanes
            ):
                return option
        raise AssertionError(f"no kernel moves {source.layout} to {result.layout}")

    def _add_checks(self) -> None:
        """Append the checks of noted errors, before NumPy uses the results, or at the end: kernels follow no bad
        index, so their stretch may go on."""
        self.steps += self.checks
        self.checks = []

    def _add_host(self, index: int, node: Node) -> None:
        self._add_checks()
        types = {name: present(self.graph.type_of(name)).bare for name in node.inputs if name}
        inputs = tuple((self._host_slot(name), types[name]) if name else None for name in node.inputs)
        outputs = tuple(
            (self.memory.views[name].slot, self.graph.types[name]) if name else None for name in node.outputs
        )
        _log.debug("%s runs as NumPy", node.title)
        host = HostStep(f"{node.title}: host", node.op, inputs, outputs, node.where)
        origin = StepOrigin(index, StepKind.HOST, "reference")
        reads = [self._extent_of(name) for name in node.inputs if name and name not in self.weights.arrays]
        writes = [self._extent_of(name) for name in node.outputs if name]
        self.steps.append(PendingStep(host.label, origin, None, host, reads, writes))

    def _of_temporaries(self, index: int) -> list[Extent]:
        """Return the extents of a step's temporaries."""
        views = self.memory.temporaries.get(index, ())
        return [
            Extent.at_hand(self.memory.in_arena(view.slot), view.type.nbytes, temporary_name(index, number))
            for number, view in enumerate(views)
        ]

    def _host_slot(self, name: str) -> Slot:
        if name in self.weights.arrays:
            return self.weights.slot(name)
        slot = self.memory.views[name].slot
        return self.weights.kept(slot) if slot.kind is SlotKind.CONSTANT else slot

    def _extent_of(self, name: str) -> Extent:
        extent = self.extents.get(name)
        if extent is None:
            extent = self.extents[name] = self._new_extent(name)
        return extent

    def _new_extent(self, name: str) -> Extent:
        """Return the extent of a value. A piece of a concat is one run of memory when there is one picture; otherwise
        it is the whole buffer. Pieces that are apart for the shapes at hand are apart for all, so nothing is asked."""
        buffer, view = self.memory.buffer_of[name], self.memory.views[name]
        if not view.shape or plain(view.shape[0]) != 1:
            return _whole(buffer)
        inset, nbytes = 0, view.type.nbytes
        if view.layout.is_blocked:
            border = [begin for begin, _ in view.layout.halo] or [0] * len(view.strides[2:])
            inset = sum(b * stride for b, stride in zip(border, view.strides[2:], strict=True))
            nbytes = view.blocks * view.strides[1] * view.type.dtype.itemsize
        slot = self.memory.in_arena(view.slot)
        start = slot.offset - inset * view.type.dtype.itemsize
        return Extent.at_hand(Slot(slot.kind, slot.index, start), nbytes, buffer.root)


def _whole(buffer: Buffer) -> Extent:
    return Extent.at_hand(present(buffer.slot), buffer.nbytes, buffer.root)
