"""Causes around the model: the machine, the program between calls, the inputs, the cache of kernels."""

from __future__ import annotations

import numpy as np

from cenote.codegen import cache
from cenote.core import settings
from cenote.core.text import digits
from cenote.diagnosis.context import Context, certain
from cenote.profile.fields import Finding, Treatment

# Cores that must be missing.
FEW_CORES = 0.25
# Part of the latency that a copy of the inputs must take.
COPIED = 0.05
# Part of the latency that the program's work between calls must cost.
BETWEEN = 0.1


def foreign(context: Context) -> Finding | None:
    """Compare the cores that other processes keep busy, and that the hypervisor takes, with those that are left."""
    environment = context.profile.environment
    taken = (environment.foreign_cores or 0.0) + (environment.steal_cores or 0.0)
    short = context.short_of_cores()
    if taken < FEW_CORES or short <= FEW_CORES / 2:
        return None
    share = min(0.9, short / environment.cpus)
    wall = context.profile.wall_ms
    return context.finding(
        (),
        f"other processes keep {environment.foreign_cores or 0:.1f} cores busy"
        + (f", the hypervisor takes {environment.steal_cores:.1f}" if environment.steal_cores else "")
        + f"; {context.profile.threads} thread(s) of {environment.cpus} CPUs are wanted here",
        0.9,
        "measure again on a quiet machine, or give the process cores of its own",
        (0.2 * share * wall, 0.6 * share * wall, share * wall),
        share=share,
    )


def throttled(context: Context) -> Finding | None:
    """Look for periods in which the control group was stopped, because its quota of processor time was used up."""
    environment, profile = context.profile.environment, context.profile
    if not environment.throttled_periods or not environment.throttled_ms:
        return None
    # Number of CPUs whose stopped times are added up.
    running = max(1, min(profile.threads, environment.cpus))
    share = min(0.95, environment.throttled_ms / running / (environment.seconds * 1e3))
    if share < 0.05:
        return None
    fewer = Treatment(threads=max(1, int(environment.quota_cores or 1)))
    lost = share * profile.wall_ms
    return context.finding(
        (),
        f"the group was stopped {environment.throttled_periods} times, {environment.throttled_ms / running:.0f} ms of "
        f"{environment.seconds * 1e3:.0f}; its quota is {environment.quota_cores or 0:.2g} cores",
        0.95,
        f"a larger quota, or {fewer}",
        (0.2 * lost, 0.7 * lost, lost),
        fewer,
        share=share,
    )


def cold(context: Context) -> Finding | None:
    """Compare a call right after another with one after the program's work in between, which fills the caches with
    other data."""
    tried = certain(context.gain_hot(), BETWEEN)
    if tried is None or context.rests_between():
        return None
    return context.finding(
        (),
        f"a call that follows another takes {digits(tried.after_ms)} ms, not {digits(tried.before_ms)}: "
        "weights and maps have left the caches in between",
        0.85,
        "none: calls in a row, or less memory swept in between",
        tried.gain_ms,
        share=tried.part,
    )


def woken(context: Context) -> Finding | None:
    """Compare a call after a pause, in which threads fall asleep, and cores get a lower clock and cold caches, with
    one right after another call."""
    tried = certain(context.gain_hot(), BETWEEN)
    if tried is None or not context.rests_between():
        return None
    fewer = f"; {Treatment(threads=1)} where latency after pauses matters and the model is small"
    return context.finding(
        (),
        f"the first call after a pause takes {digits(tried.before_ms)} ms, the next {digits(tried.after_ms)}: "
        "threads have to be woken, and cores come back to their clock and caches",
        0.7,
        "calls in a row" + fewer * (context.profile.threads > 1),
        tried.gain_ms,
        share=tried.part,
    )


def input(context: Context) -> Finding | None:
    """Look for inputs whose elements are not in order, which must be copied before the program can read them, and try
    the same call with ordered copies."""
    odd = [
        name
        for name, array in context.inputs.items()
        if isinstance(array, np.ndarray) and not (array.flags.c_contiguous and array.dtype.isnative)
    ]
    if not odd:
        return None
    ordered = {
        name: np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="))) if name in odd else array
        for name, array in context.inputs.items()
    }
    if (tried := certain(context.gain_with(ordered), COPIED)) is None:
        return None
    return context.finding(
        (),
        f"{', '.join(odd)}: strides {context.inputs[odd[0]].strides}, copied in order before each call",
        0.95,
        "np.ascontiguousarray where the input is made, or make it in order",
        tried.gain_ms,
        share=tried.part,
    )


def start(context: Context) -> Finding | None:
    """Check whether there is a cache. Without one every process compiles anew: a call's latency does not suffer, but
    each start does."""
    problem = "the cache is off" if settings.cache_folder() is None else cache.problem()
    if not problem:
        return None
    return context.finding(
        (),
        f"{problem}: each process compiles this model's kernels anew",
        0.95,
        "a cache that can be written (CENOTE_CACHE), or a plan file (`model.save`)",
    )
