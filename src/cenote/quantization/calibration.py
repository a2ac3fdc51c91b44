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


class ChannelMean:
    """Mean of the numbers seen so far for each channel (the second axis), in float64."""

    def __init__(self) -> None:
        self._sums, self._count = np.zeros(()), 0

    def add(self, numbers: Array) -> None:
        """Count the numbers of an array."""
        self._sums = self._sums + numbers.sum(axis=(0, *range(2, numbers.ndim)), dtype=np.float64)
        self._count += numbers.size // max(numbers.shape[1], 1)

    @property
    def mean(self) -> Array:
        """The mean; zeros where nothing was seen."""
        return np.asarray(self._sums / max(self._count, 1))


def calibrate(
    model: Model, values: Sequence[str], averaged: Iterable[str], runs: Sequence[Run], tell: Tell
) -> tuple[dict[str, Histogram], dict[str, Array]]:
    """Return a histogram of each of these values (inputs of the model among them) over all runs, and the means of those
    to be averaged, for each channel."""
    found = {name: Histogram() for name in values}
    means = {name: ChannelMean() for name in averaged}
    for done, run in enumerate(runs):
        tell("calibrating", done, len(runs))
        for name, array in values_of(model, run, values).items():
            found[name].add(array)
            # A value that is NaN or infinite stays in float, and needs no mean.
            if name in means and not found[name].infinite:
                means[name].add(array)
    tell("calibrating", len(runs), len(runs))
    return found, {name: each.mean for name, each in means.items()}


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
