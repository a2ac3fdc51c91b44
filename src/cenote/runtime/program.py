"""A program: plain data that says which kernels run, in which order, on which memory. It knows no graph.

`Program` is shared and immutable; an `Instance` is one set of memory to run it on. Several Python threads that run
a one-thread program at once get an instance each; on a team programs take turns, and one instance is enough.

A run can be interrupted by an exception (Ctrl-C): native code comes back to Python every 50 ms. The job is then given
up, and instance and team are as good as new.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from cenote.core.cached import cached_property
from cenote.core.errors import ShapeError, UnsupportedError, errors_at, refusals
from cenote.core.target import physical_cores
from cenote.core.types import Array, TensorType
from cenote.runtime import threads as threading_runtime
from cenote.runtime.memory import address_of, aligned_bytes, empty_output
from cenote.runtime.threads import DriverAbi, Team


@dataclass(frozen=True)
class Slot:
    """Where memory comes from when a program runs: `kind` is "arena", "input", "output" or "constant".

    `index` counts inputs, outputs or constants (0 for the arena); `offset` is in bytes from the start of that memory.
    """

    kind: str
    index: int
    offset: int = 0


@dataclass(frozen=True)
class KernelStep:
    """One kernel launch. `words` is the argument record: numbers, and slots that become addresses."""

    label: str
    symbol: str
    address: int
    words: tuple[int | Slot, ...]
    items: int
    grain: int
    scratch: int
    barrier: bool = True


class HostOperator(Protocol):
    """What runs as Python: arrays in, arrays out."""

    def reference(self, *inputs: Array | None) -> Sequence[Array]: ...


@dataclass(frozen=True)
class HostStep:
    """An operator that runs as Python on arrays in the program's memory, between native stretches."""

    label: str
    operator: HostOperator
    inputs: tuple[tuple[Slot, TensorType] | None, ...]
    outputs: tuple[tuple[Slot, TensorType] | None, ...]
    where: str = ""  # how errors name it

    def run(self, arguments: Sequence[Array | None]) -> Sequence[Array]:
        """The results, as fresh arrays."""
        if not self.where:
            return self.operator.reference(*arguments)
        with errors_at(self.where):
            return self.operator.reference(*arguments)


Step = KernelStep | HostStep


_KEPT_BYTES = 64 << 20  # of waiting arenas
_MOST_CHUNKS = (1 << 16) - 1  # of a step: the driver counts those that are taken in 16 bits


@dataclass(frozen=True)
class Program:
    """Steps over an arena of `arena_bytes`, with constants kept alive, for inputs and outputs of fixed types."""

    steps: tuple[Step, ...]
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    constants: tuple[Array, ...]
    arena_bytes: int
    driver: DriverAbi
    threads: int
    alone: bool = False  # too little work for several threads
    flush: bool = False  # denormals to zero
    _free: list[Instance] = field(default_factory=list, compare=False, repr=False)

    @cached_property
    def scratch_bytes(self) -> int:
        """Scratch memory that each thread needs."""
        return max((step.scratch for step in self.steps if isinstance(step, KernelStep)), default=0)

    def run(self, inputs: Sequence[Array], out: Sequence[Array] | None = None) -> list[Array]:
        """Outputs for inputs that have exactly the declared types, C-contiguous and native byte order.

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

    def _run_on_team(self, inputs: Sequence[Array], out: Sequence[Array] | None) -> list[Array]:
        team = threading_runtime.team(self.threads, self.driver)
        with team.guard.lock:
            if team.busy:  # by this very thread: a signal handler or a host step runs a model during a run
                return self._on_one_thread.run(inputs, out)
            team.busy = True
            try:
                team.reserve_scratch(self.scratch_bytes)
                instance = self._instance()
                try:
                    results = instance.run(inputs, out, team)
                finally:
                    self._free.append(instance)
                team.free_tables()
                return results
            finally:
                team.busy = False

    def _instance(self) -> Instance:
        try:
            return self._free.pop()
        except IndexError:
            with refusals("memory to run a model on"):
                return Instance(self)

    @cached_property
    def _on_one_thread(self) -> Program:
        """The same program, with the same results."""
        return replace(self, threads=1, _free=[])

    @cached_property
    def _most_kept(self) -> int:
        """Instances that wait for later runs: more than the cores can run at once only while their arenas are small."""
        return max(physical_cores(), _KEPT_BYTES // max(1, self.arena_bytes))

    def prepare(self) -> None:
        """Make the first instance now, so that the first inference touches no new memory."""
        if not self._free:
            self._free.append(Instance(self))
        if self.threads == 1:
            return
        team = threading_runtime.team(self.threads, self.driver)
        with team.guard.lock:
            if team.busy:
                return
            team.busy = True
            try:
                team.hire()
                team.reserve_scratch(self.scratch_bytes)
            finally:
                team.busy = False


class Instance:
    """Memory and argument records of one run at a time."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.arena = aligned_bytes(program.arena_bytes, "the arena of the model's intermediate values")
        self._bases = {("arena", 0): address_of(self.arena)}
        self._bases.update({("constant", i): address_of(array) for i, array in enumerate(program.constants)})
        self._segments: list[tuple[int, int] | HostStep] = []
        self._patches: dict[tuple[str, int], list[tuple[int, int]]] = {}
        # Alone, an instance runs on the calling thread and shares nothing: no lock, no waiting.
        self._alone = Team(1, program.driver) if program.threads == 1 else None
        if self._alone is not None:
            self._alone.reserve_scratch(program.scratch_bytes)
        self._build_records()

    def _build_records(self) -> None:
        kernels = [step for step in self.program.steps if isinstance(step, KernelStep)]
        total, size = sum(len(step.words) for step in kernels), self.program.driver.step_words
        self._words = (ctypes.c_int64 * max(total, 1))()
        self._table = aligned_bytes(max(len(kernels), 1) * size * 8, "the step table").view(np.int64)
        start = ctypes.addressof(self._words)
        row, word, group = 0, 0, 0
        for step in self.program.steps:
            if isinstance(step, HostStep):
                self._segments.append(step)
                continue
            if not self._segments or isinstance(self._segments[-1], HostStep):
                group = row
            record = self._table[row * size :]
            grain = step.grain * max(1, -(-step.items // (step.grain * _MOST_CHUNKS)))
            head = (step.address, start + word * 8, step.items, grain, int(step.barrier), group)
            record[:10] = *head, int(self.program.flush), step.grain, 0, -(-step.items // grain)
            if step.barrier:
                group = row + 1
            for item in step.words:
                self._words[word] = item if isinstance(item, int) else self._resolve(item, word)
                word += 1
            last = self._segments[-1] if self._segments else None
            if isinstance(last, tuple):
                self._segments[-1] = (last[0], row + 1)
            else:
                self._segments.append((row, row + 1))
            row += 1
        for segment in self._segments:
            if isinstance(segment, tuple):
                self._table[(segment[1] - 1) * size + 4] = 1  # a run ends with all threads together
        self._table_address = address_of(self._table)

    def _resolve(self, slot: Slot, word: int) -> int:
        """An address, or 0 with a note to patch it in when the caller's arrays are known."""
        base = self._bases.get((slot.kind, slot.index))
        if base is not None:
            return base + slot.offset
        self._patches.setdefault((slot.kind, slot.index), []).append((word, slot.offset))
        return 0

    def run(
        self, inputs: Sequence[Array], out: Sequence[Array] | None, team: Team | None = None
    ) -> list[Array]:
        """One inference. The arrays' types have been checked: native code trusts their sizes. The caller holds the lock
        of the team."""
        program = self.program
        outputs = list(out) if out else [empty_output(type.shape, type.dtype) for type in program.outputs]
        words = self._words
        for (kind, index), places in self._patches.items():
            address = address_of(inputs[index] if kind == "input" else outputs[index])
            for word, offset in places:
                words[word] = address + offset
        self._run_segments(team or self._alone, inputs, outputs)  # type: ignore[arg-type]  # one of them is there
        return outputs

    def __del__(self, retire: Callable[[int, Array], None] = threading_runtime.retire) -> None:
        """A worker that was late may still be reading the step table: the team frees it when none is."""
        program = self.program
        if program.threads > 1 and hasattr(self, "_table"):
            retire(program.threads, self._table)

    def _run_segments(self, team: Team, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        driver, control, table = self.program.driver, team.address, self._table_address
        run, shared = driver.run, team.threads > 1
        for segment in self._segments:
            if not isinstance(segment, tuple):
                self._run_host(segment, inputs, outputs)
                continue
            first, last = segment
            try:
                while run(control, table, first, last):  # Python handles signals here
                    first = -1
                    if team.lost:
                        raise UnsupportedError(
                            f"this process was forked in the middle of a run on {team.threads} threads, which the "
                            "child does not have; the run goes on in the parent, the child may start it again"
                        )
            except BaseException:  # first of all: no worker may touch arrays that nobody holds any more
                if shared and not team.lost:
                    driver.halt(control, table, segment[0], last, 0)
                raise

    def _run_host(self, step: HostStep, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        arguments = [None if item is None else self._array(*item, inputs, outputs) for item in step.inputs]
        results = step.run(arguments)
        for place, result in zip(step.outputs, results, strict=False):
            if place is None:
                continue
            slot, type = place
            if result.shape != type.shape:
                raise ShapeError(f"{step.label}: gave shape {list(result.shape)}, {type} was planned")
            self._array(slot, type, inputs, outputs)[...] = result

    def _array(
        self, slot: Slot, type: TensorType, inputs: Sequence[Array], outputs: Sequence[Array]
    ) -> Array:
        """The memory of a slot as an array. Of an input, output or constant it may be a part, or another shape of
        the same elements: views and concats share memory."""
        if slot.kind != "arena":
            owners = {"input": inputs, "output": outputs, "constant": self.program.constants}
            owner = owners[slot.kind][slot.index]
            if owner.shape == type.shape:
                return owner
            begin = slot.offset // owner.dtype.itemsize
            return owner.reshape(-1)[begin : begin + type.size].reshape(type.shape)
        block = self.arena[slot.offset : slot.offset + type.nbytes]
        return block.view(type.dtype).reshape(type.shape)
