"""Recurrent layers a step at a time, so that threads share the hidden units of each: of one direction of a few samples.

    start: first states                   a call
    for step:                             a call each; two for a GRU that resets before the product
        group of hidden units             an item
    finish: last states                   a call

Each part is what `recurrent.py` computes, so the bits are the same. States wait in memory that threads share. A thread
begins at the same end of the groups at each step, so its part of the weights stays in its caches.
"""

from __future__ import annotations

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.kernels.base import numbers_named, pointers_to
from cenote.kernels.sequence.recurrent import RecurrentSpec, Sweep

START, FINISH = "start", "finish"


@dataclass(frozen=True)
class RecurrentStepSpec(RecurrentSpec):
    """Kernel of a part of a layer. `part`: START, FINISH or the number of a step's phase."""

    part: str | int

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (*super().words, *pointers_to(F32, "states"), *numbers_named(("step",)))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        for group in k.range(k.begin, k.end):
            sweep = Sweep(self, k, k.integer(0), k.pointer("states"))
            if self.part == START:
                sweep.start()
            elif self.part == FINISH:
                sweep.finish()
            else:
                sweep.read_lengths()
                sweep.at(k.number("step")).group(int(self.part), group)
        return k
