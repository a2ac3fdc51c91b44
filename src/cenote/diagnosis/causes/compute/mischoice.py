"""The cause "mischoice": the cost model chose an algorithm that is slower here than a rival."""

from __future__ import annotations

from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context
from cenote.profile.data import Finding, Pin, StepStats, Treatment

# Times the choice's estimate: rivals up to this are tried.
CLOSE = 2.3
# Number of rivals that are tried, of all steps.
TRIED, TRIED_DEEP = 2, 8
# Part of the latency.
LEAST = 0.03


def look(context: Context) -> Finding | None:
    """Try rivals for which the cost model estimates more time, one step at a time, first of steps that take longer
    than estimated. Rivals for which it estimates less are the cause "algorithm"."""
    steps = [step for step in context.heavy(_chosen) if step.share >= LEAST]
    steps.sort(key=lambda step: -step.share * sum(step.busy_ms) / _own(step))
    trials = [
        (step, each.algorithm) for step in steps for each in step.rivals if each.ms < CLOSE * _own(step)
    ]
    findings: list[Finding] = []
    for step, rival in trials[: TRIED_DEEP if context.deep else TRIED]:
        tried = context.gain_of(pins={step.node: rival})
        if tried is not None and tried.certain and tried.middle > LEAST * tried.before_ms:
            other = Treatment(pins=(Pin(step.node, rival),))
            words = f"{step.title}, {step.algorithm}: {_own(step):.3g} ms estimated, {sum(step.busy_ms):.3g} taken; "
            words += f"with {rival} the model is faster"
            advice = f'{other}, or load with tune="full" once', tried.gain_ms, None, (other,)
            findings.append(Finding("mischoice", (step.index,), step.share, words, 0.9, *advice))
    return max(findings, key=lambda each: each.gain_ms or (0, 0, 0), default=None)


def _own(step: StepStats) -> float:
    return step.estimate_ms or 0.0


def _chosen(step: StepStats) -> bool:
    """Return whether there were rivals, and the cost model found none much faster."""
    return bool(step.rivals) and min(rival.ms for rival in step.rivals) > 0.9 * _own(step) > 0


CAUSE = Cause("mischoice", look)
