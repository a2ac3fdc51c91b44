"""A kernel that compiles, and a source of text that does not."""

from __future__ import annotations

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import I64
from cenote.core.target import Target


def kernel(number: int, target: Target) -> Kernel:
    k = Kernel(f"test_cache_{number}", target, [Parameter("x", I64, pointer=True)])
    k.pointer("x").store(k.integer(number))
    return k


class Broken:
    """A source of text that is no IR."""

    symbol = "test_broken"

    def emit(self, target: Target) -> Broken:
        self.target = target
        return self

    def module(self) -> str:
        return "this is no module"
