"""A batch of sequences, with zeros in place of the steps behind its longest one.

for item in begin .. end:            emitted; an item is one step of all samples
    longest = the largest length
    for sample, vector of numbers:   emitted
        x where the step is within it, else zeros
"""

from __future__ import annotations

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, I32, I64
from cenote.core.deferred import dataclass
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.core.types import INT64
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to

_WORK = 1 << 14  # numbers of a piece of work


@dataclass(frozen=True)
class LongestSpec(KernelSpec):
    """Kernel for float32 numbers. `wide`: lengths are int64, not int32."""

    wide: bool

    @property
    def words(self) -> tuple[Parameter, ...]:
        lengths = Parameter("lengths", I64 if self.wide else I32, pointer=True)
        numbers = numbers_named(["batch", "features", "x_step", "x_batch"])
        return (*pointers_to(F32, "y", "x"), lengths, *numbers)

    def emit(self, target: Target) -> Kernel:
        k, lanes = self.kernel(target), target.lanes()
        batch, features = k.number("batch"), k.number("features")
        nothing = k.constant(F32, 0.0, lanes)
        for step in k.range(k.begin, k.end):
            longest = k.variable(k.integer(0))
            for sample in k.range(0, batch):
                length = k.pointer("lengths").load(sample).to(I64)
                longest.value = k.select(length > longest.value, length, longest.value)
            inside = step < longest.value
            for sample in k.range(0, batch):
                source = k.pointer("x") + (step * k.number("x_step") + sample * k.number("x_batch"))
                y = k.pointer("y") + (step * batch + sample) * features
                for column in k.range(0, features, lanes):
                    mask = k.tail_mask(features - column, lanes)
                    value = source.load(column, lanes, mask)
                    y.store(k.select(inside, value, nothing), column, mask)
        return k


def longest_call(x: View, lengths: View, y: View) -> Call:
    """Return the launch for x (steps, batch, features), and dense y."""
    steps, batch, features = x.shape
    words: dict[str, Argument] = {"y": y, "x": x, "lengths": lengths, "batch": batch, "features": features}
    words |= {"x_step": x.strides[0], "x_batch": x.strides[1]}
    grain = maximum(1, _WORK // maximum(1, batch * features))
    return Call.named(LongestSpec(lengths.type.dtype == INT64), words, steps, grain)
