"""Runs of a float model on calibration data that look at the values inside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from cenote.core.types import Array
from cenote.models.model import Model
from cenote.quantization.data import Run
from cenote.quantization.histogram import Histogram
from cenote.quantization.placement import BytePlacement
from cenote.quantization.ranges import RangeChoice, ValueRange
from cenote.quantization.scales import ByteLevels

Tell = Callable[[str, int, int], None]
"""Is told what is being done, how much of it is done, and how much there is."""


def histograms(model: Model, values: Sequence[str], runs: Sequence[Run], tell: Tell) -> dict[str, Histogram]:
    """Return a histogram of each of these values (inputs of the model among them) over all runs."""
    found = {name: Histogram() for name in values}
    for done, run in enumerate(runs):
        tell("calibrating", done, len(runs))
        for name, array in values_of(model, run, values).items():
            found[name].add(array)
    tell("calibrating", len(runs), len(runs))
    return found


def channel_means(model: Model, values: Mapping[str, int], runs: Sequence[Run]) -> dict[str, Array]:
    """Return the mean of each value over all runs, for each entry of the axis given with it, in float64."""
    sums: dict[str, Array] = {}
    counts = dict.fromkeys(values, 0)
    for run in runs:
        for name, array in values_of(model, run, list(values)).items():
            axis = values[name] % array.ndim
            others = tuple(each for each in range(array.ndim) if each != axis)
            sums[name] = sums.get(name, 0) + array.sum(axis=others, dtype=np.float64)
            counts[name] += array.size // max(array.shape[axis], 1)
    return {name: total / max(counts[name], 1) for name, total in sums.items()}


def values_of(model: Model, run: Run, names: Iterable[str]) -> dict[str, Array]:
    """Return values of one run by name; inputs are as they are given."""
    inside = [name for name in names if name not in run]
    found = {name: run[name] for name in names if name in run}
    return found | (model.run(run, outputs=inside) if inside else {})


def levels_of(
    placement: BytePlacement, seen: Mapping[str, Histogram], choice: RangeChoice, tell: Tell
) -> dict[str, ByteLevels]:
    """Return scale and zero point of each value of a placement: those that share a scale have the range of all."""
    found: dict[str, ByteLevels] = {}
    groups = list(placement.members().values())
    for done, members in enumerate(groups):
        tell("choosing ranges", done, len(groups))
        whole = ValueRange(0.0, 0.0)
        for name in members:
            whole = whole.joined(choice.of(seen[name]))
        found |= dict.fromkeys(members, ByteLevels.of(whole))
    tell("choosing ranges", len(groups), len(groups))
    return found
