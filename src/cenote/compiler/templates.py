"""Templates from steps whose numbers are formulas: the program of every set of sizes of a class."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from cenote.compiler.barriers import PendingStep, touch_the_same
from cenote.compiler.instructions import instructions_of
from cenote.core.deferred import dataclass
from cenote.core.formulas.expressions import Symbolic
from cenote.core.sizes import Size, is_size
from cenote.core.trace import Trace
from cenote.core.types import Array, TensorType
from cenote.kernels.base import Call
from cenote.kernels.driver import driver_abi
from cenote.kernels.launch import Launcher
from cenote.runtime.formulas import Formulas
from cenote.runtime.records import Memory
from cenote.runtime.steps import HostStep, Slot, SlotKind
from cenote.runtime.template import (
    HostTemplate,
    KernelTemplate,
    PlaceTemplate,
    Sections,
    Template,
    TypeTemplate,
)


class _Numbers:
    """Vector of a template's numbers."""

    def __init__(self) -> None:
        self.base: list[int] = []
        self.positions: list[int] = []
        self.values: list[int] = []  # of the positions, by the numbers of their formulas
        self.distinct: list[Symbolic] = []  # the formulas
        self._known: dict[Hashable, int] = {}

    def add(self, number: Any) -> int:
        """Append a number; return its position."""
        if is_size(number):
            self.positions.append(len(self.base))
            self.values.append(self.formula(number))
            number = 0
        self.base.append(_signed(number))
        return len(self.base) - 1

    def formula(self, number: Any) -> int:
        """Return the number of a formula."""
        key = number.terms if isinstance(number, Size) else number.code
        index = self._known.setdefault(key, len(self.distinct))
        if index == len(self.distinct):
            self.distinct.append(number)
        return index

    def section(self, numbers: Sequence[Any]) -> int:
        """Append some numbers; return the position of the first."""
        first = len(self.base)
        for number in numbers:
            self.add(number)
        return first


@dataclass(frozen=True)
class Assembled:
    """Parts of a program: steps in order, barriers, types, memory and weights. `tables` are the formulas of arrays
    that come after the constants. `alone`: whether there is too little work for threads, a whole number."""

    steps: Sequence[PendingStep]
    barriers: Sequence[bool]
    inputs: Sequence[TensorType]
    outputs: Sequence[TensorType]
    constants: Sequence[Array]
    tables: Sequence[Symbolic]
    arena: int
    alone: int


def lifetimes(steps: Sequence[PendingStep], levels: Sequence[int]) -> dict[str, tuple[int, int]]:
    """Return the first and the last level of the steps that touch each buffer, by its root."""
    spans: dict[str, tuple[int, int]] = {}
    before: tuple[PendingStep, int] | None = None
    for step, level in zip(steps, levels, strict=True):
        if before is not None and touch_the_same(before[0], step) and before[1] == level:
            continue
        before = step, level
        for extent in (*step.reads, *step.writes):
            first, last = spans.get(extent.root, (level, level))
            spans[extent.root] = min(first, level), max(last, level)
    return spans


def make_template(
    parts: Assembled,
    launcher: Launcher,
    trace: Trace,
    threads: int,
    shown: Iterable[Any],
    in_arena: Callable[[Slot], Slot],
) -> tuple[Template, dict[str, int]]:
    """Return the template of steps whose numbers come from a trace, and the positions of those `shown` among the
    numbers of its description, by their formulas. `in_arena` gives the places of slots that name a buffer."""
    numbers = _Numbers()
    records = _Records(numbers, len(parts.constants), in_arena)
    kernels = [records.add(step.call, step.words) for step in parts.steps if step.call is not None]
    sections = _sections(parts, numbers)
    spans = iter(kernels)
    steps = tuple(
        _host(step.host, numbers, len(parts.constants), in_arena)
        if step.host is not None
        else KernelTemplate(step.label, tuple(launcher.kernels(step.call)), *next(spans), barrier)  # type: ignore[arg-type]  # a call
        for step, barrier in zip(parts.steps, parts.barriers, strict=True)
    )
    inputs = tuple(_type(type, numbers) for type in parts.inputs)
    outputs = tuple(_type(type, numbers) for type in parts.outputs)
    described = {number.code: number for number in shown if is_size(number)}
    positions = {code: index for index, code in enumerate(described)}
    source = trace.source(numbers.distinct, parts.tables, [*described.values()])
    template = Template(
        formulas=Formulas.compile(
            source, trace.objects, *(instructions_of(trace, numbers.distinct, parts.tables) or ())
        ),
        steps=steps,
        base=np.array(numbers.base, np.int64),
        positions=np.array(numbers.positions, np.int64),
        values=np.array(numbers.values, np.int64),
        sections=sections,
        places={memory: np.array(found, np.int64) for memory, found in records.places.items()},
        inputs=inputs,
        outputs=outputs,
        constants=tuple(parts.constants),
        driver=driver_abi(),
        threads=threads,
        rest=launcher.rest,
    )
    return template, positions


@dataclass(frozen=True)
class _Part:
    """Words that all steps of one call have in common: the numbers, the formulas by their positions, and the positions
    of addresses."""

    base: list[int]
    sized: list[tuple[int, int]]
    addresses: list[int]


class _Records:
    """Writer of argument records into the vector of numbers. Records of one call differ in their addresses alone, so
    the rest is analysed once per call. `places`: positions of addresses, by memory."""

    def __init__(self, numbers: _Numbers, constants: int, in_arena: Callable[[Slot], Slot]) -> None:
        self.numbers, self.constants, self.in_arena = numbers, constants, in_arena
        self.places: dict[Memory, list[int]] = {}
        self._parts: dict[int, _Part] = {}  # by the ids of calls

    def add(self, call: Call, words: Sequence[int | Slot]) -> tuple[int, int]:
        """Append the record of a call; return the positions of its begin and end."""
        part = self._parts.get(id(call))
        if part is None:
            part = self._parts[id(call)] = self._part(words)
        first = len(self.numbers.base)
        self.numbers.base += part.base
        for index, formula in part.sized:
            self.numbers.positions.append(first + index)
            self.numbers.values.append(formula)
        for index in part.addresses:
            word = words[index]
            assert isinstance(word, Slot)
            self._set_address(first + index, self.in_arena(word))
        return first, len(self.numbers.base)

    def _part(self, words: Sequence[int | Slot]) -> _Part:
        part = _Part([], [], [])
        for index, word in enumerate(words):
            if isinstance(word, Slot):
                part.addresses.append(index)
            elif is_size(word):
                part.sized.append((index, self.numbers.formula(word)))
            part.base.append(0 if isinstance(word, Slot) or is_size(word) else _signed(word))
        return part

    def _set_address(self, position: int, slot: Slot) -> None:
        memory = (slot.kind, slot.index)
        if slot.kind is SlotKind.TABLE:
            memory = (SlotKind.CONSTANT, self.constants + slot.index)
        self.places.setdefault(memory, []).append(position)
        if is_size(slot.offset):
            self.numbers.positions.append(position)
            self.numbers.values.append(self.numbers.formula(slot.offset))
        else:
            self.numbers.base[position] = slot.offset


def _signed(word: int) -> int:
    """Return a word of 64 bits as a signed number."""
    return word - (1 << 64) if word >= 1 << 63 else int(word)


def _sections(parts: Assembled, numbers: _Numbers) -> Sections:
    calls = [step.call for step in parts.steps if step.call is not None]
    return Sections(
        numbers.section([call.items for call in calls]),
        numbers.section([call.grain for call in calls]),
        numbers.section([call.scratch for call in calls]),
        numbers.section([call.chosen for call in calls]),
        numbers.add(parts.arena),
        numbers.add(parts.alone),
    )


def _type(type: TensorType, numbers: _Numbers) -> TypeTemplate:
    return TypeTemplate(type.dtype, tuple(numbers.add(extent) for extent in type.shape))


def _host(
    step: HostStep, numbers: _Numbers, constants: int, in_arena: Callable[[Slot], Slot]
) -> HostTemplate:
    def place(item: tuple[Slot, TensorType] | None) -> PlaceTemplate | None:
        if item is None:
            return None
        slot, type = in_arena(item[0]), item[1]
        kind, index = slot.kind, slot.index
        if kind is SlotKind.TABLE:
            kind, index = SlotKind.CONSTANT, constants + index
        return kind, index, numbers.add(slot.offset), _type(type, numbers)

    inputs, outputs = tuple(map(place, step.inputs)), tuple(map(place, step.outputs))
    return HostTemplate(step.label, step.operator, inputs, outputs, step.where)


def with_positions(text: str, positions: Mapping[str, int]) -> str:
    """Replace the formulas in double braces in a text by their positions among a description's numbers."""
    return re.sub(r"\{\{(.+?)\}\}", lambda found: f"{{{{{positions[found[1]]}}}}}", text)
