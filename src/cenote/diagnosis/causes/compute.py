"""Causes in the computing of steps: algorithms, types, lanes, and the numbers that kernels meet."""

from __future__ import annotations

import re

from cenote.core.text import digits
from cenote.diagnosis.context import Context, certain, refused_for_type
from cenote.diagnosis.gains import at_best, gain
from cenote.profile.fields import Finding, StepStats, Treatment

# Part of the roof: a step further away is bound by something else.
NEAR = 0.5
# Part of a step's estimate that a rival's must not exceed.
BETTER = 0.9
# Times a step's estimate: rivals up to this are tried.
CLOSE = 2.3
# Number of rivals that are tried, of all steps.
TRIED, TRIED_DEEP = 2, 8
# Part of the latency that another choice must gain.
WORTH_NAMING = 0.03
# Any dilation other than 1.
DILATED = re.compile(r"dilations=\([\d,]*([2-9]|\d\d)")
# Part of the time, about, where no trial is possible: Winograd F(4x4, 3x3) on the sub-maps, and their rearrangement.
FEWER = 0.5
# Executed operations, relative to the operator's.
MUCH = 1.5
SLOW_TYPES = ("float64", "int32", "int64", "uint64")
# Part of the latency that denormals must cost.
SLOWED = 0.05


def fma(context: Context) -> Finding | None:
    """Look for convolutions at the roof of multiply-adds. Only Winograd's algorithm and Strassen's need fewer of
    them than the plain sum, and `precision="exact"` forbids these."""
    steps = context.heavy(
        lambda step: step.bound == "fma" and at_best(step) >= NEAR and step.op.startswith("conv")
    )
    if not steps or context.profile.precision != "exact":
        return None
    if (tried := certain(context.gain_of(precision="fast"))) is None:
        return None
    fast, least = Treatment(precision="fast"), min(at_best(step) for step in steps)
    return context.finding(
        steps,
        f"convolutions compute at {least:.0%} and more of the multiply-add roof, by plain sums",
        0.95,
        f"{fast} (rounding error two to three times that of a plain sum)",
        tried.gain_ms,
        fast,
    )


def algorithm(context: Context) -> Finding | None:
    """Look for steps whose algorithm is named by the caller although the cost model itself estimates less time for a
    rival, and a trial agrees."""
    steps = context.heavy(
        lambda step: (
            step.estimate_ms is not None
            and any(rival.ms < BETTER * step.estimate_ms for rival in step.rivals)
        )
    )
    named = {step.node: min(step.rivals, key=lambda rival: rival.ms).algorithm for step in steps}
    if not named or (tried := certain(context.gain_of(algorithms=named))) is None:
        return None
    first = steps[0]
    least, own = (digits(ms) for ms in (min(rival.ms for rival in first.rivals), first.estimate_ms or 0.0))
    treatment = Treatment(algorithms=named)
    return context.finding(
        steps,
        f"{first.title} is computed by {first.algorithm}; {named[first.node]} is estimated at "
        f"{least} ms against {own}, and a trial agrees",
        0.95,
        str(treatment),
        tried.gain_ms,
        treatment,
    )


def mischoice(context: Context) -> Finding | None:
    """Try rivals for which the cost model estimates more time, one step at a time, first of steps that take longer
    than estimated: it may have chosen an algorithm that is slower here. Rivals for which it estimates less are the
    cause "algorithm"."""
    steps = [step for step in context.heavy(_chosen) if step.share >= WORTH_NAMING]
    steps.sort(key=lambda step: -step.share * sum(step.busy_ms) / _own(step))
    trials = [
        (step, each.algorithm) for step in steps for each in step.rivals if each.ms < CLOSE * _own(step)
    ]
    findings: list[Finding] = []
    for step, rival in trials[: TRIED_DEEP if context.deep else TRIED]:
        if (tried := certain(context.gain_of(algorithms={step.node: rival}), WORTH_NAMING)) is not None:
            other = Treatment(algorithms={step.node: rival})
            times = f"{digits(_own(step))} ms estimated, {digits(sum(step.busy_ms))} taken"
            words = f"{step.title}, {step.algorithm}: {times}; with {rival} the model is faster"
            advice = f'{other}, or load with tune="full" once'
            findings.append(context.finding([step], words, 0.9, advice, tried.gain_ms, other))
    return max(findings, key=lambda each: each.gain_ms or (0, 0, 0), default=None)


def _own(step: StepStats) -> float:
    return step.estimate_ms or 0.0


def _chosen(step: StepStats) -> bool:
    """Return whether there were rivals, and the cost model found none much faster."""
    return bool(step.rivals) and min(rival.ms for rival in step.rivals) > 0.9 * _own(step) > 0


def dilation(context: Context) -> Finding | None:
    """Look for dilated 3x3 convolutions, which Winograd's algorithm does not compute. On every d-th row and column
    such a convolution is a plain one. A trial measures the gain; where it gains nothing, dilation is no loss."""
    rewrite = Treatment(rewrites=("space_to_batch",))
    steps = context.heavy(
        lambda step: (
            step.op.startswith("conv") and bool(DILATED.search(step.op)) and "winograd" not in step.algorithm
        )
    )
    if not steps:
        return None
    tried = context.gain_of(**rewrite)
    if tried is not None and not tried.certain:
        return None
    estimate = gain(context.profile, {step.index: FEWER for step in steps}, doubt=0.6)
    return context.finding(
        steps,
        f"{steps[0].title} is dilated and computed by {steps[0].algorithm}: "
        f"{steps[0].executed_operations / max(steps[0].operations, 1):.2f} of the plain operations",
        0.6 if tried is None else 0.95,
        str(rewrite),
        estimate if tried is None else tried.gain_ms,
        rewrite,
    )


def lanes(context: Context) -> Finding | None:
    """Look for steps whose channels do not fill vectors, so that lanes of padding are computed too."""
    steps = context.heavy(
        lambda step: (
            step.operations > 0 and step.executed_operations > MUCH * step.operations and step.bound == "fma"
        )
    )
    if not steps:
        return None
    factors = {step.index: step.operations / step.executed_operations for step in steps}
    first = steps[0]
    return context.finding(
        steps,
        f"{first.title} executes {first.executed_operations / first.operations:.1f} times its operations: "
        "channels (of a group) do not fill the vectors",
        0.8,
        "in the model: numbers of channels per group that are multiples of the vector, or fewer groups",
        gain(context.profile, factors, doubt=0.5),
    )


def dtype(context: Context) -> Finding | None:
    """Look for steps of a wide type, for which there is no fast kernel: native, or on the host because of it."""
    cast = Treatment(rewrites=("float32",))
    steps = context.heavy(
        lambda step: (
            (step.dtype in SLOW_TYPES and step.op.startswith(("conv", "gemm", "matmul", "linear")))
            or refused_for_type(step)
        )
    )
    if not steps:
        return None
    tried = context.gain_of(**cast)
    helps = certain(tried)
    factors = {step.index: 0.1 if step.kind == "host" else 0.5 for step in steps}
    return context.finding(
        steps,
        f"{steps[0].title}: {steps[0].reason if steps[0].kind == 'host' else 'computes in ' + steps[0].dtype}",
        0.9,
        f"{cast} (needs a tolerance)",
        gain(context.profile, factors, doubt=0.5) if helps is None else helps.gain_ms,
        *((cast,) if helps is not None or tried is None else ()),
    )


def denormals(context: Context) -> Finding | None:
    """Look for steps that met numbers below the smallest normal one, with which processors compute slowly, by the
    processor's flags, and try the same call with these flushed to zero. Where there are no such flags the experiment
    decides."""
    steps = context.steps(lambda step: bool(step.denormals))
    if not steps and any(step.denormals is not None for step in context.profile.steps):
        return None
    if (tried := certain(context.gain_of(denormals="flush"), SLOWED)) is None:
        return None
    flush = Treatment(denormals="flush")
    met = f"{len(steps)} steps meet numbers below the smallest normal one; " if steps else ""
    return context.finding(
        steps,
        f"{met}flushed to zero, a call takes {digits(tried.after_ms)} ms instead of {digits(tried.before_ms)}",
        0.95,
        f"{flush} (numbers below 1.2e-38 become 0)",
        tried.gain_ms,
        flush,
        share=tried.part,
    )
