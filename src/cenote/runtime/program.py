"""Program: plain data of which kernels run, in which order, on which memory. It does not refer to a graph.

`Program` is shared and immutable; an `Instance` is one set of memory to run it on. Several Python threads that run a
one-thread program at once get an instance each; on a team programs take turns, and one instance per team is enough.

A run can be interrupted by an exception (Ctrl-C): native code comes back to Python every 50 ms. The job is then
cancelled, and instance and team can be used again.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from threading import get_ident
from typing import Any

import numpy as np

from cenote.core.deferred import cached_property, dataclass
from cenote.core.errors import UnsupportedError, refusals
from cenote.core.target import physical_cores
from cenote.core.types import Array, TensorType
from cenote.runtime import threads as threading_runtime
from cenote.runtime.layouts import STEP
from cenote.runtime.memory import address_of, aligned_bytes, empty_output
from cenote.runtime.outputs import ALIGNED, OUTPUTS
from cenote.runtime.records import Records
from cenote.runtime.steps import HostStep, KernelStep, Slot, SlotKind, Step
from cenote.runtime.threads import DriverAbi, Team
from cenote.runtime.workplaces import Workplace, Workplaces

_KEPT_BYTES = 64 << 20  # most bytes of arenas that wait for later runs
_FEW_CHUNKS = 8  # chunks of each thread up to which one more or less matters
_MOST_CHUNKS = (1 << 16) - 1  # most chunks of a step: the driver counts those that are taken in 16 bits


def require_team(team: Team) -> None:
    """Raise UnsupportedError where the team's threads are in another process."""
    if team.lost:
        raise UnsupportedError(
            f"this process was forked in the middle of a run on {team.threads} threads, which the "
            "child does not have; the run goes on in the parent, the child may start it again"
        )


@dataclass(frozen=True)
class Program:
    """Steps over an arena of `arena_bytes`, with constants kept alive, for inputs and outputs of fixed types."""

    steps: Sequence[Step]
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    constants: tuple[Array, ...]
    arena_bytes: int
    driver: DriverAbi
    threads: int
    alone: bool = False  # too little work for several threads
    flush: bool = False  # denormals to zero
    # Memory shared with other programs; None: every instance has a place of its own.
    workplaces: Workplaces | None = None
    _free: list[Instance] = field(default_factory=list, compare=False, repr=False)

    @cached_property
    def records(self) -> Records:
        """Steps as native code takes them."""
        return Records.of(self.steps, self.constants)

    @property
    def kept_bytes(self) -> int:
        """Approximate memory that the program takes while it is kept: records, step table, an arena of its own."""
        tables = 8 * (len(self.records.starts) * STEP.size + 2 * self.records.length)
        return tables + (self.arena_bytes if self.workplaces is None else 0)

    def changed(self, **fields: Any) -> Program:
        """Return the program with other `threads` or `flush`. Computed properties of its steps are kept."""
        program = replace(self, **fields, _free=[])
        known = ("records", "scratch_bytes")
        vars(program).update({name: value for name, value in vars(self).items() if name in known})
        return program

    @cached_property
    def scratch_bytes(self) -> int:
        """Scratch memory that each thread needs, in bytes."""
        return max((step.scratch for step in self.steps if isinstance(step, KernelStep)), default=0)

    def run(self, inputs: Sequence[Array], out: Sequence[Array] | None = None) -> list[Array]:
        """Return outputs for inputs that have exactly the declared types, C-contiguous and native byte order.

        `out`: arrays of the outputs' types to fill, contiguous, apart from the inputs; otherwise fresh ones are made.
        """
        if self.threads > 1:
            return self._run_on_team(inputs, out)
        instance = self._instance()
        try:
            return instance.run(inputs, out)
        finally:
            if len(self._free) < self._most_kept:
                self._free.append(instance)

    @contextmanager
    def held(self) -> Iterator[tuple[Instance, Team]]:
        """Lend an instance in its memory, and the team that it runs on, for runs one after another. Raises as `run`."""
        if self.threads == 1:
            instance = self._instance()
            try:
                with instance.placed() as place:
                    yield instance, place.alone
            finally:
                if len(self._free) < self._most_kept:
                    self._free.append(instance)
            return
        team = threading_runtime.team_at_rest(self.threads, self.driver)
        with team.guard.lock:
            if team.runner:
                with self._on_one_thread.held() as instance_and_team:
                    yield instance_and_team
                return
            team.runner = get_ident()
            try:
                with team.placed():
                    team.reserve_scratch(self.scratch_bytes)
                    instance = self._instance_on(team)
                    with instance.placed():
                        yield instance, team
                team.free_tables()
            finally:
                team.runner = 0

    def _run_on_team(self, inputs: Sequence[Array], out: Sequence[Array] | None) -> list[Array]:
        team = threading_runtime.team_at_rest(self.threads, self.driver)
        with team.guard.lock:
            if team.runner:  # this very thread: a signal handler or a host step runs a model during a run
                return self._on_one_thread.run(inputs, out)
            team.runner = get_ident()
            try:
                with team.placed():
                    team.reserve_scratch(self.scratch_bytes)
                    results = self._instance_on(team).run(inputs, out, team)
                team.free_tables()
                return results
            finally:
                team.runner = 0

    def _instance_on(self, team: Team) -> Instance:
        """Return the team's instance: its step table belongs to the team. The caller holds the team's lock."""
        for instance in self._free:
            if instance.team is team:
                return instance
        with refusals("memory to run a model on"):
            added = self._new_instance(team)
        self._free[:] = [*(each for each in self._free if each.team is None or not each.team.lost), added]
        return added

    def _instance(self) -> Instance:
        try:
            return self._free.pop()
        except IndexError:
            with refusals("memory to run a model on"):
                return self._new_instance()

    def _new_instance(self, team: Team | None = None) -> Instance:
        return Instance(self, team)

    @cached_property
    def _on_one_thread(self) -> Program:
        """The same program on one thread, with the same results."""
        return self.changed(threads=1)

    @cached_property
    def _most_kept(self) -> int:
        """Most instances that wait for later runs: more than the cores can run at once only while their arenas are
        small."""
        return max(physical_cores(), _KEPT_BYTES // max(1, self.arena_bytes))

    def prepare(self) -> None:
        """Make the first instance now, so that the first inference touches no new memory."""
        if self.threads == 1:
            if not self._free:
                self._free.append(self._new_instance())
            return
        team = threading_runtime.team(self.threads, self.driver)
        with team.guard.lock, team.placed():
            self._instance_on(team)
            if team.runner:
                return
            team.runner = get_ident()
            try:
                team.hire()
                team.reserve_scratch(self.scratch_bytes)
            finally:
                team.runner = 0


def even_grains(items: Array, grains: Array, threads: int) -> Array:
    """Return how many items of each step a thread takes at a time, so that all take about as many in the end.

    Where 28 items are taken 9 at a time, one of two threads takes 18 of them. Chunks become smaller, by up to a
    quarter of the grain, which is 20 to 100 us of work; a step of half of that or less stays whole.
    """
    if threads == 1:
        return grains
    wanted = np.maximum(-(-items // grains), 1)
    few = (wanted <= _FEW_CHUNKS * threads) & (2 * items > grains)
    rounds = -(-wanted // threads)
    best, least = grains, most_items(items, grains, threads)
    for tried in (-(-items // (threads * rounds)), -(-items // (threads * (rounds + 1))), -(-grains // 2)):
        smaller = np.maximum(tried, -(-grains // 4))
        most = most_items(items, smaller, threads)
        better = few & (most < least)
        best, least = np.where(better, smaller, best), np.where(better, most, least)
    return best


def most_items(items: Array, grains: Array, threads: int) -> Array:
    """Return the most items of any thread, if all take chunks equally fast: the last, smaller chunk is taken last."""
    chunks, rest = items // grains, items % grains
    rounds, more = chunks // threads, chunks % threads
    most: Array = rounds * grains + np.where(more, grains, rest)
    return most


class Instance:
    """Memory and argument records of one run at a time."""

    def __init__(self, program: Program, team: Team | None = None) -> None:
        self.program, self.team = program, team
        large = any(type.nbytes >= ALIGNED for type in program.outputs)
        self._empty = OUTPUTS.make if large else empty_output
        self._build_records(program.records)
        # On one thread an instance runs on the calling thread and shares nothing: no lock, no waiting.
        self._place: Workplace | None = None
        if program.workplaces is None:
            self._place = Workplace(program.driver)
            self._place.fit(program)
            self._use(self._place.arena.array)

    def _build_records(self, records: Records) -> None:
        size, count = STEP.size, len(records.starts)
        words = records.words() if records.length else np.zeros(1, np.int64)
        self._word = (ctypes.c_int64 * words.size).from_buffer(words.data)
        self.patches = {
            memory: list(zip(positions.tolist(), words[positions].tolist(), strict=True))
            for memory, positions in records.places.items()
            if memory[0] in (SlotKind.INPUT, SlotKind.OUTPUT)
        }
        self._in_arena = records.places.get((SlotKind.ARENA, 0), np.empty(0, np.int64))
        self._base, self.words = 0, words
        self._noted: dict[int, Array] = {}  # arrays that checks read in this arena, by the id of the step
        self._table = aligned_bytes(max(count, 1) * size * 8, "the step table").view(np.int64)
        self.table_address = address_of(self._table)
        self.segments = records.segments
        table, barriers = self._table[: count * size].reshape(count, size), records.barriers.copy()
        chunks = -(-records.items // (records.grains * _MOST_CHUNKS))
        grains = even_grains(records.items, records.grains * np.maximum(1, chunks), self.program.threads)
        table[:, STEP.kernel], table[:, STEP.items], table[:, STEP.grain] = (
            records.addresses,
            records.items,
            grains,
        )
        table[:, STEP.words] = address_of(words) + records.starts * 8
        for segment in self.segments:
            if isinstance(segment, tuple):
                barriers[segment[1] - 1] = 1  # a run ends with all threads together
        first = np.zeros(count, np.int64)
        after = np.flatnonzero(records.barriers) + 1
        first[after[after < count]] = after[after < count]
        for segment in self.segments:
            if isinstance(segment, tuple):
                first[segment[0]] = segment[0]
        table[:, STEP.barrier] = barriers
        table[:, STEP.group] = np.maximum.accumulate(first) if count else first
        table[:, STEP.flush], table[:, STEP.stride] = int(self.program.flush), records.grains
        table[:, STEP.taken], table[:, STEP.chunks] = 0, -(-records.items // grains)

    def _use(self, arena: Array) -> None:
        """Work in this arena from now on."""
        self.arena, base = arena, address_of(arena)
        if base != self._base:
            self.words[self._in_arena] += base - self._base
            self._base = base
            looks = [step for step in self.segments if not isinstance(step, tuple) and step.looks]
            self._noted = {
                id(step): self._array(*place, (), ())[:, 0]
                for step in looks
                for place in step.inputs[:1]
                if place
            }

    def run(
        self, inputs: Sequence[Array], out: Sequence[Array] | None, team: Team | None = None
    ) -> list[Array]:
        """Run one inference. The arrays' types have been checked: native code trusts their sizes. The caller holds
        the lock of the team."""
        program, place = self.program, self._place
        outputs = list(out) if out else [self._empty(type.shape, type.dtype) for type in program.outputs]
        words = self._word
        for (kind, index), places in self.patches.items():
            address = address_of(inputs[index] if kind is SlotKind.INPUT else outputs[index])
            for word, offset in places:
                words[word] = address + offset
        if place is not None:
            self._run_segments(team or place.alone, inputs, outputs)
            return outputs
        assert program.workplaces is not None
        place = program.workplaces.take(program)  # the work of `placed`, which takes 1 us more
        self._use(place.arena.array)
        try:
            self._run_segments(team or place.alone, inputs, outputs)
        finally:
            program.workplaces.give(place)
        return outputs

    @contextmanager
    def placed(self) -> Iterator[Workplace]:
        """Lend the instance's own workplace, or one of the model's."""
        if self._place is not None:
            yield self._place
            return
        workplaces = self.program.workplaces
        assert workplaces is not None
        place = workplaces.take(self.program)
        self._use(place.arena.array)
        try:
            yield place
        finally:
            workplaces.give(place)

    def __del__(self) -> None:
        """Leave the step table to the team, which frees it when no worker can be reading it any more."""
        if self.team is not None and hasattr(self, "_table"):
            self.team.graveyard.append(self._table)  # atomic: a finaliser must not wait for the lock

    def _run_segments(self, team: Team, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        driver, control, table = self.program.driver, team.address, self.table_address
        run, shared = driver.run, team.threads > 1
        for segment in self.segments:
            if not isinstance(segment, tuple):
                self._run_host(segment, inputs, outputs)
                continue
            first, last = segment
            try:
                while run(control, table, first, last):  # Python handles signals here
                    first = -1
                    require_team(team)
            except BaseException:  # first of all: no worker may touch arrays that nobody holds any more
                if shared and not team.lost:
                    driver.halt(control, table, segment[0], last, 0)
                raise

    def look(self, step: HostStep) -> None:
        """Raise the error that a check step finds."""
        if np.count_nonzero(self._noted[id(step)]):  # 0.2 us, where the step takes 8
            self._run_host(step, (), ())

    def _run_host(self, step: HostStep, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        noted = self._noted.get(id(step))
        if noted is not None and not np.count_nonzero(noted):
            return
        arguments = [None if item is None else self._array(*item, inputs, outputs) for item in step.inputs]
        results = step.run(arguments)
        for place, result in zip(step.outputs, results, strict=False):
            if place is None:
                continue
            slot, type = place
            self._array(slot, type, inputs, outputs)[...] = result

    def _array(
        self, slot: Slot, type: TensorType, inputs: Sequence[Array], outputs: Sequence[Array]
    ) -> Array:
        """Return the memory of a slot as an array. Of an input, output or constant it may be a part, or another shape
        of the same elements: views and concats share memory."""
        if slot.kind is not SlotKind.ARENA:
            owners = {
                SlotKind.INPUT: inputs,
                SlotKind.OUTPUT: outputs,
                SlotKind.CONSTANT: self.program.constants,
            }
            owner = owners[slot.kind][slot.index]
            if owner.shape == type.shape:
                return owner
            begin = slot.offset // owner.dtype.itemsize
            return owner.reshape(-1)[begin : begin + type.size].reshape(type.shape)
        block = self.arena[slot.offset : slot.offset + type.nbytes]
        return block.view(type.dtype).reshape(type.shape)
