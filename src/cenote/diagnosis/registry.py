"""All causes: a line for each file in `causes/`."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.causes.compute import algorithm, denormals, dilation, dtype, fma, lanes, mischoice
from cenote.diagnosis.causes.memory import cache, faults, maps, reorder, unfused, weights
from cenote.diagnosis.causes.schedule import (
    barrier,
    contention,
    host,
    imbalance,
    oversubscribed,
    pinned,
    serial,
)
from cenote.diagnosis.causes.surroundings import cold, foreign, input, start, throttled, woken

CAUSES: tuple[Cause, ...] = (
    fma.CAUSE,
    algorithm.CAUSE,
    mischoice.CAUSE,
    dilation.CAUSE,
    weights.CAUSE,
    maps.CAUSE,
    cache.CAUSE,
    lanes.CAUSE,
    host.CAUSE,
    dtype.CAUSE,
    reorder.CAUSE,
    unfused.CAUSE,
    imbalance.CAUSE,
    serial.CAUSE,
    barrier.CAUSE,
    oversubscribed.CAUSE,
    pinned.CAUSE,
    foreign.CAUSE,
    throttled.CAUSE,
    contention.CAUSE,
    faults.CAUSE,
    cold.CAUSE,
    denormals.CAUSE,
    input.CAUSE,
    start.CAUSE,
    woken.CAUSE,
)
