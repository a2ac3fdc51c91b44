"""Rows of a batch of sequences put in reverse order, each up to its own length.

for item in begin .. end:            emitted; an item is one step of one sample
    from = length - 1 - step, where that is not negative
    copy the row
"""

from __future__ import annotations

from math import prod

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import I64, U64, Scalar
from cenote.core.deferred import dataclass
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.selection.indices import bits_of, copy_row

_WORK = 1 << 15  # elements of a piece of work


@dataclass(frozen=True)
class ReverseSpec(KernelSpec):
    """Kernel that moves rows of elements of so many bytes. Lengths out of range are noted, per item: whether, and
    which; the row is then copied from its own place."""

    element: Scalar

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (
            *pointers_to(self.element, "y", "x"),
            *pointers_to(I64, "lengths", "found"),
            *numbers_named(["steps", "batch", "row", "step_stride", "sample_stride"]),
        )

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        n = k.number
        for item in k.range(k.begin, k.end):
            step, sample = item // n("batch"), item % n("batch")
            length = k.pointer("lengths").load(sample)
            valid = length.bits(U64) <= n("steps").bits(U64)
            k.pointer("found").store(k.select(valid, k.integer(0), k.integer(1)), item * 2)
            k.pointer("found").store(length, item * 2 + 1)
            place = k.select(valid & (step < length), length - 1 - step, step)
            start = sample * n("sample_stride")
            y = k.pointer("y") + (start + step * n("step_stride"))
            copy_row(k, y, k.pointer("x") + (start + place * n("step_stride")), n("row"))
        return k


def reverse_call(x: View, lengths: View, y: View, found: View, batch_axis: int) -> Call:
    """Return the launch for dense x and y, whose first two axes are time and the batch."""
    steps, batch, row = x.shape[1 - batch_axis], x.shape[batch_axis], prod(x.shape[2:])
    words: dict[str, Argument] = {
        "y": y,
        "x": x,
        "lengths": lengths,
        "found": found,
        "steps": steps,
        "batch": batch,
        "row": row,
        "step_stride": row if batch_axis == 0 else row * batch,
        "sample_stride": row * steps if batch_axis == 0 else row,
    }
    grain = maximum(1, _WORK // maximum(1, row))
    return Call.named(ReverseSpec(bits_of(x.type.dtype)), words, steps * batch, grain)
