"""Program run step by step, so that values can be read before their memory is used again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from cenote.core.types import Array, TensorType
from cenote.runtime.program import Instance, Program
from cenote.runtime.steps import KernelStep, Slot, SlotKind
from cenote.runtime.threads import Team

Look = Callable[[int], None]


class Stepwise(Instance):
    """Run of the steps of a program on one thread, which gives the bits of any number of threads.

    `before` and `after` are called with the number of each step; `memory` may be read in them.
    """

    def __init__(self, program: Program) -> None:
        steps = [replace(s, barrier=True) if isinstance(s, KernelStep) else s for s in program.steps]
        super().__init__(replace(program, steps=steps, threads=1, workplaces=None, _free=[]))
        self._before: Look = _nothing
        self._after: Look = _nothing
        self._arrays: dict[SlotKind, Sequence[Array]] = {}

    def trace(self, inputs: Sequence[Array], before: Look, after: Look) -> list[Array]:
        """Run one inference; the arrays' types have been checked."""
        self._before, self._after = before, after
        return self.run(inputs, None)

    def memory(self, slot: Slot, type: TensorType, shape: Sequence[int], strides: Sequence[int]) -> Array:
        """Return the content of a slot, as an array over that memory; `strides` in elements.

        Raises IndexError for an array that would reach beyond the memory.
        """
        owner = self.arena if slot.kind is SlotKind.ARENA else self._arrays[slot.kind][slot.index]
        flat = owner.reshape(-1).view(np.uint8)
        size = type.dtype.itemsize
        reach = 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
        end = slot.offset + (reach * size if all(shape) else 0)
        if slot.offset < 0 or end > flat.nbytes:
            raise IndexError(
                f"{slot} and {end - slot.offset} bytes from there are not in {flat.nbytes} bytes"
            )
        elements = flat[slot.offset : end].view(type.dtype)
        return np.lib.stride_tricks.as_strided(
            elements, tuple(shape), tuple(stride * size for stride in strides), writeable=False
        )

    def _run_segments(self, team: Team, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        constants = self.program.constants
        self._arrays = {SlotKind.INPUT: inputs, SlotKind.OUTPUT: outputs, SlotKind.CONSTANT: constants}
        driver, row = self.program.driver, 0
        for number, step in enumerate(self.program.steps):
            self._before(number)
            if isinstance(step, KernelStep):
                first = row
                while driver.run(team.address, self.table_address, first, row + 1):
                    first = -1
                row += 1
            else:
                self._run_host(step, inputs, outputs)
            self._after(number)


def _nothing(step: int) -> None:
    pass
