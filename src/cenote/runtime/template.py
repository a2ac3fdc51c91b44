"""Template of a program for every set of sizes of a class: numbers for some sizes are evaluated, nothing is compiled.

All whole numbers of the program, argument records first, are one vector: `base` holds those that are the same for all
sizes, and values of the formulas go to their `positions` (`values` gives their indices). For a set of sizes those
values and the data of a run are kept; the vector is computed when somebody needs more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np

from cenote.core.deferred import cached_property, dataclass
from cenote.core.types import Array, TensorType
from cenote.runtime.formulas import Dimensions, Formulas
from cenote.runtime.memory import address_of
from cenote.runtime.program import Program
from cenote.runtime.records import Memory, Records
from cenote.runtime.steps import HostOperator, HostStep, KernelStep, Slot, SlotKind, Step
from cenote.runtime.threads import DriverAbi
from cenote.runtime.workplaces import Workplaces


@dataclass(frozen=True)
class TypeTemplate:
    """A type whose extents are numbers at these positions."""

    dtype: np.dtype[Any]
    extents: tuple[int, ...]

    def at(self, numbers: Array) -> TensorType:
        return TensorType(self.dtype, tuple(int(numbers[i]) for i in self.extents))


# A slot's kind and index, the position of its offset, the type.
PlaceTemplate = tuple[SlotKind, int, int, TypeTemplate]


@dataclass(frozen=True)
class KernelTemplate:
    """Template of a kernel step: the words of its record are those from `first` to `last`. It runs one of several
    kernels, given by symbol and address; the address is 0 while a kernel is still being compiled."""

    label: str
    kernels: tuple[tuple[str, int], ...]
    first: int
    last: int
    barrier: bool


@dataclass(frozen=True)
class HostTemplate:
    """Template of a host step."""

    label: str
    operator: HostOperator
    inputs: tuple[PlaceTemplate | None, ...]
    outputs: tuple[PlaceTemplate | None, ...]
    where: str

    def at(self, numbers: Array) -> HostStep:
        sides = [
            tuple(
                None
                if place is None
                else (Slot(place[0], place[1], int(numbers[place[2]])), place[3].at(numbers))
                for place in side
            )
            for side in (self.inputs, self.outputs)
        ]
        return HostStep(self.label, self.operator, sides[0], sides[1], self.where)


@dataclass(frozen=True)
class Sections:
    """Positions in the vector of numbers: the starts of columns with an entry per kernel step, and single numbers."""

    items: int
    grains: int
    scratch: int
    chosen: int
    arena: int
    alone: int


@dataclass(frozen=True)
class Template:
    """Program without its sizes. `places` as in `Records`; `constants` come first among the program's, then the
    arrays from formulas. `threads`: the program's number unless there is too little work. `rest` waits for the
    kernels that are still being compiled, and returns their addresses by symbol.
    """

    formulas: Formulas
    steps: tuple[KernelTemplate | HostTemplate, ...]
    base: Array
    positions: Array
    values: Array
    sections: Sections
    places: Mapping[Memory, Array]
    inputs: tuple[TypeTemplate, ...]
    outputs: tuple[TypeTemplate, ...]
    constants: tuple[Array, ...]
    driver: DriverAbi
    threads: int
    rest: Callable[[], Mapping[str, int]] = dict

    def finish(self) -> None:
        """Wait until all kernels are compiled."""
        if self._kernels.addresses.all():
            return
        addresses = self.rest()
        kernels = [
            kernel for step in self.steps if isinstance(step, KernelTemplate) for kernel in step.kernels
        ]
        self._kernels.addresses[:] = [address or addresses[symbol] for symbol, address in kernels]

    def at(self, dimensions: Dimensions, workplaces: Workplaces | None = None) -> Program | None:
        """Return the program for these symbolic dimensions; None where it does not hold for them.

        `workplaces`: those of the model; without them the program has its own.
        """
        evaluated = self.formulas.values(dimensions, self.driver.formulas)
        if evaluated is None:
            return None
        values, tables = evaluated
        numbers, kernels, at = self.numbers(values), self._kernels, self.sections
        count = len(kernels.starts)
        items, grains, scratch, chosen = (
            numbers[first : first + count].copy() for first in (at.items, at.grains, at.scratch, at.chosen)
        )
        chosen += kernels.first
        if not kernels.addresses[chosen].all():
            self.finish()
        hosts = {i: step.at(numbers) for i, step in enumerate(self.steps) if isinstance(step, HostTemplate)}
        records = Records(
            lambda: self._words(values, tables),
            at.items,
            self._shared.memory,
            kernels.starts,
            kernels.addresses[chosen],
            items,
            grains,
            kernels.barriers,
            tuple(hosts[segment] if isinstance(segment, int) else segment for segment in kernels.segments),
        )
        alone = bool(numbers[at.alone])
        program = Program(
            steps=LazySteps(lambda: self._steps(self.numbers(values), hosts), len(self.steps)),
            inputs=tuple(type.at(numbers) for type in self.inputs),
            outputs=tuple(type.at(numbers) for type in self.outputs),
            constants=(*self.constants, *tables),
            arena_bytes=int(numbers[at.arena]),
            driver=self.driver,
            threads=1 if alone else self.threads,
            alone=alone,
            workplaces=workplaces or Workplaces(),
        )
        # They would be computed from the steps.
        vars(program).update(records=records, scratch_bytes=int(scratch.max(initial=0)))
        return program

    def numbers(self, values: Array) -> Array:
        """Return all numbers, from the values of the formulas."""
        numbers = self.base.copy()
        numbers[self.positions] = values[self.values]
        return numbers

    def _words(self, values: Array, tables: Sequence[Array]) -> Array:
        """Return the argument records, with the addresses of constants and of the arrays from formulas."""
        shared = self._shared
        words: Array = shared.words.copy()
        words[shared.positions] += values[shared.values]
        if tables:
            words[shared.places] += np.array([address_of(table) for table in tables])[shared.tables]
        return words

    @cached_property
    def _shared(self) -> _Words:
        words, own = self.base[: self.sections.items].copy(), len(self.constants)
        places, tables = list[int](), list[int]()
        others = dict[Memory, Array]()
        for (kind, index), positions in self.places.items():
            if kind is not SlotKind.CONSTANT:
                others[kind, index] = positions
            elif index < own:
                words[positions] += address_of(self.constants[index])
            else:
                places.extend(positions.tolist())
                tables.extend([index - own] * len(positions))
        sized = self.positions < len(words)
        return _Words(
            words,
            self.positions[sized],
            self.values[sized],
            np.array(places, np.int64),
            np.array(tables, np.int64),
            others,
        )

    def _steps(self, numbers: Array, hosts: Mapping[int, HostStep]) -> tuple[Step, ...]:
        """Return the steps of a program with these numbers."""
        memory_of = {int(i): memory for memory, positions in self.places.items() for i in positions}
        steps: list[Step] = []
        at, row = self.sections, 0
        for index, step in enumerate(self.steps):
            if isinstance(step, HostTemplate):
                steps.append(hosts[index])
                continue
            words = tuple(
                Slot(*memory_of[i], int(numbers[i])) if i in memory_of else int(numbers[i])
                for i in range(step.first, step.last)
            )
            number = int(numbers[at.chosen + row])
            symbol, address = (
                step.kernels[number][0],
                int(self._kernels.addresses[self._kernels.first[row] + number]),
            )
            items, grain, scratch = (int(numbers[begin + row]) for begin in (at.items, at.grains, at.scratch))
            steps.append(KernelStep(step.label, symbol, address, words, items, grain, scratch, step.barrier))
            row += 1
        return tuple(steps)

    @cached_property
    def _kernels(self) -> _Kernels:
        kernels = [step for step in self.steps if isinstance(step, KernelTemplate)]
        addresses = [address for step in kernels for _, address in step.kernels]
        first = np.cumsum([0, *(len(step.kernels) for step in kernels)])[:-1]
        segments: list[tuple[int, int] | int] = []
        row = 0
        for index, step in enumerate(self.steps):
            if isinstance(step, HostTemplate):
                segments.append(index)
                continue
            last = segments[-1] if segments else None
            segments.append((segments.pop()[0], row + 1) if isinstance(last, tuple) else (row, row + 1))  # type: ignore[index]
            row += 1
        return _Kernels(
            np.array([step.first for step in kernels], np.int64),
            first.astype(np.int64),
            np.array(addresses, np.int64),
            np.array([step.barrier for step in kernels], np.int64),
            tuple(segments),
        )


@dataclass(frozen=True)
class _Kernels:
    """Columns of the kernel steps: starts of records, the number of the first kernel that each may run, the addresses
    of all kernels, barriers, and the stretches between host steps (given by their numbers)."""

    starts: Array
    first: Array
    addresses: Array
    barriers: Array
    segments: tuple[tuple[int, int] | int, ...]


@dataclass(frozen=True)
class _Words:
    """Common part of the argument records of all sizes: the words without the parts that are added, formulas'
    `values` at `positions` and addresses of formulas' `tables` at `places`; and the places in memory that changes
    from run to run.
    """

    words: Array
    positions: Array
    values: Array
    places: Array
    tables: Array
    memory: Mapping[Memory, Array]


class LazySteps(Sequence[Step]):
    """Steps that are made when they are read: a run needs the records only."""

    def __init__(self, make: Callable[[], tuple[Step, ...]], count: int) -> None:
        self._make, self._count = make, count

    @cached_property
    def _made(self) -> tuple[Step, ...]:
        return self._make()

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Step]: ...
    def __getitem__(self, index: int | slice) -> Step | Sequence[Step]:
        return self._made[index]
