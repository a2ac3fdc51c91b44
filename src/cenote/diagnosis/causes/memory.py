"""Causes in the memory that steps read and write: caches, main memory, and maps that pass through once more."""

from __future__ import annotations

from cenote.core.text import digits
from cenote.diagnosis.context import Context, certain
from cenote.diagnosis.gains import at_best, gain
from cenote.profile.fields import Finding, Treatment

# Part of the roof: a step further away is bound by something else.
NEAR = 0.5
# Operations per byte: with fewer, memory is the limit.
USES = 8
# Operations per byte: with fewer, each weight is used once, so that it may be stored in half the bytes.
ONE_ROW = 0.75
# Part of the operator's operations: an algorithm that trades operations for bytes (Winograd's) executes less than
# this.
FEWER = 0.9
# Part of the latency that an activation must take.
PASSED_ONCE_MORE = 0.05
# Part of the latency that page faults must take.
FAULTS = 0.05
ACTIVATIONS = "relu sigmoid clip leaky_relu hardswish silu activation elementwise tanh"


def weights(context: Context) -> Finding | None:
    """Look for linear layers of few rows at the roof of memory or of the last cache: weights are read for every call,
    and used once."""
    steps = context.heavy(
        lambda step: (
            step.op.startswith(("gemm", "matmul", "linear"))
            and step.bound in ("memory", "L3")
            and at_best(step) >= NEAR
            and step.operations < USES * step.read_bytes
            and step.read_bytes > 4 * step.written_bytes
        )
    )
    if not steps:
        return None
    once = all(step.operations < ONE_ROW * step.read_bytes for step in steps)
    halves = Treatment(weights="bfloat16"), Treatment(weights="float16")
    words = f"{halves[0]}: half the bytes (rounds weights by up to 2**-9, float16 by 2**-12; needs a tolerance), or "
    moved, took = sum(step.read_bytes for step in steps), sum(step.ms for step in steps)
    return context.finding(
        steps,
        f"{moved / 1e6:.0f} MB of weights are read per call at {moved / took / 1e6:.1f} GB/s, the roof of "
        f"{steps[0].bound}; each is used {steps[0].operations * 2 / max(steps[0].read_bytes, 1):.1f} times",
        0.9,
        words * once + "give several inputs at once",
        gain(context.profile, {step.index: 0.55 for step in steps}, doubt=0.25) if once else None,
        *halves * once,
    )


def maps(context: Context) -> Finding | None:
    """Look for steps that only move data, at the roof of memory: no cache holds their maps."""
    steps = context.heavy(
        lambda step: (
            step.kind == "kernel"
            and step.bound == "memory"
            and at_best(step) >= NEAR
            and step.read_bytes <= 4 * step.written_bytes
            and step.operations < 2 * step.bytes
        )
    )
    if not steps:
        return None
    moved, took = sum(step.bytes for step in steps), sum(step.ms for step in steps)
    return context.finding(
        steps,
        f"{moved / 1e6:.0f} MB of maps pass through memory at {moved / took / 1e6:.1f} GB/s",
        0.8,
        "smaller batches or pictures, whose maps stay in a cache",
        gain(context.profile, {step.index: 0.5 for step in steps}, doubt=0.8),
    )


def cache(context: Context) -> Finding | None:
    """Look for steps at the roof of the second or third level of the caches. Nothing is wrong with them but the bytes
    that they need, unless blocks of another size need fewer."""
    steps = context.heavy(
        lambda step: (
            step.bound in ("L2", "L3")
            and at_best(step) >= NEAR
            and 0 < FEWER * step.operations <= step.executed_operations
            and step.op.startswith("conv")
        )
    )
    if not steps:
        return None
    first = steps[0]
    other = Treatment(blocks="smaller"), Treatment(blocks="larger")
    return context.finding(
        steps,
        f"{first.title} moves {first.bytes / 1e6:.1f} MB at {at_best(first):.0%} of what {first.bound} gives",
        0.7,
        f"the layer does little with each number; {other[0]} or {other[1]} may move fewer bytes",
        None,
        *other,
    )


def reorder(context: Context) -> Finding | None:
    """Look for transposes that exporters write around operators, and that remain after those that cancel have been
    removed."""
    steps = context.heavy(lambda step: step.op.startswith(("transpose", "permute")))
    if not steps:
        return None
    return context.finding(
        steps,
        f"{len(steps)} transposes, {digits(sum(step.ms for step in steps))} ms of {digits(context.profile.wall_ms)}",
        0.9,
        "in the model: export with one layout throughout, so that no transposes are left",
        gain(context.profile, {step.index: 0.0 for step in steps}, doubt=0.3),
    )


def unfused(context: Context) -> Finding | None:
    """Look for activations right behind a convolution or product that could have included them, if the value between
    the two were not needed too."""
    steps, activations = [], tuple(ACTIVATIONS.split())
    for before, step in zip(context.profile.steps, context.profile.steps[1:], strict=False):
        fits = step.op.startswith(activations) and before.op.startswith(("conv", "gemm", "matmul", "reorder"))
        if fits and step.kind == "kernel":
            steps.append(step)
    if context.share(steps) < PASSED_ONCE_MORE:
        return None
    factors = {step.index: 1 - min(step.roof_share or 0.5, 1.0) for step in steps}
    return context.finding(
        steps,
        f"{steps[0].title} passes once more over what the step before it has made",
        0.8,
        "in the model: do not give the value before the activation out, then both are one step",
        gain(context.profile, factors, doubt=0.5),
    )


def faults(context: Context) -> Finding | None:
    """Try calls that touch new pages, each of which the system clears first, again with outputs in memory that has
    been touched before."""
    profile = context.profile
    # Page faults per call: ordinary and recorded calls count.
    each = (profile.environment.minor_faults or 0) / (2 * profile.calls)
    if (tried := certain(context.gain_kept() if each >= 1 else None, FAULTS)) is None:
        return None
    return context.finding(
        (),
        f"outputs are fresh memory, cleared page by page ({each:.0f} page faults a call): into memory that was touched "
        f"before, a call takes {digits(tried.after_ms)} ms instead of {digits(tried.before_ms)}",
        0.95,
        "hold fewer results, whose memory is used again when nobody does; ask for fewer or smaller outputs "
        "(`run(outputs=[…])`)",
        tried.gain_ms,
        share=tried.part,
    )
