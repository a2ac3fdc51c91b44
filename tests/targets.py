"""The instruction sets that tests run on: what code is generated for by default, and those narrower than it."""

from __future__ import annotations

from cenote.codegen import jit
from cenote.core.errors import ArgumentError
from cenote.core.target import Target


def _targets() -> tuple[Target, ...]:
    chosen, found = jit.host_target(), []
    for name in ("avx512", "avx2", "generic"):
        try:
            found.append(jit.named_target(name))
        except ArgumentError:  # this CPU is older
            continue
    return tuple(found[found.index(chosen) :])


# Widest first: the host's best, or what CENOTE_TARGET names, then those below it.
TARGETS = _targets()
