"""The instruction sets that tests run on: what code is generated for by default, and those narrower than it."""

from __future__ import annotations

from cenote.codegen import jit, llvm
from cenote.core.errors import ArgumentError
from cenote.core.target import Target, choose_target

NEWEST = "diamondrapids"  # AVX-512, AVX10, AVX-VNNI, APX


def _targets() -> tuple[Target, ...]:
    chosen, found = jit.host_target(), []
    for name in ("avx512", "avx2", "generic"):
        try:
            found.append(jit.named_target(name))
        except ArgumentError:  # this CPU is older
            continue
    return tuple(found[found.index(chosen) :])


def on_newest(name: str) -> Target:
    """The named target on an x86-64 CPU with every feature that LLVM knows. Such code can be looked at, not run."""
    _, features, triple = llvm.host()
    return choose_target(NEWEST, dict.fromkeys(features, True), triple, name)


# Widest first: the host's best, or what CENOTE_TARGET names, then those below it.
TARGETS = _targets()

if __name__ == "__main__":
    print(*(target.name for target in TARGETS))
