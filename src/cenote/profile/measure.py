"""Measurement of a model on this machine: `profile(model, inputs)`.

Ordinary and recorded calls alternate, so that changes of the machine's state affect both: the former give the
latency, the latter its parts (`collect`). Every figure is the mean of the calls between the quartiles.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cenote.codegen.jit import host_target
from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, InputError, UnsupportedError, shown
from cenote.core.target import processor
from cenote.core.types import Array, Declared
from cenote.core.version import __version__
from cenote.profile.collect import Collected, collect
from cenote.profile.data import Profile
from cenote.profile.environment import Environment, Watch
from cenote.profile.fields import Accounts, ArenaBlock, Span
from cenote.profile.measure_roofs import clock_ghz, roofs
from cenote.profile.metrics.counters import Counter, Counting
from cenote.profile.recording import RecordedProgram, recorded_copy
from cenote.profile.roofs import Roofs
from cenote.profile.steps import Times, step_stats
from cenote.profile.timeline import timeline
from cenote.runtime.timing import CallRecorder
from cenote.stages.runnable import RunnableModel

_WARM_UP = 3
_LEAST_CALLS, _MOST_CALLS = 3, 500
# Notes of each thread between two readings of the log, 32 bytes each.
_ROOM, _MOST_ROOM = 1 << 15, 1 << 20
_SEED = 0

Call = Callable[[], object]


def profile(
    model: RunnableModel, inputs: Any = None, *, seconds: float = 2.0, between: Call | None = None
) -> Profile:
    """See `Model.profile`. `between`, the program's work between calls, is called before each call and not
    counted."""
    check_seconds(seconds)
    arrays = by_name(model, inputs)
    # Compiles everything that the calls need.
    model.run(arrays)
    limits = roofs(threads_of(model))
    before = clock_ghz()
    measured = measure(model, arrays, seconds, between)
    environment = replace(measured.environment, clock_ghz=(before, clock_ghz()))
    return _profile_of(model, arrays, replace(measured, environment=environment), limits)


def check_seconds(seconds: object) -> None:
    """Raise ArgumentError for what is no time to measure."""
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds < math.inf:
        raise ArgumentError(f"seconds: {shown(seconds)} is no time to measure")


def threads_of(model: RunnableModel) -> int:
    """Return the number of threads of the plans that the last call used."""
    return max(plan.program.threads for plan in model.plans)


def by_name(model: RunnableModel, inputs: Any) -> dict[str, Array]:
    """Return inputs by name: from a dict, a sequence in order, a single array, or, for None, random numbers."""
    if inputs is None:
        shapes = model.signature.static_shapes()
        if shapes is None:
            raise InputError(
                f"profile: the model's shapes are not known, give inputs; it takes {model.signature}"
            )
        return random_inputs(model.inputs, shapes)
    if isinstance(inputs, Mapping):
        arrays = dict(inputs)
    else:
        arrays = model.signature.named(inputs if isinstance(inputs, tuple | list) else (inputs,), {})
    model.signature.check_names(arrays)
    return arrays


def random_inputs(inputs: Sequence[Declared], shapes: Sequence[Sequence[int]]) -> dict[str, Array]:
    """Return standard normal numbers where an input holds floats; else zeros, since an integer is often an index."""
    generator = np.random.default_rng(_SEED)
    arrays = {}
    for declared, shape in zip(inputs, shapes, strict=True):
        floats = declared.dtype.kind in "fV"  # V: bfloat16
        content = generator.standard_normal(shape) if floats else np.zeros(shape)
        arrays[declared.name] = content.astype(declared.dtype)
    return arrays


@dataclass(frozen=True)
class Measurement:
    """Calls of one model: `ordinary` nanoseconds, `recorded` ones with their times, the model's parts, the
    environment, and the timeline of a call of median length."""

    ordinary: Array
    recorded: Collected
    parts: tuple[RecordedProgram, ...]
    environment: Environment
    spans: tuple[Span, ...]
    counters: tuple[Counter, ...]


def measure(
    model: RunnableModel, inputs: Mapping[str, Array], seconds: float, between: Call | None = None
) -> Measurement:
    """Call a model for this number of seconds."""
    model.run(inputs)
    threads = threads_of(model)
    room = _ROOM
    while True:
        recorder = CallRecorder(room, threads)
        try:
            copy, parts = recorded_copy(model, recorder)
            session = _Session(lambda: copy.run(inputs), recorder, parts)  # noqa: B023  (used in this turn only)
            if session.warm_up():
                return session.measure(seconds, between or _nothing)
        finally:
            recorder.close()
        room *= 4
        if room > _MOST_ROOM:
            raise UnsupportedError(f"a call of this model has more than {_MOST_ROOM} chunks on a thread")


def _nothing() -> None:
    """Do nothing: the default work between two calls."""


class _Session:
    """Calls of a recorded copy of a model."""

    def __init__(self, call: Call, recorder: CallRecorder, parts: list[RecordedProgram]) -> None:
        self.call, self.recorder, self.parts = call, recorder, parts
        self.ordinary: list[int] = []
        self.pieces: list[Collected] = []
        self.spans: tuple[Span, ...] = ()
        # Calls of the batch that the timeline was taken from.
        self.shown = 0

    def warm_up(self) -> bool:
        """Make the first calls, which are cold. Return False where the log has no room for one."""
        for _ in range(_WARM_UP):
            self.call()
        self.recorder.record(self.call)
        return self.recorder.filled <= 1

    def measure(self, seconds: float, between: Call) -> Measurement:
        """Make ordinary and recorded calls in turns for this number of seconds."""
        self.recorder.settle()
        # Part of the log that one call fills.
        needed = self.recorder.filled
        self.recorder.clear()
        counting = Counting()
        watch, end = Watch(), time.perf_counter() + seconds
        while len(self.ordinary) < _MOST_CALLS:
            if len(self.ordinary) >= _LEAST_CALLS and time.perf_counter() > end:
                break
            between()
            with counting.during():
                begin = time.perf_counter_ns()
                self.call()
                self.ordinary.append(time.perf_counter_ns() - begin)
            between()
            self.recorder.record(self.call)
            if self.recorder.filled + 2 * needed > 1:
                self._take()
                self.call()
        self._take()
        recorded = Collected.joined(self.pieces)
        environment = watch.environment(migrations=recorded.migrations)
        ordinary = np.array(self.ordinary, np.float64)
        counters = counting.counters(len(ordinary))
        counting.close()
        return Measurement(ordinary, recorded, tuple(self.parts), environment, self.spans, counters)

    def _take(self) -> None:
        """Read the log and empty it. Calls for which it had no room are left out."""
        recorder = self.recorder
        recorder.settle()
        if recorder.calls and recorder.filled <= 1:
            notes = [recorder.notes(thread) for thread in range(recorder.threads)]
            self.pieces.append(collect(recorder.calls, notes, self.parts, recorder.threads))
            if len(recorder.calls) > self.shown:
                self.shown = len(recorder.calls)
                self.spans = timeline(recorder.calls, notes, self.parts)
        recorder.clear()


def _profile_of(
    model: RunnableModel, inputs: Mapping[str, Array], measured: Measurement, limits: Roofs
) -> Profile:
    recorded, ordinary = measured.recorded, measured.ordinary
    usual = between_quartiles(recorded.wall)
    times = Times.of(recorded)
    latency = float(recorded.wall[usual].mean()) / 1e6
    kernels, waits, driver, host = (
        float(part[usual].sum(axis=1).mean())
        for part in (times.kernels, times.waits, times.driver, times.host)
    )
    accounts = Accounts(kernels, waits, driver, host, latency - kernels - waits - driver - host)
    return Profile(
        model=measured.parts[0].description.name,
        inputs=tuple(f"{name}: {array.dtype}{list(array.shape)}" for name, array in inputs.items()),
        threads=recorded.kernels.shape[2],
        precision=model.precision,
        version=__version__,
        processor=processor(),
        target=host_target().name,
        calls=len(ordinary),
        wall_ms=float(ordinary[between_quartiles(ordinary)].mean()) / 1e6,
        recorded_ms=latency,
        spread=spread(ordinary),
        accounts=accounts,
        environment=measured.environment,
        steps=step_stats(measured.parts, times, usual, latency, limits),
        roofs=limits,
        stages=len(measured.parts),
        timeline=measured.spans,
        arena=_arena(measured.parts),
        counters=measured.counters,
        notes=tuple(
            f"from outside: {line}" for part in measured.parts for line in part.description.from_outside
        ),
    )


def _arena(parts: Sequence[RecordedProgram]) -> tuple[ArenaBlock, ...]:
    """Return the places of values in the arenas, with the first and last of all steps that need them."""
    return tuple(
        ArenaBlock(
            each.name, part.stage, each.offset, each.nbytes, part.first + each.first, part.first + each.last
        )
        for part in parts
        for each in part.description.memory.blocks
    )


def spread(times: Array) -> float:
    """Return half the distance between the quartiles, relative to the median."""
    low, middle, high = np.percentile(times, (25, 50, 75))
    return float((high - low) / 2 / middle)


def between_quartiles(times: Array) -> Array:
    """Return a mask of the calls that are neither among the fastest nor among the slowest quarter."""
    low, high = np.percentile(times, (25, 75))
    kept: Array = (times >= low) & (times <= high)
    return kept
