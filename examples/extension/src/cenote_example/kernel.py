"""The kernel of `Shrink`: contiguous float32 numbers, a vector at a time; one kernel for every size and `by`."""

from __future__ import annotations

from dataclasses import dataclass

from cenote.kernels import (
    F32,
    F64,
    Call,
    Kernel,
    KernelSpec,
    Parameter,
    Target,
    View,
    numbers_named,
    pointers_to,
)

BLOCK = 1024  # vectors in a piece; threads share the pieces


@dataclass(frozen=True)
class ShrinkSpec(KernelSpec):
    """max(x - by, 0) + min(x + by, 0), by vectors of `lanes` numbers."""

    lanes: int

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (*pointers_to(F32, "x", "y", may_alias=True), *numbers_named(["size"]), Parameter("by", F64))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        by, size = k.number("by").to(F32), k.number("size")
        for piece in k.range(k.begin, k.end):
            first = piece * (BLOCK * self.lanes)
            last = k.minimum(size, first + BLOCK * self.lanes)
            for i in k.range(first, last, self.lanes):
                mask = k.tail_mask(last - i, self.lanes)
                x = k.pointer("x").load(i, self.lanes, mask)
                k.pointer("y").store(k.maximum(x - by, 0.0) + k.minimum(x + by, 0.0), i, mask)
        return k


def shrink_call(x: View, y: View, by: float, target: Target) -> Call:
    """The launch for two contiguous float32 tensors of equal size."""
    spec = ShrinkSpec(target.lanes(x.type.dtype))
    words = {"x": x, "y": y, "size": x.type.size, "by": by}
    return Call.named(spec, words, items=-(-x.type.size // (BLOCK * spec.lanes)))
