"""The instruction sets that tests run on: what code is generated for by default, and those narrower than it."""

from __future__ import annotations

from dataclasses import replace

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
    found = [target for target in map(runnable, ("avx512", "avx2", "generic")) if target]
    return tuple(found[found.index(jit.host_target()) :])


# Widest first: the host's best, or what CENOTE_TARGET names, then those below it.
TARGETS = _targets()
