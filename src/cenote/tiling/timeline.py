"""Actions of a plan's cores over time, computed from its cost alone: the content of pictures, without an
execution."""

from __future__ import annotations

import numpy as np

from cenote.tiling.cost import MOST_TASKS, steps_of
from cenote.tiling.execution.clock import Clock, Event, order
from cenote.tiling.problem import TilingPlan


def timeline(plan: TilingPlan, cores: int = 8, tasks: int = 12) -> list[Event]:
    """Return the events of the first cores, the first tasks of each."""
    parts = plan.layer.channel_parts(plan.tile.channels)
    blocks = plan.layer.block_sizes(np.array([plan.tile.nc]), plan.policy.batch == "apart")
    if plan.tasks * parts > MOST_TASKS:
        blocks = blocks[:, :1]
    load, compute, store = (array[0] for array in steps_of(plan.layer, plan.hardware, [plan.tile], blocks))
    every = min(plan.hardware.cores, plan.tasks)
    copies = plan.policy.copies(plan.hardware)
    events: list[Event] = []
    for core in range(min(cores, every, len(load))):
        mine = list(range(core, len(load), every))[:tasks]
        clock = Clock(core, copies)
        for kind, step in order(len(mine) * parts, parts, copies):
            task, place, part = mine[step // parts], step // parts, step % parts
            if kind == "load":
                clock.load(step, task, float(load[task, part]))
            elif kind == "compute":
                clock.compute(step, place, task, float(compute[task, part]))
            else:
                clock.store(step, place, task, float(store[task, part]))
        events += clock.events
    return events
