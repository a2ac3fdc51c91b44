"""Lower bounds of the cycles of many plans at once, and whether their tiles fit.

Arrays lie either along four axes (planes, D, H, W), for all combinations, or have one element per plan. Computed from
the least numbers of a group of sizes, a bound holds for every plan of the group: all formulas grow with each of the
numbers.
"""

from __future__ import annotations

import numpy as np

from cenote.core.types import Array
from cenote.tiling.problem import Problem
from cenote.tiling.sizes import AxisNumbers, PlaneNumbers

Axes = tuple[AxisNumbers, AxisNumbers, AxisNumbers]


def fitting(problem: Problem, planes: PlaneNumbers, axes: Axes) -> Array:
    """Return whether each tile fits into the buffer."""
    deep, high, wide = axes
    copies = problem.policy.copies(problem.hardware)
    inputs = deep.span * high.span * wide.row
    outputs = deep.size * high.size
    taken = copies * (
        planes.planes * inputs + planes.weights + wide.parameters + planes.filters * (outputs * wide.out_row)
    )
    taken = taken + planes.filters * planes.sums * (outputs * wide.sum_row)
    fits: Array = taken + problem.policy.scratch <= problem.hardware.ub_bytes
    return fits


def least_cycles(problem: Problem, planes: PlaneNumbers, axes: Axes) -> Array:
    """Return cycles that no plan of these sizes beats.

    The busiest core takes at least as long as the mean of all cores. It also takes at least as long as full tiles
    alone: some core has its share of them, rounded up, and leaving out its other tiles only saves time.
    """
    deep, high, wide = axes
    hardware = problem.hardware
    tiles = deep.parts * high.parts * wide.parts
    tasks = planes.count * tiles
    cores = np.minimum(tasks, hardware.cores)
    moved = _moved(problem, planes, axes, tiles)
    speed = problem.layer.work / hardware.compute_per_cycle
    rows = problem.layer.planes * problem.layer.axes[0].out * problem.layer.axes[1].out
    computed = tasks * planes.passes * hardware.compute_startup_cycles + rows * speed * wide.vectors
    vectors = deep.size * high.size * wide.one_vectors
    compute = planes.passes * hardware.compute_startup_cycles + planes.filters * (vectors * speed)
    store = _store(planes, axes)
    loads = _load(planes, axes, "low"), _load(planes, axes, "dear")
    full = planes.full * (deep.full * high.full * wide.full)
    dearest = planes.full * (deep.dearest * high.dearest * wide.dearest)
    counts = _share(full, tasks, cores), np.ceil(dearest / cores)
    if problem.policy.copies(hardware) == 1:
        bound = (moved + computed) / cores
        for count, load in zip(counts, loads, strict=True):
            bound = np.maximum(bound, count * (load + compute + store))
    else:
        bound = np.maximum(moved, computed) / cores
        last = hardware.compute_startup_cycles + planes.filters * (vectors * speed) * planes.last
        for count, load in zip(counts, loads, strict=True):
            bound = np.maximum(bound, _chain(count, load, compute, store, planes.passes, last))
    result: Array = bound * (1 - 1e-9)
    return result


def _moved(problem: Problem, planes: PlaneNumbers, axes: Axes, tiles: Array) -> Array:
    """Return the cycles of all copies together."""
    deep, high, wide = axes
    layer = problem.layer
    depth, height = layer.axes[0].out, layer.axes[1].out
    loads = deep.read * high.read * wide.loads + wide.solid * (
        deep.read * high.loads + high.solid * deep.loads
    )
    stores = wide.stores * (depth * height) + wide.whole * (depth * high.stores + high.whole * deep.stores)
    cycles: Array = planes.read * loads + layer.planes * stores
    cycles = cycles + planes.solid_loads * (deep.solid * high.solid * wide.solid)
    cycles = cycles + planes.solid_stores * (deep.whole * high.whole * wide.whole)
    cycles += planes.weight_loads * tiles + planes.count * deep.parts * high.parts * wide.rows_loads
    return cycles


def _load(planes: PlaneNumbers, axes: Axes, which: str) -> Array:
    """Return the cycles of loading one full tile: inputs and weights of all channels. Where a tile may have all of an
    axis its runs may be longer and fewer: then the smaller of both counts."""
    deep, high, _ = (getattr(axis, which) for axis in axes)
    rows_load = axes[2].rows_load
    d_load, h_load, w_load = (getattr(axis, f"{which}_load") for axis in axes)
    d_open, h_open, w_open = (axis.open > 0 for axis in axes)
    rows, flat = deep * high * w_load, deep * h_load
    flat = np.where(h_open, flat, np.minimum(flat, d_load))
    cycles = planes.one * np.where(w_open, rows, np.minimum(rows, flat))
    cycles = np.where(d_open | h_open | w_open, cycles, np.minimum(cycles, planes.solid_load))
    result: Array = cycles + planes.weight_load + rows_load
    return result


def _store(planes: PlaneNumbers, axes: Axes) -> Array:
    """Return the cycles of storing one full tile."""
    deep, high, wide = axes
    runs = np.where(
        wide.whole == 0,
        deep.size * high.size * wide.store,
        np.where(high.whole == 0, deep.size * high.store, np.where(deep.whole == 0, deep.store, 0.0)),
    )
    cycles: Array = planes.filters * runs + planes.solid_store * (deep.whole * high.whole * wide.whole)
    return cycles


def _share(full: Array, tasks: Array, cores: Array) -> Array:
    """Return the full tiles that some core has at least.

    One core has its share of them, rounded up. And of the cores that have one task more than the others, at least one
    has no more than its share of the tiles that are not full; its other tasks are full tiles.
    """
    rounds = np.ceil(tasks / cores)
    busy = tasks - (rounds - 1) * cores
    share: Array = np.maximum(np.ceil(full / cores), rounds - np.floor((tasks - full) / busy))
    return share


def _chain(count: Array, load: Array, compute: Array, store: Array, passes: Array, last: Array) -> Array:
    """Return the cycles of so many equal tiles one after the other on a core with two buffers.

    For tiles in several steps the bound counts only that copies follow each other, with the computation of the `last`
    step before the last store; and that computations do, after the load of the first step, which is the longest.
    """
    steady = np.maximum(compute, load + store)
    ends = np.maximum(compute, load) + np.maximum(compute, store)
    equal = load + store + np.where(count > 1, ends + np.maximum(count - 2, 0) * steady, compute)
    if passes.max() == 1:
        return equal
    apart = np.maximum(count * (load + store) + last, count * compute + load / passes + store)
    cycles: Array = np.where(passes > 1, apart, equal)
    return cycles
