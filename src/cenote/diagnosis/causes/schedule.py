"""Causes in the division of the work: the host, threads, and callers that share them."""

from __future__ import annotations

from cenote.core.text import digits
from cenote.diagnosis.context import Context, certain, refused_for_type
from cenote.diagnosis.gains import by_pieces, gain, lost_by_pieces
from cenote.profile.fields import Finding, Treatment

ONE_THREAD, BOUND = Treatment(threads=1), Treatment(threads="bound")
# Time of the slowest thread, relative to the mean.
UNEVEN = 1.15
# Milliseconds: shorter steps are one piece because meetings cost more.
LONG = 0.02
# Part of the latency that driver and waits must take.
MEETING = 0.2
# Part of the time that the threads together wait for a core.
WAITED = 0.1
# Part of the latency: Python's account, which contains the wait for the team of threads.
OUTSIDE = 0.3
# Part of the moments between calls in which the team works for other callers.
TAKEN = 0.5


def host(context: Context) -> Finding | None:
    """Look for operators without a kernel, which run as NumPy: steps on the host, and nodes between two stages."""
    steps = context.heavy(lambda step: step.kind in ("host", "between") and not refused_for_type(step))
    if not steps:
        return None
    return context.finding(
        steps,
        f"{steps[0].title} runs as NumPy: {steps[0].reason or steps[0].algorithm}",
        0.95,
        "in the model: an operator that has a kernel (docs/operators.md lists them)",
        gain(context.profile, {step.index: 0.1 for step in steps}, doubt=0.3),
    )


def imbalance(context: Context) -> Finding | None:
    """Compare the slowest thread with the mean, in steps of several pieces: few large ones cannot be spread evenly.
    Threads that lack cores are never even."""
    if context.profile.threads < 2 or context.short_of_cores() > 0.25:
        return None
    steps = context.heavy(
        lambda step: (
            step.items > step.grain
            and step.kind == "kernel"
            and step.kernels_ms + step.waits_ms > UNEVEN * step.kernels_ms
            and by_pieces(step) > UNEVEN
        )
    )
    saved = sum(min(step.waits_ms, lost_by_pieces(step)) for step in steps)
    if saved < 0.05 * context.profile.wall_ms:
        return None
    first = steps[0]
    return context.finding(
        steps,
        f"{first.title}: {first.items} pieces; of {digits(first.kernels_ms + first.waits_ms)} ms the threads compute "
        f"{digits(first.kernels_ms)} on average",
        0.8,
        "in the model: batches or maps whose pieces divide evenly by the threads",
        (0.4 * saved, 0.8 * saved, 1.1 * saved),
    )


def serial(context: Context) -> Finding | None:
    """Look for steps of one piece, which one thread computes while the others wait. By Amdahl's law, its work alone
    limits the use of the others."""
    if context.profile.threads < 2:
        return None
    steps = context.heavy(
        lambda step: step.kind == "kernel" and step.items <= step.grain and step.low_ms > LONG
    )
    if not steps:
        return None
    saved, first = sum(step.waits_ms for step in steps), steps[0]
    return context.finding(
        steps,
        f"{first.title} runs on one thread of {context.profile.threads} ({first.items} piece(s))",
        0.85,
        f"in the model: an operator that works on parts; or {ONE_THREAD}, which leaves a core free",
        (0.0, 0.5 * saved, saved),
    )


def barrier(context: Context) -> Finding | None:
    """Try one thread where there are many short steps that depend on each other, so that threads spend more time
    meeting than computing. Where threads lack cores, that is the cause."""
    profile = context.profile
    if profile.threads < 2 or context.short_of_cores() > 0.25:
        return None
    meeting = profile.accounts.driver + profile.accounts.waits
    if meeting < MEETING * profile.wall_ms or (tried := certain(context.gain_of(threads=1))) is None:
        return None
    groups = len({step.group for step in profile.steps})
    return context.finding(
        (),
        f"{groups} meetings of {profile.threads} threads: {digits(meeting)} ms of waiting and meeting, "
        f"{digits(profile.accounts.kernels)} of computing",
        0.9,
        f"{ONE_THREAD}, or {BOUND}: a core for each thread",
        tried.gain_ms,
        ONE_THREAD,
        BOUND,
        share=meeting / profile.wall_ms,
    )


def oversubscribed(context: Context) -> Finding | None:
    """Compare the number of threads with the machine's CPUs, and measure how long threads were ready without a core.
    Where the process may not use all CPUs, the cause is "pinned"."""
    profile, cpus = context.profile, context.profile.environment.cpus
    if profile.threads <= cpus or cpus < (profile.environment.online or 0):
        return None
    waited, took = profile.environment.run_queue_ms or 0.0, profile.environment.seconds * 1e3
    tried = context.gain_of(threads=cpus)
    if tried is None or not (tried.certain or waited > WAITED * took):
        return None
    fewer = Treatment(threads=cpus)
    return context.finding(
        (),
        f"{profile.threads} threads on {cpus} CPUs; ready and without a core for {waited:.0f} ms of {took:.0f}",
        0.95,
        str(fewer),
        tried.gain_ms,
        fewer,
        share=min(1.0, max(tried.part, waited / took / profile.threads)),
    )


def pinned(context: Context) -> Finding | None:
    """Compare the affinity of the process with the machine's CPUs: threads may share one, because the process may use
    no other."""
    profile, environment = context.profile, context.profile.environment
    cpus, online = environment.cpus, environment.online
    if online is None or cpus >= min(profile.threads, online):
        return None
    tried, fewer = context.gain_of(threads=cpus), Treatment(threads=cpus)
    return context.finding(
        (),
        f"{profile.threads} threads may use {cpus} CPU(s) of {online} (affinity)",
        0.95,
        f"{fewer}, or let the process use more CPUs (taskset, cpuset)",
        (0.0, 0.0, 0.0) if tried is None else tried.gain_ms,
        fewer,
        share=1 - cpus / profile.threads,
    )


def contention(context: Context) -> Finding | None:
    """Look for a team of threads that works for other callers between this caller's calls, while most of a call is
    neither kernels nor waits of its own threads."""
    profile = context.profile
    lost = profile.accounts.python
    if profile.threads < 2 or lost < OUTSIDE * profile.wall_ms:
        return None
    taken = context.team_is_taken()
    if taken < TAKEN:
        return None
    native = profile.accounts.kernels + profile.accounts.waits + profile.accounts.driver
    # The time that cores are idle while callers wait for them, and as much again for handing them over.
    idle = 2 * profile.wall_ms * (1 - profile.accounts.kernels / native)
    return context.finding(
        (),
        f"{taken:.0%} of the time the model's {profile.threads} threads, which serve one caller at a time, work for "
        f"others; a call spends {digits(lost)} ms outside of them",
        0.7,
        f"{ONE_THREAD}: as many callers as cores then compute side by side",
        (0.0, min(idle, lost), min(3 * idle, lost)),
        ONE_THREAD,
        share=lost / profile.wall_ms,
    )
