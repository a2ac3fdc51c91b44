"""A copy of a model whose calls can be recorded, and which steps the recorded ones are.

The copy has the model's plans, weights and threads and does what the model does; only its programs note what they do
while the recorder is on. The model itself, and other threads that call it, are not touched.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from cenote.compiler.report import PlanDescription, StepDescription
from cenote.core.types import Array
from cenote.graph.cut import Cut
from cenote.graph.graph import Node
from cenote.runtime.program import Program
from cenote.runtime.steps import KernelStep
from cenote.runtime.timing import HostRun, Recorder, TimedProgram
from cenote.stage import Stage, Stages


@dataclass(frozen=True)
class Part:
    """One program of the model: its steps are those from `first` on of all steps; of its kernel steps `rows` says which
    these are. `between` is the index of what runs on the host behind it (-1: nothing). `ends` of native stretches: the
    row that each begins with, by the row behind its last one."""

    program: Program
    description: PlanDescription
    stage: int
    first: int
    rows: Array
    between: int
    ends: Mapping[int, int]

    @property
    def steps(self) -> tuple[StepDescription, ...]:
        return self.description.steps


@dataclass(frozen=True)
class _TimedCut(Cut):
    """What runs on the host behind a program, recorded."""

    recorder: Recorder | None = None
    number: int = 0

    def run(
        self,
        values: Mapping[str, Array],
        prepared: Callable[[Node], Node] = lambda node: node,
        threads: int | None = None,
    ) -> dict[str, Array]:
        begin = time.perf_counter_ns()
        known = super().run(values, prepared, threads)
        if self.recorder is not None and self.recorder.on:
            run = HostRun(self.number, -1, begin, time.perf_counter_ns())
            self.recorder.calls[-1].hosts.append(run)
        return known


def recorded_copy(model: Any, key: Any, recorder: Recorder) -> tuple[Any, list[Part]]:
    """The copy for the inputs' shapes `key`, which the model has been run for, and its parts."""
    parts: list[Part] = []
    made = object.__new__(type(model))
    vars(made).update(vars(model))
    made._stages = Stages({key: _timed(model._stages[key], recorder, parts)})
    return made, parts


def _timed(stage: Stage, recorder: Recorder, parts: list[Part]) -> Stage:
    """The stage with those that have followed it, all recorded. Those that were used last come last among the parts of
    one number of stages."""
    number, depth = len(parts), parts[-1].stage + 1 if parts else 0
    first = parts[-1].first + len(parts[-1].steps) + (parts[-1].between >= 0) if parts else 0
    made, program = copy.copy(stage), stage.plan.program
    parts.append(_part(stage, depth, first))
    made.plan = replace(stage.plan, program=TimedProgram.of(program, recorder, number))
    made.following = Stages()
    if stage.tail is not None:
        cut = {each.name: getattr(stage.tail.cut, each.name) for each in fields(Cut)}
        made.tail = replace(stage.tail, cut=_TimedCut(**cut, recorder=recorder, number=number))
    if stage.following:  # of several findings the one that the inputs at hand have led to
        found, following = next(reversed(stage.following.items()))
        made.following[found] = _timed(following, recorder, parts)
    return made


def _part(stage: Stage, depth: int, first: int) -> Part:
    program, description = stage.plan.program, stage.plan.describe()
    rows = [first + index for index, step in enumerate(program.steps) if isinstance(step, KernelStep)]
    ends = {part[1]: part[0] for part in program.records.segments if isinstance(part, tuple)}
    between = first + len(description.steps) if stage.tail is not None else -1
    return Part(program, description, depth, first, np.array(rows, np.int64), between, ends)
