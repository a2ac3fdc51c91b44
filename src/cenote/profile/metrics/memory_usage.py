"""Memory that a model's call needs: arrays, weights, intermediate values over time, and what the caches have of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from cenote.codegen.jit import host_target
from cenote.compiler.report import PlanDescription
from cenote.core.deferred import dataclass
from cenote.core.text import Report, aligned, digits, ending
from cenote.core.types import Declared, TensorType
from cenote.profile.metrics.step_metrics import MEMORY, LevelBytes, levels_of, sorted_by_level
from cenote.profile.plain import from_plain, to_plain
from cenote.profile.style import document

SCHEMA = "cenote.memory/1"
_TOP = 20  # steps that are shown
_NODE = 40  # letters
_WIDTH, _HEIGHT = 900, 220  # of the picture


@dataclass(frozen=True)
class StepMemory:
    """Intermediate values around a step, in bytes: `alive` while it runs, of which it adds `added` and is the last to
    need `freed`. `index` counts the steps of all stages."""

    index: int
    node: str
    algorithm: str
    alive: int
    added: int
    freed: int


@dataclass(frozen=True, repr=False)
class MemoryUsage(Report):
    """Memory that a call of a model needs, in bytes. Printed, it is a table; `html()` draws it over time.

    inputs, outputs   the caller's arrays, by name
    stored_weights    constants of the model's file; None where the file is not at hand (a plan)
    packed_weights    constants in the kernels' form
    arena             the block that holds all intermediate values; blocks of stages are added
    peak              the most of them alive at once, in the step `peak_step`; no plan needs less
    unshared          what they would take if each had memory of its own
    scratch           each thread's own memory
    threads           threads
    steps             what each step adds and frees
    levels            bytes that a call moves, by the cache or the memory that delivers them (a model of reuse)
    """

    model: str
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]
    stored_weights: int | None
    packed_weights: int
    arena: int
    peak: int
    peak_step: int
    unshared: int
    scratch: int
    threads: int
    steps: tuple[StepMemory, ...]
    levels: tuple[LevelBytes, ...]

    @property
    def total(self) -> int:
        """All memory of a call: arrays, packed weights, arena, the threads' scratch."""
        arrays = sum(nbytes for _, nbytes in (*self.inputs, *self.outputs))
        return arrays + self.packed_weights + self.arena + self.scratch * self.threads

    @property
    def cache_ratio(self) -> float:
        """The part of the bytes that a call moves which caches deliver or take, not the memory; 1 where it moves
        none."""
        moved = sum(each.nbytes for each in self.levels)
        return 1 - sum(each.nbytes for each in self.levels if each.level == MEMORY) / moved if moved else 1.0

    def __str__(self) -> str:
        return "\n".join([*self._lines(), "", *self._steps()])

    def _lines(self) -> Iterator[str]:
        yield f"memory of a call of {self.model}, {self.threads} thread(s)"
        for what, arrays in (("inputs", self.inputs), ("outputs", self.outputs)):
            named = ", ".join(f"{name} {_size(nbytes)}" for name, nbytes in arrays)
            yield f"  {what:<14} {_size(sum(nbytes for _, nbytes in arrays)):>9}  {named}"
        stored = "" if self.stored_weights is None else f"in the file {_size(self.stored_weights)}"
        yield f"  {'weights':<14} {_size(self.packed_weights):>9}  {stored}"
        saved = f"each in memory of its own {_size(self.unshared)}; at most {_size(self.peak)} alive at once"
        where = f", in step {self.peak_step}" if self.steps else ""
        yield f"  {'intermediates':<14} {_size(self.arena):>9}  {saved}{where}"
        yield f"  {'scratch':<14} {_size(self.scratch * self.threads):>9}  {_size(self.scratch)} on each thread"
        yield f"  {'in all':<14} {_size(self.total):>9}"
        moved = sum(each.nbytes for each in self.levels)
        parts = ", ".join(f"{each.level} {each.nbytes / moved:.0%}" for each in self.levels)
        if moved:
            yield f"  caches have {self.cache_ratio:.0%} of the {_size(moved)} that a call moves: {parts} (estimated)"

    def _steps(self) -> Iterator[str]:
        shown = sorted(self.steps, key=lambda step: (-step.alive, step.index))[:_TOP]
        rows = [
            (
                str(each.index),
                ending(each.node, _NODE),
                each.algorithm,
                *map(_size, (each.alive, each.added, each.freed)),
            )
            for each in shown
        ]
        yield from aligned([("step", "node", "algorithm", "alive", "adds", "frees"), *rows], (1, 2))
        if len(self.steps) > len(shown):
            yield f"and {len(self.steps) - len(shown)} more steps"

    def html(self) -> str:
        """Return a page without external files: the table, and the intermediate values over the steps."""
        title = f"Memory of {self.model}"
        table = f'<div class="scroll" tabindex="0"><pre>{escape(str(self))}</pre></div>'
        body = f"{table}<h2>Over time</h2>{self._picture()}"
        return document(title, body)

    def _picture(self) -> str:
        most, count = max((each.alive for each in self.steps), default=0), len(self.steps)
        if not most:
            return "<p>There are no intermediate values.</p>"
        wide = _WIDTH / count
        bars = "".join(
            f'<rect x="{number * wide:.2f}" y="{_HEIGHT * (1 - each.alive / most):.1f}" width="{max(wide, 0.3):.2f}" '
            f'height="{_HEIGHT * each.alive / most:.1f}" fill="{_PEAK if each.index == self.peak_step else _ALIVE}">'
            f"<title>step {each.index}, {escape(each.node)}: {_size(each.alive)} alive</title></rect>"
            for number, each in enumerate(self.steps)
        )
        said = (
            f"{count} steps from left to right; the highest, step {self.peak_step}, has {_size(most)} alive"
        )
        svg = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="100%" role="img" aria-label="{escape(said)}">{bars}</svg>'
        return f'<p class="faint">{escape(said)}</p><div class="scroll" tabindex="0">{svg}</div>'

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON: {"schema": "cenote.memory/1", ...} with the fields' names."""
        return {"schema": SCHEMA, **to_plain(self)}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> MemoryUsage:
        """Return the usage of `to_dict`'s data, also after a trip through JSON. Raises ArgumentError for other data."""
        return from_plain(MemoryUsage, data, SCHEMA)


_ALIVE, _PEAK = "#3d85c6", "#d1495b"


def memory_usage(
    model: str,
    inputs: Sequence[Declared],
    outputs: Sequence[Declared],
    plans: Sequence[PlanDescription],
    stored_weights: int | None,
) -> MemoryUsage:
    """Return what a call needs by the plans of its stages; arrays of unknown shape count 0."""
    threads = max((plan.threads for plan in plans), default=1)
    rooms = _caches(threads)
    steps = [each for number, plan in enumerate(plans) for each in _steps(plan, _first(plans, number))]
    peak = max(steps, key=lambda step: step.alive, default=None)
    parts = [
        (part.level, part.nbytes)
        for plan in plans
        for found in levels_of(plan.steps, rooms)
        for part in found
    ]
    return MemoryUsage(
        model=model,
        inputs=tuple((each.name, _nbytes(each)) for each in inputs),
        outputs=tuple((each.name, _nbytes(each)) for each in outputs),
        stored_weights=stored_weights,
        packed_weights=sum(plan.memory.constants for plan in plans),
        arena=sum(plan.memory.arena for plan in plans),
        peak=max((plan.memory.peak for plan in plans), default=0),
        peak_step=peak.index if peak else 0,
        unshared=sum(block.nbytes for plan in plans for block in plan.memory.blocks),
        scratch=max((plan.memory.scratch for plan in plans), default=0),
        threads=threads,
        steps=tuple(steps),
        levels=sorted_by_level(parts, rooms),
    )


def _caches(threads: int) -> list[tuple[str, int]]:
    """Return the caches of this machine and what they hold of so many threads."""
    target = host_target()
    return [("L1", target.l1_bytes * threads), ("L2", target.l2_bytes * threads), ("L3", target.l3_bytes)]


def _first(plans: Sequence[PlanDescription], number: int) -> int:
    """Return the index of a stage's first step."""
    return sum(len(plan.steps) for plan in plans[:number])


def _steps(plan: PlanDescription, first: int) -> Iterator[StepMemory]:
    blocks = plan.memory.blocks
    for number, step in enumerate(plan.steps):
        yield StepMemory(
            first + number,
            step.node or step.algorithm,
            step.algorithm,
            alive=sum(each.nbytes for each in blocks if each.first <= number <= each.last),
            added=sum(each.nbytes for each in blocks if each.first == number),
            freed=sum(each.nbytes for each in blocks if each.last == number),
        )


def _nbytes(declared: Declared) -> int:
    fixed = tuple(extent for extent in declared.shape or () if isinstance(extent, int))
    is_known = declared.shape is not None and len(fixed) == len(declared.shape)
    return TensorType(declared.dtype, fixed).nbytes if is_known else 0


def _size(nbytes: int) -> str:
    return f"{digits(nbytes / 1e6)} MB" if nbytes >= 1e5 else f"{nbytes:,} B"
