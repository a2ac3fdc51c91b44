"""Trials of what the findings advise: each treatment runs in turns with the model as it is; clear improvements are
kept."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cenote.core.errors import ArgumentError, CenoteError, shown
from cenote.core.types import Array
from cenote.diagnosis.context import paired
from cenote.diagnosis.diagnose import Diagnosis
from cenote.diagnosis.tried import Tried
from cenote.profile.fields import Finding, Treatment
from cenote.profile.measure import by_name
from cenote.stages.runnable import RunnableModel

# Difference between two algorithms in float32, relative to an output's largest value.
_ROUNDING = 1e-4


def treat(
    diagnosis: Diagnosis, model: RunnableModel, inputs: Any, tolerance: float = 0.0
) -> tuple[Diagnosis, Any]:
    """Try the findings' advice, one treatment after another, each beside those kept so far; keep clear improvements.

    Treatments that change results are tried only if `tolerance` (largest difference / largest value of an output) is
    not 0, and kept only within it. Returns the diagnosis with the measured gains, and the fastest model.
    """
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 0 <= tolerance < math.inf:
        raise ArgumentError(f"tolerance: {shown(tolerance)} is no number from 0 on")
    trials = _Trials(model, by_name(model, inputs), tolerance)
    findings = tuple(trials.treated(finding) for finding in diagnosis.findings)
    best, tried = trials.result()
    return Diagnosis(replace(diagnosis.profile, findings=findings), tried), best


class _Trials:
    """The trials of one model. `best` is the model with all that has helped."""

    def __init__(self, model: RunnableModel, inputs: Mapping[str, Array], tolerance: float) -> None:
        self.model, self.inputs, self.tolerance = model, inputs, tolerance
        self.expected = model.run(inputs)
        self.best = model
        self.tried: list[Tried] = []

    def treated(self, finding: Finding) -> Finding:
        """Return the finding with the gain of the treatment that is kept, or of the last one that was measured."""
        measured = None
        for treatment in finding.treatments:
            if any(each.treatment == treatment for each in self.tried):
                # Another cause had the same advice.
                continue
            tried = self._try(treatment)
            self.tried.append(tried)
            measured = measured if tried.gain_ms is None else tried.gain_ms[1]
            if tried.kept:
                break
        return replace(finding, measured_gain_ms=measured)

    def _try(self, treatment: Treatment) -> Tried:
        """Try one treatment beside those kept so far."""
        if treatment.changes_results and not self.tolerance:
            return Tried(treatment, why="changes results, and needs a tolerance")
        try:
            other = self.best.changed(**treatment)
            difference = largest_difference(self.expected, other.run(self.inputs))
        except CenoteError as error:
            return Tried(treatment, why=str(error))
        allowed = self.tolerance or _ROUNDING
        if difference > allowed:
            return Tried(treatment, None, difference, False, f"differs by {difference:.1e}")
        measured = paired(lambda: self.best.run(self.inputs), lambda: other.run(self.inputs))
        if measured.certain:
            self.best = other
        why = "helps" if measured.certain else "not faster beyond doubt"
        gain = measured.low, measured.middle, measured.high
        return Tried(treatment, gain, difference, measured.certain, why)

    def result(self) -> tuple[Any, tuple[Tried, ...]]:
        """Return the fastest model, and what was tried. The model and the best one are loaded anew and measured once
        more: treatments that helped one by one need not help together, one trial in a hundred succeeds by chance, and
        so may a load, since its memory lies elsewhere each time."""
        if self.best is self.model:
            return self.model, tuple(self.tried)
        before, after = self.model.changed(), self.best.changed()
        if paired(lambda: before.run(self.inputs), lambda: after.run(self.inputs)).certain:
            return after, tuple(self.tried)
        why = "does not help when all that was kept is loaded and measured again"
        return self.model, tuple(
            replace(each, kept=False, why=why) if each.kept else each for each in self.tried
        )


def largest_difference(expected: Mapping[str, Any], found: Mapping[str, Any]) -> float:
    """Return the largest difference / the largest value, over all outputs; infinity where one of them is not
    finite."""
    return max((_difference(value, found[name]) for name, value in expected.items()), default=0.0)


def _difference(expected: Any, found: Any) -> float:
    """Return the difference of one output: an array, or a sequence of them."""
    if isinstance(expected, list | tuple):
        same = isinstance(found, list | tuple) and len(expected) == len(found)
        return max(map(_difference, expected, found), default=0.0) if same else math.inf
    if not isinstance(expected, np.ndarray):
        return 0.0 if expected is None and found is None else math.inf
    if expected.dtype.kind not in "fV":
        return 0.0 if np.array_equal(expected, found) else math.inf
    if expected.shape != found.shape:
        return math.inf
    first, second = expected.astype(np.float64), found.astype(np.float64)
    scale = float(np.max(np.abs(first), initial=0.0)) or 1.0
    gap = float(np.max(np.abs(first - second), initial=0.0)) / scale
    return gap if math.isfinite(gap) else math.inf
