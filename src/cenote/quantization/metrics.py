"""Metrics of a model's outputs, of which more is better, and the defaults that need no labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cenote.core.errors import ArgumentError, shown
from cenote.core.types import Array, is_float
from cenote.models.model import Model
from cenote.quantization.data import Run

Outputs = list[dict[str, Array]]
"""A model's outputs by name, of each run."""
Metric = Callable[[Mapping[str, Any]], float]
"""Takes the outputs by name, those of all runs joined along the first axis (a list where they cannot be joined);
returns a number, of which more is better."""


class Yardstick:
    """A metric with its name, and the float model's outputs that the defaults compare with.

    Without a metric: the share of examples whose largest score is the same as the float model's, where the only output
    is of rank 2 with more than one column; else one minus the relative error, |y - float| / |float| in rms over all
    outputs of floats.
    """

    def __init__(self, metric: Metric | None, floats: Outputs) -> None:
        self._metric, self._floats = metric, floats
        first = floats[0]
        scores = next(iter(first.values()))
        self.is_classifier = (
            len(first) == 1 and scores.ndim == 2 and scores.shape[1] > 1 and is_float(scores.dtype)
        )
        if metric is not None:
            self.name = "metric"
        else:
            self.name = (
                "top-1 agreement with float" if self.is_classifier else "1 - relative error against float"
            )

    def of(self, outputs: Outputs) -> float:
        """Return the metric of a model's outputs. Raises ArgumentError where a caller's metric gives no number."""
        if self._metric is None:
            return (
                agreement(self._floats, outputs) if self.is_classifier else 1 - error(self._floats, outputs)
            )
        given = self._metric(joined(outputs))
        try:
            value = float(given)
        except (TypeError, ValueError):
            value = np.nan
        if not np.isfinite(value):
            raise ArgumentError(f"metric: gave {shown(given)}, not a finite number")
        return value


def outputs_of(model: Model, runs: Sequence[Run]) -> Outputs:
    """Return a model's outputs of each run."""
    return [model.run(run) for run in runs]


def joined(outputs: Outputs) -> dict[str, Any]:
    """Return the outputs by name, joined along the first axis; a list of arrays where they cannot be."""
    found: dict[str, Any] = {}
    for name in outputs[0]:
        arrays = [each[name] for each in outputs]
        fit = all(isinstance(a, np.ndarray) and a.ndim and a.shape[1:] == arrays[0].shape[1:] for a in arrays)
        found[name] = np.concatenate(arrays) if fit else arrays
    return found


def agreement(floats: Outputs, outputs: Outputs) -> float:
    """Return the share of examples with the same class in both."""
    same = count = 0
    for one, other in zip(floats, outputs, strict=True):
        classes = [next(iter(each.values())).argmax(axis=1) for each in (one, other)]
        same, count = same + int((classes[0] == classes[1]).sum()), count + len(classes[0])
    return same / max(count, 1)


def error(floats: Outputs, outputs: Outputs) -> float:
    """Return the root of the squared difference's sum over that of the floats', the largest of the outputs."""
    worst = 0.0
    for name, first in floats[0].items():
        if not (isinstance(first, np.ndarray) and is_float(first.dtype)):
            continue
        signal = noise = 0.0
        for one, other in zip(floats, outputs, strict=True):
            if one[name].shape != other[name].shape:
                return 1.0  # what was found differs in number
            finite = np.isfinite(one[name])
            wide = one[name][finite].astype(np.float64)
            signal += float(np.square(wide).sum())
            noise += float(np.square(wide - other[name][finite]).sum())
        worst = max(worst, float(np.sqrt(noise / signal)) if signal else float(noise > 0))
    return worst
