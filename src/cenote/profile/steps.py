"""Statistics of a profile's steps, from times per call and step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cenote.compiler.report import StepDescription
from cenote.core.deferred import dataclass
from cenote.core.types import Array
from cenote.profile.collect import Collected
from cenote.profile.fields import Rival, StepStats
from cenote.profile.metrics.step_metrics import levels_of, step_metrics
from cenote.profile.recording import RecordedProgram
from cenote.profile.roofs import Roofs

# Number of blocks of calls, one after another.
_BLOCKS = 8
# Fields that a step has of the plan's description.
_OF_THE_PLAN = (
    *("kind", "node", "op", "algorithm", "output", "kernel", "items", "grain", "reason", "dtype"),
    *("operations", "executed_operations", "read_bytes", "written_bytes"),
)


@dataclass(frozen=True)
class Times:
    """Milliseconds of each recorded call and step [call, step]: `kernels`, `waits` and `driver` as means over the
    threads, `host`, and all of them; `busy`: computing, per thread [call, step, thread]. `denormals`: whether the
    step met denormal numbers, or None."""

    kernels: Array
    waits: Array
    driver: Array
    host: Array
    busy: Array
    denormals: Array | None

    @staticmethod
    def of(recorded: Collected) -> Times:
        scale = recorded.tick / 1e6
        return Times(
            recorded.kernels.mean(axis=2) * scale,
            recorded.waits * scale,
            recorded.driver * scale,
            recorded.host / 1e6,
            recorded.kernels * scale,
            recorded.denormals,
        )

    @property
    def all(self) -> Array:
        total: Array = self.kernels + self.waits + self.driver + self.host
        return total


def nearest_roof(work: StepDescription, busy_ms: Sequence[float], roofs: Roofs) -> tuple[str, float | None]:
    """Return the roof that bounds a step's time from below, and the least time that it allows / the time that the
    step took while its threads computed. "" and None where nothing is known of its work."""
    least = _least_times(work, busy_ms, roofs)
    seconds, name = max(least, default=(0.0, ""))
    return name, seconds / _computing(busy_ms)[1] if least else None


def roofs_together(step: StepStats, roofs: Roofs, part: float) -> float:
    """Return the least times of computing and of moving bytes, one after the other, / the time that the step took
    while its threads computed. `part`: of the caches that its bytes may occupy. 0 where nothing is known of its
    work."""
    least = _least_times(step, step.busy_ms, roofs, part)
    return sum(seconds for seconds, _ in least) / _computing(step.busy_ms)[1] if least else 0.0


def _least_times(
    work: StepDescription | StepStats, busy_ms: Sequence[float], roofs: Roofs, part: float = 1.0
) -> list[tuple[float, str]]:
    """Return the least seconds of computing and of moving bytes, with the names of these roofs."""
    if sum(busy_ms) <= 0 or work.kind != "kernel":
        return []
    active, _ = _computing(busy_ms)
    least: list[tuple[float, str]] = []
    gigaops = roofs.gigaops(work.dtype, active)
    if gigaops and work.executed_operations:
        least.append((work.executed_operations / gigaops / 1e9, "fma"))
    if moved := roofs.transfer_seconds(work.read_bytes, work.written_bytes, active, part):
        least.append(moved)
    return least


def _computing(busy_ms: Sequence[float]) -> tuple[int, float]:
    """Return how many threads compute, and the seconds of each."""
    active = min(len(busy_ms), max(1, round(sum(busy_ms) / max(busy_ms))))
    return active, sum(busy_ms) / active / 1e3


def step_stats(
    parts: Sequence[RecordedProgram], times: Times, usual: Array, latency: float, roofs: Roofs
) -> tuple[StepStats, ...]:
    """Return all steps in their order. `usual`: the calls whose mean counts; they take `latency` milliseconds."""
    every = times.all
    low = np.percentile(every, 10, axis=0)
    middle = np.median(every, axis=0)
    deviation = np.median(np.abs(every - middle), axis=0)
    blocks = [block.min(axis=0) for block in np.array_split(every, min(_BLOCKS, len(every)))]
    mean = {name: getattr(times, name)[usual].mean(axis=0) for name in ("kernels", "waits", "driver", "busy")}
    ms = every[usual].mean(axis=0)
    stats: list[StepStats] = []
    group = 0
    for part in parts:
        levels = [*levels_of(part.steps, roofs.rooms(times.busy.shape[2])), ()]
        for number, description in enumerate([*part.steps, *([_between(part)] if part.between >= 0 else [])]):
            at = len(stats)
            busy = tuple(mean["busy"][at].tolist())
            bound, share = nearest_roof(description, busy, roofs)
            active, computing = _computing(busy) if sum(busy) > 0 else (1, 0.0)
            stats.append(
                StepStats(
                    index=at,
                    stage=part.stage,
                    **{name: getattr(description, name) for name in _OF_THE_PLAN},
                    ms=float(ms[at]),
                    share=float(ms[at]) / latency,
                    kernels_ms=float(mean["kernels"][at]),
                    waits_ms=float(mean["waits"][at]),
                    driver_ms=float(mean["driver"][at]),
                    busy_ms=busy,
                    group=group,
                    low_ms=float(low[at]),
                    mad_ms=float(deviation[at]),
                    blocks_ms=tuple(float(block[at]) for block in blocks),
                    bytes=description.read_bytes + description.written_bytes,
                    estimate_ms=description.seconds * 1e3 if description.seconds else None,
                    bound=bound,
                    roof_share=share,
                    denormals=None if times.denormals is None else float(times.denormals[:, at].mean()),
                    metrics=step_metrics([description], [levels[number]], computing, active, roofs),
                    rivals=tuple(Rival(name, seconds * 1e3) for name, seconds in description.rivals),
                )
            )
            group += description.barrier
    return tuple(stats)


def _between(part: RecordedProgram) -> StepDescription:
    """Describe the nodes that run on the host behind a program."""
    nodes = part.description.between
    title = f"{nodes[0]} …" if len(nodes) > 1 else nodes[0] if nodes else ""
    return StepDescription("between", "", title, "on the host, before the next stage", "")
