"""Formulas of sizes as instructions, which native code carries out: a new size costs microseconds.

Each instruction has an operation and two operands, and its result goes to the next slot of 64 bits; the first slots
hold the sizes, then the constants. Operands name slots before their own, so an instruction reads nothing that is not
there. What Python computes with numbers of any length is left to Python where 64 bits do not hold it (`ASK`).

    + - * // max min == < <=    of whole numbers; a comparison gives 1 or 0
    guard                       ends all unless both operands are equal: the sizes are refused
    copy                        puts operands side by side, in rows
    item                        of a row (a length, then its items), by an index
    taps                        a table of offsets, of a row of numbers and the number of the window's axes
    float, exact float          of whole numbers, rounded or exact; "float +" and so on: of floats; floor, ceil, trunc
"""

from __future__ import annotations

import numpy as np

from cenote.core.deferred import cached_property, dataclass
from cenote.core.types import Array

OPERATIONS = (
    *("copy", "+", "-", "*", "//", "max", "min", "==", "<", "<=", "guard", "item", "taps"),
    *("float", "exact float", "floor", "ceil", "trunc", "float neg"),
    *(f"float {sign}" for sign in ("+", "-", "*", "/", "max", "min", "==", "<", "<=")),
)
# What carrying them out returns: all results are there, the sizes are refused, or Python is to be asked.
DONE, REFUSED, ASK = range(3)
BY_PYTHON = -1  # length of an array that Python makes


@dataclass(frozen=True)
class Instructions:
    """Instructions for `sizes` numbers. `code` has a row for each, `results` the slots of the numbers that are wanted,
    `tables` the elements of each array of offsets (int32); `BY_PYTHON` stands for other arrays."""

    sizes: int
    constants: Array
    code: Array
    results: Array
    tables: tuple[int, ...]

    @cached_property
    def start(self) -> Array:
        """Slots with the constants alone."""
        slots = np.zeros(self.sizes + len(self.constants) + len(self.code), np.int64)
        slots[self.sizes : self.sizes + len(self.constants)] = self.constants
        return slots

    @cached_property
    def ends(self) -> list[int]:
        """Begin of the first table, then the ends of all."""
        ends = [0]
        for elements in self.tables:
            if elements != BY_PYTHON:
                ends.append(ends[-1] + elements)
        return ends
