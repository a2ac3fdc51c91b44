"""Doing what the findings advise: each option beside the model as it is, in turns; what helps beyond doubt stays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cenote.core.errors import ArgumentError, CenoteError, shown
from cenote.core.types import Array
from cenote.diagnosis.cause import Treatment, options_of
from cenote.diagnosis.context import Changed, paired
from cenote.diagnosis.diagnose import Diagnosis
from cenote.profile.measure import by_name

_LOSSY = {"weights", "precision", "denormals"}  # options that change results
_ROUNDING = 1e-4  # between two algorithms in float32, relative to an output's largest value


def treat(
    diagnosis: Diagnosis, model: Any, inputs: Any, changed: Changed, tolerance: float = 0.0
) -> tuple[Diagnosis, Any]:
    """Try what the findings advise, one after another, each beside what is kept so far; keep what helps beyond doubt.

    What changes results is tried only if `tolerance` (largest difference / largest value of an output) is not 0, and
    kept only within it. Returns the diagnosis with what was measured, and the model that is fastest.
    """
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 0 <= tolerance < math.inf:
        raise ArgumentError(f"tolerance: {shown(tolerance)} is no number from 0 on")
    arrays = by_name(model, inputs)
    best, kept = model, dict[str, Any]()
    expected = model.run(arrays)
    findings, tried = list(diagnosis.findings), []
    for place, finding in enumerate(findings):
        options = options_of(finding)
        if not options or (not tolerance and _LOSSY & set(options)):
            continue
        try:
            other = changed(**_joined(kept, options))
            answer = other.run(arrays)
        except CenoteError as error:
            tried.append(Treatment(options, (0.0, 0.0, 0.0), 0.0, False, str(error)))
            continue
        difference = largest_difference(expected, answer)
        before, after = best, other
        measured = paired(lambda: before.run(arrays), lambda: after.run(arrays))  # noqa: B023  (called now)
        allowed = tolerance or _ROUNDING
        keep = measured.certain and difference <= allowed
        why = "helps" if keep else "not faster" if difference <= allowed else f"differs by {difference:.1e}"
        tried.append(Treatment(options, measured.gain_ms, difference, keep, why))
        findings[place] = replace(finding, measured_gain_ms=measured.middle)
        if keep:
            best, kept = other, _joined(kept, options)
    if kept and not paired(lambda: model.run(arrays), lambda: best.run(arrays)).certain:
        best = model  # what helped one by one does not help together
        tried = [replace(each, kept=False, why="does not help together with the others") for each in tried]
    return Diagnosis(replace(diagnosis.profile, findings=tuple(findings)), tuple(tried)), best


def _joined(kept: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Both together."""
    pins = {**kept.get("pins", {}), **options.get("pins", {})}
    return {**kept, **options, **({"pins": pins} if pins else {})}


def largest_difference(expected: Mapping[str, Array], found: Mapping[str, Array]) -> float:
    """Over all outputs: the largest difference / the largest value; infinity where one of them is no number."""
    worst = 0.0
    for name, array in expected.items():
        if array.dtype.kind not in "fV":
            worst = max(worst, 0.0 if np.array_equal(array, found[name]) else np.inf)
            continue
        first, second = array.astype(np.float64), found[name].astype(np.float64)
        scale = float(np.max(np.abs(first), initial=0.0)) or 1.0
        gap = float(np.max(np.abs(first - second), initial=0.0)) / scale
        worst = max(worst, gap if np.isfinite(gap) else np.inf)
    return worst
