"""The cost model chose an algorithm that is slower here than a rival."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause, Sample
from cenote.diagnosis.context import Context
from cenote.diagnosis.samples import convolution
from cenote.profile.data import Finding, StepStats

WORSE = 1.15  # times what the model's other steps say of the cost model
TRIED, TRIED_DEEP = 2, 8  # rivals that are tried


def look(context: Context) -> Finding | None:
    """Steps that take longer than estimated, as other steps do not, or whose rivals come close: their rivals are tried,
    one step at a time."""
    steps = [step for step in context.heavy(_has_rivals) if step.share >= 0.02]
    steps.sort(key=lambda step: -step.share * _ratio(step))
    tries = 0
    for step in steps:
        for rival in step.rivals[:2]:
            if tries >= (TRIED_DEEP if context.deep else TRIED) or rival.ms > WORSE * 2 * (
                step.estimate_ms or 0
            ):
                break
            tries += 1
            tried = context.gain_of(pins={step.node: rival.algorithm})
            if tried is not None and tried.certain and tried.middle > 0.03 * context.profile.wall_ms:
                return Finding(
                    "mischoice", (step.index,), step.share,
                    f"{step.algorithm}: {step.estimate_ms:.3g} ms estimated, {sum(step.busy_ms):.3g} taken; "
                    f"with {rival.algorithm} the model is faster",
                    0.9, f'`pin={step.node} to {rival.algorithm}`, or load with `tune="full"` once', tried.gain_ms,
                )  # fmt: skip
    return None


def _has_rivals(step: StepStats) -> bool:
    return bool(step.rivals) and bool(step.estimate_ms) and step.kind == "kernel"


def _ratio(step: StepStats) -> float:
    return sum(step.busy_ms) / (step.estimate_ms or 1)


def planted() -> Sample:
    model, inputs = convolution(64, 64, 56, count=3)
    return Sample(model, inputs, {"threads": 1, "pins": {f"y{index}": "winograd_f2" for index in range(3)}})


def healthy() -> Sample:
    model, inputs = convolution(64, 64, 56, count=3)
    return Sample(model, inputs)


CAUSE = Cause("mischoice", look, planted, healthy)
