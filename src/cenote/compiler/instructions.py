"""Instructions (`core.formulas.instructions`) from the formulas of a trace, in the order of the trace's text.

Arrays other than tables of taps (divisors of pools, taps of a resized map) stay with Python. Numbers and questions that
no instructions are for (float32, other functions of modules) leave a template without: Python evaluates it then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from cenote.core.formulas.expressions import Given, SizeFormula, Symbolic, plain_number, word_of_float
from cenote.core.formulas.instructions import BY_PYTHON, OPERATIONS, Instructions
from cenote.core.formulas.polynomials import Terms
from cenote.core.sizes import Size
from cenote.core.trace import LARGEST, Trace
from cenote.kernels.tables import first_that_covers, row_table, tap_table, tiles_per_block

_NUMBER_OF = {name: number for number, name in enumerate(OPERATIONS)}
_TURNED = {">": "<", ">=": "<="}


class _Unsupported(Exception):
    """A formula that no instructions are for."""


class _Operand(NamedTuple):
    """Slot of a number. Constants are numbered from -1 downwards until all are known."""

    slot: int
    is_float: bool = False


def instructions_of(
    trace: Trace, numbers: Sequence[Symbolic], arrays: Sequence[Symbolic]
) -> tuple[Instructions, str] | None:
    """Return the instructions for these formulas, and Python for the arrays that are beyond them; None where a number
    or a question is."""
    writer = _Writer(trace)
    try:
        for index in range(trace.dimensions):
            size, yes = _Operand(index), writer.whole(1)
            writer.add("guard", writer.add("<=", writer.whole(1), size), yes)
            writer.add("guard", writer.add("<=", size, writer.whole(LARGEST)), yes)
        for step in trace.ordered([*numbers, *arrays]):
            if isinstance(step, int):
                writer.unknowns[step] = writer.known[f"u{step}"] = writer.made(trace.formulas[step])
            else:
                writer.add("guard", writer.operand(step), writer.whole(int(step.value)))
        slots = [writer.number(number) for number in numbers]
    except _Unsupported:
        return None
    left = [array for array in arrays if not writer.has_table(array)]
    return writer.finished(slots), trace.source_of(left) if left else ""


class _Writer:
    """Instructions that are being written; equal ones are written once."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.unknowns: dict[int, _Operand] = {}
        self.known: dict[str, _Operand] = {}  # formulas, by their texts
        self.constants: dict[int, int] = {}
        self.code: list[tuple[int, int, int]] = []
        self._added: dict[tuple[int, int, int], _Operand] = {}
        self._polynomials: dict[Terms, _Operand] = {}
        self._rows: dict[tuple[int, ...], _Operand] = {}
        self.lengths: list[int] = []

    def finished(self, results: Sequence[int]) -> Instructions:
        """Return the instructions, with the constants in their places."""
        sizes, count = self.trace.dimensions, len(self.constants)

        def placed(slots: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
            return np.where(slots < 0, sizes - 1 - slots, np.where(slots < sizes, slots, slots + count))

        code = np.array(self.code, np.int64).reshape(-1, 3)
        code[:, 1:] = placed(code[:, 1:])
        constants, wanted = np.array(list(self.constants), np.int64), np.array(results, np.int64)
        return Instructions(sizes, constants, code, placed(wanted), tuple(self.lengths))

    # ---- operands -----------------------------------------------------------------------------------------------

    def add(self, name: str, a: _Operand, b: _Operand | None = None, is_float: bool = False) -> _Operand:
        """Add an instruction; return the slot of its result."""
        row = (_NUMBER_OF[name], a.slot, (b or a).slot)
        found = self._added.get(row)
        if found is None:
            found = self._added[row] = self._appended(row, is_float)
        return found

    def _appended(self, row: tuple[int, int, int], is_float: bool = False) -> _Operand:
        self.code.append(row)
        return _Operand(self.trace.dimensions + len(self.code) - 1, is_float)

    def row(self, operands: Sequence[_Operand]) -> _Operand:
        """Return the first of slots with copies of operands, side by side."""
        key = tuple(each.slot for each in operands)
        if key not in self._rows:
            copies = [self._appended((_NUMBER_OF["copy"], each.slot, each.slot)) for each in operands]
            self._rows[key] = copies[0]
        return self._rows[key]

    def whole(self, number: int) -> _Operand:
        """Return a constant."""
        if not -(1 << 63) <= number < 1 << 63:
            raise _Unsupported
        return _Operand(-1 - self.constants.setdefault(number, len(self.constants)))

    def number(self, number: Symbolic) -> int:
        """Return the slot of a whole number."""
        operand = self.operand(number)
        if operand.is_float:
            raise _Unsupported
        return operand.slot

    def operand(self, x: object) -> _Operand:
        """Return the slot of an operand."""
        if isinstance(x, Size):
            known = self._polynomials.get(x.terms)
            if known is None:
                known = self._polynomials[x.terms] = self.polynomial(x.terms)
            return known
        if isinstance(x, SizeFormula | Given):
            known = self.known.get(x.code)
            if known is None:
                known = self.known[x.code] = self.made(x)
            return known
        if isinstance(x, np.floating):  # of a certain precision, and it divides by 0
            raise _Unsupported
        number = plain_number(x)
        if isinstance(number, int):
            return self.whole(int(number))
        if isinstance(number, float):
            return _Operand(self.whole(word_of_float(number)).slot, is_float=True)
        raise _Unsupported

    def polynomial(self, terms: Terms) -> _Operand:
        """Return a sum of products of unknowns."""
        total: _Operand | None = None
        for monomial, factor in terms:
            product: _Operand | None = None
            for unknown in monomial:
                each = self.unknowns[unknown]
                product = each if product is None else self.add("*", product, each)
            if product is None:
                total = self.whole(factor)  # the constant comes first
            elif total is not None and factor == -1:
                total = self.add("-", total, product)
            else:
                term = product if factor == 1 else self.add("*", product, self.whole(factor))
                total = term if total is None else self.add("+", total, term)
        return self.whole(0) if total is None else total

    # ---- formulas -----------------------------------------------------------------------------------------------

    def made(self, formula: SizeFormula | Given) -> _Operand:
        """Write a formula; return its slot."""
        if isinstance(formula, Given):
            return _Operand(formula.index)
        function, operands = formula.function, formula.operands
        if function == "item" and isinstance(operands[0], tuple):
            items, index = operands
            row = self.row([self.whole(len(items)), *map(self.operand, items)])
            return self.add("item", row, self.operand(index))
        if function in _EXPANSIONS:
            return _EXPANSIONS[function](self, *operands)
        if not isinstance(function, str):
            raise _Unsupported
        given = list(map(self.operand, operands[::-1] if function in _TURNED else operands))
        if len(given) == 1:
            return self.of_one(function, given[0])
        return reduce(partial(self.of_two, _TURNED.get(function, function)), given)

    def of_two(self, sign: str, a: _Operand, b: _Operand) -> _Operand:
        """Write an operation on two numbers."""
        compares = sign in ("==", "<", "<=")
        if not (a.is_float or b.is_float) and sign != "/":
            if sign not in _NUMBER_OF:
                raise _Unsupported
            return self.add(sign, a, b)
        if (compares or sign in ("max", "min")) and a.is_float != b.is_float:
            raise _Unsupported  # Python compares without rounding, and returns either kind
        if f"float {sign}" not in _NUMBER_OF:
            raise _Unsupported
        convert = "float" if a.is_float or b.is_float else "exact float"
        a, b = (each if each.is_float else self.add(convert, each, is_float=True) for each in (a, b))
        return self.add(f"float {sign}", a, b, is_float=not compares)

    def of_one(self, function: str, a: _Operand) -> _Operand:
        """Write a function of one number."""
        if function == "bits":
            return _Operand(a.slot if a.is_float else self.add("exact float", a).slot)
        if function == "float":
            return a if a.is_float else self.add("float", a, is_float=True)
        if function == "neg":
            return self.add("float neg", a, is_float=True) if a.is_float else self.add("-", self.whole(0), a)
        if function in ("floor", "ceil", "trunc", "int"):
            return self.add({"int": "trunc"}.get(function, function), a) if a.is_float else a
        raise _Unsupported

    # ---- functions of modules -----------------------------------------------------------------------------------

    def up(self, a: _Operand, b: _Operand) -> _Operand:
        """Write a quotient, rounded up."""
        return self.add("-", self.whole(0), self.add("//", self.add("-", self.whole(0), a), b))

    def first_that_covers(self, pixels: object, widths: tuple[int, ...]) -> _Operand:
        """Write the index: of widths that do not cover, 1 + … as long as all before do not."""
        size, index = self.operand(pixels), self.whole(0)
        if not all(isinstance(width, int) for width in widths) or widths[-1] > 2 or min(widths) < 2:
            raise _Unsupported
        for width in reversed(widths[:-1]):
            most = self.add("//", size, self.whole(width - 1))
            lacks = self.add("-", self.up(size, self.whole(width)), most)
            does_not = self.add("min", self.add("max", lacks, self.whole(0)), self.whole(1))
            index = self.add("*", does_not, self.add("+", index, self.whole(1)))
        return index

    def tiles_per_block(self, tiles: object, split: object, least: object, most: object) -> _Operand:
        """Write the number of tiles; numbers of blocks between 4 and 32 are rounded up to fours."""
        size = self.operand(tiles)
        if split is True:
            return self.up(size, self.up(size, self.whole(64)))
        if split is not False:
            raise _Unsupported
        few = self.add("min", self.whole(8), self.add("//", size, self.operand(least)))
        blocks = self.add("max", self.add("max", self.up(size, self.operand(most)), few), self.whole(1))
        four = self.whole(4)
        between = self.add("min", self.add("max", blocks, four), self.whole(32))
        more = self.add("-", self.add("*", self.up(between, four), four), between)
        return self.up(size, self.add("+", blocks, more))

    def has_table(self, array: object) -> bool:
        """Write a table of offsets, and note how long it is; other arrays are only noted."""
        operands: tuple[Any, ...] = ((), (), 0, 0, 0)
        if isinstance(array, SizeFormula) and array.function in (tap_table, row_table):
            operands = (*array.operands, 1, 0)[:5]
        window, steps, origin, channels, channel_step = operands
        if not channels or not all(isinstance(extent, int) for extent in (*window, channels)):
            self.lengths.append(BY_PYTHON)
            return False
        axes = [(extent, step) for extent, step in zip(window, steps, strict=True) if extent != 1]
        place = sum(length for length in self.lengths if length != BY_PYTHON)
        given = [place, origin, channels, channel_step, *(x for axis in axes for x in axis)]
        self.add("taps", self.row(list(map(self.operand, given))), self.whole(len(axes)))
        self.lengths.append(math.prod([channels, *(extent for extent, _ in axes)]))
        return True


_EXPANSIONS: Mapping[Any, Callable[..., _Operand]] = {
    first_that_covers: _Writer.first_that_covers,
    tiles_per_block: _Writer.tiles_per_block,
}
