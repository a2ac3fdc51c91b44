"""Benchmark kernels, each of which does one thing as fast as the machine can: a step's time is compared with theirs.

multiply-adds   independent chains in registers, nothing else
read, copy,     one stretch of memory again and again, in whole vectors
update
chain           additions and exclusive ors that wait for each other, a cycle each: the clock of the core
nothing         the price of a step
"""

from __future__ import annotations

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import I32, I64, Scalar
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.kernels.base import KernelSpec

CHAINS = 12  # more than latency times throughput on any current core, and few enough for 16 registers
UNROLLED = 8  # vectors of a turn of the loops over memory
_AHEAD = 512  # prefetch distance in bytes in each stream
LINKS = 64  # pairs of dependent instructions, two cycles each, in a turn of the chain


@dataclass(frozen=True)
class MultiplyAddSpec(KernelSpec):
    """Kernel whose item is `rounds` times `CHAINS` vectors, each multiplied and added to."""

    type: str

    @property
    def words(self) -> tuple[Parameter, ...]:
        element = Scalar.named(self.type)
        return (
            Parameter("x", element, pointer=True),
            Parameter("y", element, pointer=True),
            Parameter("rounds"),
        )

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        element = Scalar.named(self.type)
        lanes = target.vector_bytes // element.nbytes
        for item in k.range(k.begin, k.end):
            factor = k.splat(k.pointer("x").load(item), lanes)
            sums = [k.variable(factor) for _ in range(CHAINS)]
            for _ in k.range(0, k.number("rounds")):
                for total in sums:
                    total.value = k.fma(total.value, factor, factor)
            result = sums[0].value
            for total in sums[1:]:
                result = result + total.value
            k.pointer("y").store(k.reduce(result, "add"), item)
        return k


@dataclass(frozen=True)
class ReadSpec(KernelSpec):
    """Kernel whose item adds up `rounds` times the `elements` of its stretch of x (a multiple of twice `UNROLLED`
    vectors).

    As one stream, or as `UNROLLED` streams side by side with prefetches: which of them is faster beyond the second
    cache differs from processor to processor.
    """

    streams: bool

    @property
    def words(self) -> tuple[Parameter, ...]:
        pointers = [Parameter(name, I32, pointer=True) for name in ("x", "y")]
        return (*pointers, Parameter("elements"), Parameter("rounds"))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        lanes = target.vector_bytes // I32.nbytes
        for item in k.range(k.begin, k.end):
            start = k.pointer("x") + item * k.number("elements")
            sums = [k.variable(k.constant(I32, 0, lanes)) for _ in range(UNROLLED)]
            each = k.number("elements") // UNROLLED
            for _ in k.range(0, k.number("rounds")):
                if self.streams:
                    for at in k.range(0, each, lanes):
                        for index, total in enumerate(sums):
                            source = start + (each * index + at)
                            k.prefetch(source, _AHEAD // I32.nbytes)
                            total.value = total.value + source.load(0, lanes)
                else:
                    for at in k.range(0, k.number("elements"), 2 * UNROLLED * lanes):
                        place = start + at
                        for index in range(2 * UNROLLED):
                            total = sums[index % UNROLLED]
                            total.value = total.value + place.load(index * lanes, lanes)
            result = sums[0].value
            for total in sums[1:]:
                result = result + total.value
            k.pointer("y").store(k.reduce(result, "add"), item)
        return k


@dataclass(frozen=True)
class CopySpec(KernelSpec):
    """Kernel whose item copies `rounds` times the first half of its `elements` of y to the second."""

    @property
    def words(self) -> tuple[Parameter, ...]:
        return Parameter("y", I32, pointer=True), Parameter("elements"), Parameter("rounds")

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        lanes = target.vector_bytes // I32.nbytes
        for item in k.range(k.begin, k.end):
            half = k.number("elements") // 2
            source = k.pointer("y") + item * k.number("elements")
            result = source + half
            for _ in k.range(0, k.number("rounds")):
                for at in k.range(0, half, UNROLLED * lanes):
                    read, written = source + at, result + at
                    values = [read.load(index * lanes, lanes) for index in range(UNROLLED)]
                    for index, value in enumerate(values):
                        written.store(value, index * lanes)
        return k


@dataclass(frozen=True)
class UpdateSpec(KernelSpec):
    """Kernel whose item adds `rounds` times each of the `elements` of its stretch of y to itself, in place."""

    @property
    def words(self) -> tuple[Parameter, ...]:
        return Parameter("y", I32, pointer=True), Parameter("elements"), Parameter("rounds")

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        lanes = target.vector_bytes // I32.nbytes
        one = k.constant(I32, 1, lanes)
        for item in k.range(k.begin, k.end):
            start = k.pointer("y") + item * k.number("elements")
            for _ in k.range(0, k.number("rounds")):
                for at in k.range(0, k.number("elements"), UNROLLED * lanes):
                    place = start + at
                    values = [place.load(index * lanes, lanes) + one for index in range(UNROLLED)]
                    for index, value in enumerate(values):
                        place.store(value, index * lanes)
        return k


@dataclass(frozen=True)
class ChainSpec(KernelSpec):
    """Kernel whose item is `rounds` times `LINKS` additions and as many exclusive ors, each waiting for the one
    before."""

    @property
    def words(self) -> tuple[Parameter, ...]:
        pointers = [Parameter(name, I64, pointer=True) for name in ("x", "y")]
        return (*pointers, Parameter("rounds"))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        for item in k.range(k.begin, k.end):
            step = k.pointer("x").load(item)
            value = k.variable(step)
            for _ in k.range(0, k.number("rounds")):
                for _ in range(LINKS):
                    value.value = (value.value + step) ^ step
            k.pointer("y").store(value.value, item)
        return k


@dataclass(frozen=True)
class NothingSpec(KernelSpec):
    """Kernel whose item is no work."""

    @property
    def words(self) -> tuple[Parameter, ...]:
        return ()

    def emit(self, target: Target) -> Kernel:
        return self.kernel(target)
