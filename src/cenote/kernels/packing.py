"""Base of kernels that pack weights when a program is loaded: each number of the result from those at its place.

for item in begin .. end:                         a run of places of a group
    for each vector of places:
        results = made(numbers of the source)
"""

from __future__ import annotations

from collections.abc import Sequence

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.kernels.base import Call, KernelSpec, float_pointers, numbers_named
from cenote.kernels.plane_items import vectors

RUN = 1 << 12  # places of an item


@dataclass(frozen=True)
class PackingSpec(KernelSpec):
    """Kernel that makes `results` planes of numbers of `sources` planes, group by group, in numbers of a type."""

    @property
    def sources(self) -> int:
        raise NotImplementedError(f"{type(self).__name__}.sources")

    @property
    def results(self) -> int:
        raise NotImplementedError(f"{type(self).__name__}.results")

    @property
    def element(self) -> Scalar:
        return F32

    def made(self, k: Kernel, numbers: Sequence[Value]) -> Sequence[Value]:
        """Emit the results of one place."""
        raise NotImplementedError(f"{type(self).__name__}.made")

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (*float_pointers(("y", "x")), *numbers_named(("size", "runs")))

    def call(self, groups: int, size: int) -> Call:
        """Return the launch for so many groups, whose planes have `size` numbers, without its arrays."""
        runs = -(-size // RUN)
        return Call.named(self, {"y": None, "x": None, "size": size, "runs": runs}, groups * runs)

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        size, runs = k.number("size"), k.number("runs")
        for item in k.range(k.begin, k.end):
            group, start = item // runs, item % runs * RUN
            x = k.pointer("x") + (group * self.sources * size + start)
            y = k.pointer("y") + (group * self.results * size + start)
            count = k.minimum(size - start, k.integer(RUN))
            for begin, end, lanes in vectors(k, count, target.vector_bytes // self.element.nbytes):
                for at in k.range(begin, end, lanes):
                    numbers = [(x + size * n).load(at, lanes).to(self.element) for n in range(self.sources)]
                    for n, value in enumerate(self.made(k, numbers)):
                        (y + size * n).store(value.to(F32), at)
        return k
