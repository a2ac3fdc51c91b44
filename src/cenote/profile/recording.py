"""A copy of a model whose calls can be recorded, and the mapping of recorded steps to steps of the model.

The copy has the model's plans, weights and threads and does the same work; its programs also note their actions while
the recorder is on. The model itself, and other threads that call it, are not affected.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import fields, replace

import numpy as np

from cenote.compiler.report import PlanDescription, StepDescription
from cenote.core.deferred import dataclass
from cenote.core.types import Array
from cenote.graph.cut import Cut
from cenote.graph.graph import Node
from cenote.runtime.program import Program
from cenote.runtime.steps import KernelStep
from cenote.runtime.timing import CallRecorder, HostRun, TimedProgram
from cenote.stages.runnable import RunnableModel
from cenote.stages.stage import Stage, Stages


@dataclass(frozen=True)
class RecordedProgram:
    """One program of the model. Its steps begin at `first` in the list of all steps; `rows` has the places of its
    kernel steps there. `between` is the index of the nodes that run on the host behind it (-1: none). `ends` of
    native stretches: the row that each begins with, by the row behind its last one."""

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
    """The nodes that run on the host behind a program, recorded."""

    recorder: CallRecorder | None = None
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


def recorded_copy(
    model: RunnableModel, recorder: CallRecorder
) -> tuple[RunnableModel, list[RecordedProgram]]:
    """Return a copy of the model that runs the last stages, recorded, and its parts."""
    parts: list[RecordedProgram] = []
    shapes, stage = model.last_run()
    return model.running(shapes, _timed(stage, recorder, parts)), parts


def _timed(stage: Stage, recorder: CallRecorder, parts: list[RecordedProgram]) -> Stage:
    """Return the stage and the stages that have followed it, all recorded. Among parts of equal stage number, those
    that were used last come last."""
    number, depth = len(parts), parts[-1].stage + 1 if parts else 0
    first = parts[-1].first + len(parts[-1].steps) + (parts[-1].between >= 0) if parts else 0
    timed, program = copy.copy(stage), stage.plan.program
    parts.append(_part(stage, depth, first))
    timed.plan = replace(stage.plan, program=TimedProgram.of(program, recorder, number))
    timed.following = Stages()
    if stage.tail is not None:
        cut = {each.name: getattr(stage.tail.cut, each.name) for each in fields(Cut)}
        timed.tail = replace(stage.tail, cut=_TimedCut(**cut, recorder=recorder, number=number))
    if stage.following:
        # Of several followers, the one that the inputs at hand have led to.
        known, following = next(reversed(stage.following.items()))
        timed.following[known] = _timed(following, recorder, parts)
    return timed


def _part(stage: Stage, depth: int, first: int) -> RecordedProgram:
    program, description = stage.plan.program, stage.plan.describe()
    rows = [first + index for index, step in enumerate(program.steps) if isinstance(step, KernelStep)]
    ends = {part[1]: part[0] for part in program.records.segments if isinstance(part, tuple)}
    between = first + len(description.steps) if stage.tail is not None else -1
    return RecordedProgram(program, description, depth, first, np.array(rows, np.int64), between, ends)
