"""Templates from steps whose numbers are formulas: the program of every set of sizes of a class."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cenote.compiler.barriers import PendingStep, touch_the_same
from cenote.core.formulas.expressions import Symbolic
from cenote.core.sizes import is_size
from cenote.core.trace import Trace
from cenote.core.types import Array, TensorType
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
        self.values: list[Any] = []  # formulas of the positions

    def add(self, number: Any) -> int:
        """Append a number; return its position."""
        if is_size(number):
            self.positions.append(len(self.base))
            self.values.append(number)
            number = 0
        self.base.append(number - (1 << 64) if number >= 1 << 63 else int(number))
        return len(self.base) - 1

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
    parts: Assembled, launcher: Launcher, trace: Trace, threads: int, shown: Iterable[Any]
) -> tuple[Template, dict[str, int]]:
    """Return the template of steps whose numbers come from a trace, and the positions of those `shown` among the
    numbers of its description, by their formulas."""
    numbers = _Numbers()
    places: dict[Memory, list[int]] = {}
    kernels: list[tuple[int, int]] = []
    for step in parts.steps:
        if step.call is None:
            continue
        first = len(numbers.base)
        for word in step.words:
            if isinstance(word, Slot):
                memory = (word.kind, word.index)
                if word.kind is SlotKind.TABLE:
                    memory = (SlotKind.CONSTANT, len(parts.constants) + word.index)
                places.setdefault(memory, []).append(numbers.add(word.offset))
            else:
                numbers.add(word)
        kernels.append((first, len(numbers.base)))
    sections = _sections(parts, numbers)
    spans = iter(kernels)
    steps = tuple(
        _host(step.host, numbers, len(parts.constants))
        if step.host is not None
        else KernelTemplate(step.label, tuple(launcher.kernels(step.call)), *next(spans), barrier)  # type: ignore[arg-type]  # a call
        for step, barrier in zip(parts.steps, parts.barriers, strict=True)
    )
    inputs = tuple(_type(type, numbers) for type in parts.inputs)
    outputs = tuple(_type(type, numbers) for type in parts.outputs)
    described = {number.code: number for number in shown if is_size(number)}
    positions = {code: index for index, code in enumerate(described)}
    distinct = {value.code: value for value in numbers.values}
    at = {code: index for index, code in enumerate(distinct)}
    source = trace.source([*distinct.values()], parts.tables, [*described.values()])
    template = Template(
        formulas=Formulas.compile(source, trace.objects),
        steps=steps,
        base=np.array(numbers.base, np.int64),
        positions=np.array(numbers.positions, np.int64),
        values=np.array([at[value.code] for value in numbers.values], np.int64),
        sections=sections,
        places={memory: np.array(found, np.int64) for memory, found in places.items()},
        inputs=inputs,
        outputs=outputs,
        constants=tuple(parts.constants),
        driver=driver_abi(),
        threads=threads,
        rest=launcher.rest,
    )
    return template, positions


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


def _host(step: HostStep, numbers: _Numbers, constants: int) -> HostTemplate:
    def place(item: tuple[Slot, TensorType] | None) -> PlaceTemplate | None:
        if item is None:
            return None
        slot, type = item
        kind, index = slot.kind, slot.index
        if kind is SlotKind.TABLE:
            kind, index = SlotKind.CONSTANT, constants + index
        return kind, index, numbers.add(slot.offset), _type(type, numbers)

    inputs, outputs = tuple(map(place, step.inputs)), tuple(map(place, step.outputs))
    return HostTemplate(step.label, step.operator, inputs, outputs, step.where)


def with_positions(text: str, positions: Mapping[str, int]) -> str:
    """Replace the formulas in double braces in a text by their positions among a description's numbers."""
    return re.sub(r"\{\{(.+?)\}\}", lambda found: f"{{{{{positions[found[1]]}}}}}", text)
