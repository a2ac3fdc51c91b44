"""Kernels: loop nests that are written in Python and become machine code. This module is what users write them with.

A kernel is a spec, a frozen dataclass whose fields are what its instructions depend on, and a call of it on memory:

    @dataclass(frozen=True)
    class Halve(KernelSpec):
        lanes: int

        @property
        def words(self):
            return (*pointers_to(F32, "x", "y"), *numbers_named(["size"]))

        def emit(self, target):
            k = self.kernel(target)
            for i in k.range(k.begin * self.lanes, k.end * self.lanes, self.lanes):
                mask = k.tail_mask(k.number("size") - i, self.lanes)
                k.pointer("y").store(k.pointer("x").load(i, self.lanes, mask) * 0.5, i, mask)
            return k

        def call(self, x, y):
            return Call.named(self, {"x": x, "y": y, "size": x.type.size}, items=-(-x.type.size // self.lanes))

`cenote.jit_elementwise` and `cenote.jit_kernel` make functions on arrays of kernels; `Lowering.of_call` makes them a
way to compute an operator. docs/extending_kernels.md is the tutorial. All names here are imported when first asked
for; modules below this one are Cenote's own kernels, and may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cenote.core.locks import on_demand

if TYPE_CHECKING:
    from cenote.codegen import assembly, ir, math
    from cenote.codegen.builder import Kernel, Parameter
    from cenote.codegen.jit import host_target
    from cenote.codegen.values import (
        BF16,
        BOOL,
        F16,
        F32,
        F64,
        I8,
        I16,
        I32,
        I64,
        U8,
        U16,
        U32,
        U64,
        Pointer,
        Scalar,
        Value,
    )
    from cenote.core.target import Target
    from cenote.core.types import PLAIN, Layout
    from cenote.kernels.base import Call, KernelSpec, Packed, View, numbers_named, pointers_to
    from cenote.kernels.cost_model import pass_seconds

__all__ = [
    "BF16",
    "BOOL",
    "F16",
    "F32",
    "F64",
    "I8",
    "I16",
    "I32",
    "I64",
    "PLAIN",
    "U8",
    "U16",
    "U32",
    "U64",
    "Call",
    "Kernel",
    "KernelSpec",
    "Layout",
    "Packed",
    "Parameter",
    "Pointer",
    "Scalar",
    "Target",
    "Value",
    "View",
    "assembly",
    "host_target",
    "ir",
    "math",
    "numbers_named",
    "pass_seconds",
    "pointers_to",
]


__getattr__ = on_demand(
    __name__,
    {
        "cenote.codegen": "assembly ir math",
        "cenote.codegen.builder": "Kernel Parameter",
        "cenote.codegen.jit": "host_target",
        "cenote.codegen.values": "BF16 BOOL F16 F32 F64 I8 I16 I32 I64 U8 U16 U32 U64 Pointer Scalar Value",
        "cenote.core.target": "Target",
        "cenote.core.types": "PLAIN Layout",
        "cenote.kernels.base": "Call KernelSpec Packed View numbers_named pointers_to",
        "cenote.kernels.cost_model": "pass_seconds",
    },
)


def __dir__() -> list[str]:
    return __all__
