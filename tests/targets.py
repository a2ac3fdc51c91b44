"""The instruction sets that tests run on: what code is generated for by default, and those narrower than it."""

from __future__ import annotations

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
    """The named target of x86-64, whether or not this CPU runs it. Such code can be looked at."""
    return choose_target(LEVELS["x86-64-v4"], "x86_64-unknown-linux-gnu", name)


def _targets() -> tuple[Target, ...]:
    found = [target for target in map(runnable, ("avx512", "avx2", "generic")) if target]
    return tuple(found[found.index(jit.host_target()) :])


# Widest first: the host's best, or what CENOTE_TARGET names, then those below it.
TARGETS = _targets()

if __name__ == "__main__":
    print(*(target.name for target in TARGETS))
