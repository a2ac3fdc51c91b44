"""Kernels of float32 with tensors of bfloat16 in memory: loaded numbers become float32, stored ones are rounded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from cenote.codegen.bfloat import keep_in_bfloat
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import BF16
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.types import BFLOAT16
from cenote.kernels.base import Call, KernelSpec, View


@dataclass(frozen=True)
class BfloatMemorySpec(KernelSpec):
    """Fields that such a kernel has besides those of its class with float32 tensors, which comes behind this one among
    the bases. `kept`: the pointers to bfloat16; `way`: that of `codegen.bfloat`."""

    kept: tuple[str, ...] = ()
    way: str = ""

    @property
    def words(self) -> tuple[Parameter, ...]:
        return tuple(replace(word, type=BF16) if word.name in self.kept else word for word in super().words)

    def kernel(self, target: Target) -> Kernel:
        k = super().kernel(target)
        keep_in_bfloat(k, self.kept, self.way, target.lanes())
        return k


Classes = Mapping[type[KernelSpec], Callable[..., KernelSpec]]
"""Of specs, and of those with `BfloatMemorySpec` among their bases."""


def kept_in_bfloat(call: Call, way: str, classes: Classes) -> Call:
    """Return the call of a kernel of float32 as the one for the types of its views."""
    words = zip(call.spec.words, call.arguments, strict=True)
    kept = tuple(
        word.name for word, given in words if isinstance(given, View) and given.type.dtype == BFLOAT16
    )
    if not kept:
        return call

    def changed(spec: KernelSpec) -> KernelSpec:
        return classes[type(spec)](**vars(spec), kept=kept, way=way)

    return replace(call, spec=changed(call.spec), variants=tuple(map(changed, call.variants)))
