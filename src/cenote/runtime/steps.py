"""Steps of a program: kernels and host operators, and the memory that they name."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from cenote.core.deferred import dataclass
from cenote.core.errors import ShapeError, errors_at
from cenote.core.types import Array, TensorType


class SlotKind(StrEnum):
    """The memory that a slot lies in. A program has the first four."""

    ARENA = "arena"
    INPUT = "input"
    OUTPUT = "output"
    CONSTANT = "constant"
    # While a template is made: a table that is computed for each size, and becomes a constant of the program.
    TABLE = "table"
    # While sizes are open: a buffer of the placement, by its number, wherever in the arena it will lie.
    BUFFER = "buffer"
    # While a node is compiled: an operand of it, by its number, wherever it will lie.
    OPERAND = "operand"
    CALLERS_OPERAND = "operand of the caller"
    # Of an operand that is absent.
    NOWHERE = ""


IN_PROGRAMS = {
    kind.value: kind for kind in (SlotKind.ARENA, SlotKind.INPUT, SlotKind.OUTPUT, SlotKind.CONSTANT)
}
_CALLERS = (SlotKind.INPUT, SlotKind.OUTPUT, SlotKind.CALLERS_OPERAND)


@dataclass(frozen=True)
class Slot:
    """Memory of a program: `index` counts inputs, outputs or constants (0 for the arena); `offset` is in bytes from the
    start of that memory."""

    kind: SlotKind
    index: int
    offset: int = 0

    @property
    def is_operand(self) -> bool:
        return self.kind in (SlotKind.OPERAND, SlotKind.CALLERS_OPERAND)

    @property
    def is_callers(self) -> bool:
        """Whether it is an array of the caller's, which may lie anywhere."""
        return self.kind in _CALLERS


@dataclass(frozen=True)
class KernelStep:
    """One kernel launch. `words` is the argument record: numbers, and slots that become addresses."""

    label: str
    symbol: str
    address: int
    words: tuple[int | Slot, ...]
    items: int
    grain: int
    scratch: int
    barrier: bool = True


class HostOperator(Protocol):
    """Protocol of operators that run as Python: arrays in, arrays out."""

    @property
    def looks(self) -> bool:
        """Whether it is a check: it only reads rows of int64 in the arena, its one input, and does nothing where all
        of them start with 0."""

    @property
    def advice(self) -> str:
        """End of an error's text about results of other types than were planned."""

    def reference(self, *inputs: Array | None) -> Sequence[Array]: ...


@dataclass(frozen=True)
class HostStep:
    """An operator that runs as Python on arrays in the program's memory, between native stretches."""

    label: str
    operator: HostOperator
    inputs: tuple[tuple[Slot, TensorType] | None, ...]
    outputs: tuple[tuple[Slot, TensorType] | None, ...]
    where: str = ""  # its name in errors

    @property
    def looks(self) -> bool:
        """Whether its operator is a check."""
        return self.operator.looks

    def run(self, arguments: Sequence[Array | None]) -> Sequence[Array]:
        """Return the results, as fresh arrays. Raises ShapeError for others than were planned."""
        if not self.where:
            return self._results(arguments)
        with errors_at(self.where):
            return self._results(arguments)

    def _results(self, arguments: Sequence[Array | None]) -> Sequence[Array]:
        results = self.operator.reference(*arguments)
        if len(results) < len(self.outputs):
            raise ShapeError(
                f"{self.operator} returned {len(results)} outputs, but {len(self.outputs)} were planned"
            )
        for place, result in zip(self.outputs, results, strict=False):
            if place is not None and (result.shape != place[1].shape or result.dtype != place[1].dtype):
                found = TensorType(result.dtype, result.shape)
                raise ShapeError(
                    f"{self.operator} returned {found}, but {place[1]} was planned{self.operator.advice}"
                )
        return results


Step = KernelStep | HostStep
