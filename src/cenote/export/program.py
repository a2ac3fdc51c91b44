"""Exported program: what a compiled plan leaves when Python goes: steps, kernels and constants, for one machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from cenote.codegen.builder import Kernel
from cenote.core.deferred import cached_property, dataclass
from cenote.core.target import Target
from cenote.core.types import Array, TensorType
from cenote.runtime.steps import KernelStep, Slot

ALIGNMENT = 64  # of the arena, of scratch memory and of each constant: a cache line, and the widest vector


def padded(nbytes: int) -> int:
    """Return the next multiple of the alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class NamedTensor:
    """Input or output of an entry: the model's name for it, and its type."""

    name: str
    type: TensorType


@dataclass(frozen=True)
class ProgramEntry:
    """Program for inputs of one set of shapes. Its steps name constants by their numbers in `ExportedProgram`."""

    inputs: tuple[NamedTensor, ...]
    outputs: tuple[NamedTensor, ...]
    steps: tuple[KernelStep, ...]
    arena_bytes: int
    scratch_bytes: int

    @property
    def suffix(self) -> str:
        """Sizes of the inputs: what tells an entry from the others of a model."""
        return "_".join("x".join(map(str, each.type.shape)) for each in self.inputs)

    def workspace_bytes(self, threads: int = 1) -> int:
        """Memory of a run on so many threads, from an aligned address."""
        return padded(self.arena_bytes) + threads * padded(self.scratch_bytes)


@dataclass(frozen=True)
class ExportedProgram:
    """Model for one machine: `entries`, the kernels of their steps by symbol, and the constants that they share.

    `name` is an identifier of C; `model` is the model's own name; `target_name` is that of `targets.TARGETS`; `about`
    are the model's key-value pairs. The steps of `preparation` write the constants whose numbers are `prepared`, when
    the program is loaded; the others are stored.
    """

    name: str
    model: str
    target_name: str
    target: Target
    entries: tuple[ProgramEntry, ...]
    kernels: Mapping[str, Kernel]
    constants: Sequence[Array]
    about: Mapping[str, str]
    preparation: tuple[KernelStep, ...] = ()
    prepared: frozenset[int] = frozenset()

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Place of each constant in its stretch of memory: that of the stored ones, or that of the prepared."""
        offsets, ends = [], {False: 0, True: 0}
        for number, array in enumerate(self.constants):
            offsets.append(ends[number in self.prepared])
            ends[number in self.prepared] += padded(array.nbytes)
        return tuple(offsets)

    @cached_property
    def stored(self) -> list[Array]:
        """Constants that are stored, in order."""
        return [array for number, array in enumerate(self.constants) if number not in self.prepared]

    @property
    def constant_bytes(self) -> int:
        """Size of the stretch of the stored constants."""
        return max(ALIGNMENT, sum(padded(array.nbytes) for array in self.stored))

    @property
    def prepared_bytes(self) -> int:
        """Size of the stretch of the prepared constants."""
        return sum(padded(self.constants[number].nbytes) for number in self.prepared)

    @property
    def preparable(self) -> list[int]:
        """Bytes of the stretch of the stored constants from which on each step of the preparation can run."""
        ends = []
        for step in self.preparation:
            read = [
                word.index
                for word in step.words
                if isinstance(word, Slot) and word.index not in self.prepared
            ]
            ends.append(max(self.offsets[number] + self.constants[number].nbytes for number in read))
        return ends

    def content(self) -> Iterator[bytes]:
        """Yield the stretch of the stored constants piece by piece."""
        for array in self.stored:
            yield np.ascontiguousarray(array).tobytes()
            yield bytes(padded(array.nbytes) - array.nbytes)
        if not any(array.nbytes for array in self.stored):
            yield bytes(ALIGNMENT)

    @cached_property
    def functions(self) -> Mapping[str, str]:
        """Name of each kernel's function in the library, by symbol."""
        return {symbol: f"{self.name}_k{number}" for number, symbol in enumerate(self.kernels)}
