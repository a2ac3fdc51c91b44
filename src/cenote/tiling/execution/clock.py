"""Times at which a core loads, computes and stores: each resource is free from some cycle on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import NamedTuple

from cenote.core.deferred import dataclass


class Event(NamedTuple):
    """An action of a core from cycle `start` to `end`: "load", "compute" or "store"."""

    core: int
    kind: str
    task: int
    start: float
    end: float


@dataclass
class Clock:
    """One core with a DMA engine that serves its queue in order, a vector unit, and `copies` of each tile's space.

    A load waits until the step that last used its space is computed, a computation for its load and for the store that
    last used its output's space, a store for its computation.
    """

    core: int
    copies: int
    events: list[Event] = field(default_factory=list)
    _dma: float = 0.0
    _unit: float = 0.0
    _loaded: dict[int, float] = field(default_factory=dict)
    _computed: dict[int, float] = field(default_factory=dict)
    _stored: dict[int, float] = field(default_factory=dict)

    def load(self, step: int, task: int, cycles: float) -> None:
        ready = max(self._dma, self._computed.get(step - self.copies, 0.0))
        if self.copies == 1:
            ready = max(ready, self._unit)
        self._dma = self._loaded[step] = ready + cycles
        self._note("load", task, ready, self._dma)

    def compute(self, step: int, place: int, task: int, cycles: float) -> None:
        """Compute a step. `place` counts the core's tasks: their outputs take turns in the buffer."""
        ready = max(self._loaded[step], self._unit, self._stored.get(place - self.copies, 0.0))
        self._unit = self._computed[step] = ready + cycles
        self._note("compute", task, ready, self._unit)

    def store(self, step: int, place: int, task: int, cycles: float) -> None:
        ready = max(self._dma, self._computed[step])
        self._dma = self._stored[place] = ready + cycles
        self._note("store", task, ready, self._dma)

    @property
    def now(self) -> float:
        """The cycle at which everything so far is done."""
        return max(self._dma, self._unit)

    def _note(self, kind: str, task: int, start: float, end: float) -> None:
        self.events.append(Event(self.core, kind, task, start, end))


class Action(NamedTuple):
    """A core's next action: the kind, and the step it is for."""

    kind: str
    step: int


def order(steps: int, parts: int, copies: int) -> Sequence[Action]:
    """Return a core's actions in order. With two copies the next step is loaded before one is computed, and a task is
    stored while the next is computed; with one copy they follow one after the other. `parts` steps make one task, whose
    last step has a store."""
    actions = []
    for step in range(steps):
        if copies == 2 and step and step % parts == 0:
            actions.append(Action("store", step - 1))
        if copies == 1 or step == 0:
            actions.append(Action("load", step))
        if copies == 2 and step + 1 < steps:
            actions.append(Action("load", step + 1))
        actions.append(Action("compute", step))
        if copies == 1 and (step + 1) % parts == 0:
            actions.append(Action("store", step))
    if copies == 2 and steps:
        actions.append(Action("store", steps - 1))
    return actions
