"""The instruction sets that tests run on: what code is generated for by default, and those narrower than it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cenote.codegen import jit
from cenote.core.errors import ArgumentError
from cenote.core.target import LEVELS, Target, choose_target


def runnable(name: str) -> Target | None:
    """The named target on this CPU, None where it is too old."""
    try:
        return jit.named_target(name)
    except ArgumentError:
        return None


def anywhere(name: str) -> Target:
    """The named target of x86-64 with the usual caches, whatever this CPU is: the same plans and code on every machine.
    Such code can be looked at, but perhaps not run."""
    return choose_target(LEVELS["x86-64-v4"], "x86_64-unknown-linux-gnu", name).of_level()


# What choices may depend on, at two ends: lanes, registers and caches. Tests of choices plan for these, not for the
# machine that they run on.
LARGE = replace(anywhere("avx512"), l1_bytes=48 << 10, l2_bytes=2 << 20, l3_bytes=512 << 20)
SMALL = replace(anywhere("generic"), l1_bytes=32 << 10, l2_bytes=256 << 10, l3_bytes=4 << 20)


def _targets() -> tuple[Target, ...]:
    found, host = (
        [target for target in map(runnable, ("avx512", "avx2", "generic")) if target],
        jit.host_target(),
    )
    names = [target.name for target in found]
    return host, *found[names.index(host.name) + 1 :]


# Widest first: the host's best, or what CENOTE_TARGET names, then those below it.
TARGETS = _targets()

NARROWER_STEP = 4  # narrower targets take every fourth case: their kernels differ in lanes and FMA alone


def over_targets(cases: Sequence[tuple[Any, ...]], step: int = NARROWER_STEP) -> list[tuple[Any, ...]]:
    """Return the cases with a target behind each: all of them for the widest target, every `step`-th for each narrower
    one, which begins with a case of its own. Where cases are a product, `step` shares no factor with its last extent,
    so that a narrower target meets every value of that one."""
    return [
        (*case, target)
        for number, target in enumerate(TARGETS)
        for case in (cases[number % len(cases) :: step] if number else cases)
    ]


def target_name(value: object) -> str | None:
    """Return the name of a target for the ids of tests, None (pytest's own choice) for other parameters."""
    return value.name if isinstance(value, Target) else None
