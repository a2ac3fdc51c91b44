"""The instruction sets that tests run on: what code is generated for by default, and those narrower than it."""

from __future__ import annotations

from cenote.codegen import jit, llvm
from cenote.core.errors import ArgumentError
from cenote.core.target import Target, choose_target

NEWEST = "diamondrapids"  # AVX-512, AVX10, AVX-VNNI, APX
GONE = ("fma4", "xop", "tbm", "lwp")  # AMD dropped these with Zen


def runnable(name: str) -> Target | None:
    """The named target on this CPU, None where it is too old."""
    try:
        return jit.named_target(name)
    except ArgumentError:
        return None


def on_newest(name: str) -> Target:
    """The named target on an x86-64 CPU with every feature of today's. Such code can be looked at, not run."""
    _, features, triple = llvm.host()
    return choose_target(NEWEST, {feature: feature not in GONE for feature in features}, triple, name)


def _targets() -> tuple[Target, ...]:
    found = [target for target in map(runnable, ("avx512", "avx2", "generic")) if target]
    return tuple(found[found.index(jit.host_target()) :])


# Widest first: the host's best, or what CENOTE_TARGET names, then those below it.
TARGETS = _targets()

if __name__ == "__main__":
    print(*(target.name for target in TARGETS))
