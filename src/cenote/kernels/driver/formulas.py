"""Formulas of sizes in native code: a table of instructions, carried out one by one.

`core.formulas.instructions` has the table and what each operation does. Whatever it leaves to Python (a result that
does not fit 64 bits, a division by zero, a float that is no whole number of 62 bits) ends it: Python's own evaluation
then has the exact answer or the error. MobileNet-v2's 2,200 instructions take 8 us.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cenote.codegen.native import Int32, Int64, Native, Words, native
from cenote.codegen.values import F64, I32, I64, U64, Value
from cenote.core.formulas.instructions import ASK, DONE, OPERATIONS, REFUSED
from cenote.kernels.driver.records import WordsByName
from cenote.runtime.layouts import INSTRUCTION

_LEAST = -(1 << 63)
_EXACT = 1 << 53  # whole numbers up to here are floats
_WHOLE = float(1 << 62)  # floats below are whole numbers of 64 bits once rounded
_MOST_OFFSET = 1 << 31


@native
def cenote_formulas(
    f: Native, code: Words, count: Int64, slots: Words, first: Int64, tables: Words, room: Int64
) -> Int32:
    """Carry out `count` instructions, whose results go to the slots from `first` on, and whose tables of offsets to
    `tables` (32 bits each, `room` of them). Return `DONE`, `REFUSED` or `ASK`."""
    result = f.variable(f.integer(0))
    for index in f.range(0, count):
        at, record = first + index, WordsByName(INSTRUCTION, code, index)
        operation, a, b = record.operation.load(), record.a.load(), record.b.load()
        are_made = (a.bits(U64) < at.bits(U64)) & (b.bits(U64) < at.bits(U64))
        _ask_unless(f, are_made & (operation.bits(U64) < len(OPERATIONS)))
        x, y = slots.load(a), slots.load(b)
        for case in f.cases(operation, len(OPERATIONS)):
            name = OPERATIONS[case]
            if name in _PLAIN:
                result.value = _PLAIN[name](f, x, y)
            elif name == "guard":
                f.return_if(x.differs(y), f.constant(I32, REFUSED))
            elif name == "item":
                result.value = _item(f, slots, a, y, at)
            else:
                assert name == "taps", name
                failure = taps(f, slots + a, y, at - a, tables, room)
                f.return_if(failure.differs(DONE), failure)
        slots.store(result.value, at)
    return f.constant(I32, DONE)


def _ask_unless(f: Native, condition: Value) -> None:
    f.return_if(~condition, f.constant(I32, ASK))


def _ask_if(f: Native, condition: Value) -> None:
    f.return_if(condition, f.constant(I32, ASK))


# ---- whole numbers --------------------------------------------------------------------------------------------------


def _checked(operation: str) -> Callable[[Native, Value, Value], Value]:
    def emit(f: Native, x: Value, y: Value) -> Value:
        result, overflows = f.checked(operation, x, y)
        _ask_if(f, overflows)
        return result

    return emit


def _quotient(f: Native, x: Value, y: Value) -> Value:
    """Emit Python's quotient, rounded down."""
    _ask_if(f, y.equals(0) | (x.equals(_LEAST) & y.equals(-1)))
    quotient = x // y
    rest = x - quotient * y
    return quotient - (rest.differs(0) & ((rest ^ y) < 0)).to(I64)


def _item(f: Native, slots: Words, a: Value, index: Value, at: Value) -> Value:
    """Emit the item of a row: its length, then its items."""
    length = slots.load(a)
    _ask_unless(f, (index >= 0) & (index < length) & (length < at - a))
    return slots.load(a + index + 1)


# ---- floats ---------------------------------------------------------------------------------------------------------


def _of_floats(emit: Callable[[Native, Value, Value], Value]) -> Callable[[Native, Value, Value], Value]:
    def emit_on_words(f: Native, x: Value, y: Value) -> Value:
        result = emit(f, x.bits(F64), y.bits(F64))
        return result.bits(I64) if result.type is F64 else result.to(I64)

    return emit_on_words


def _float_quotient(f: Native, x: Value, y: Value) -> Value:
    _ask_if(f, y.equals(0.0))
    return x / y


def _exact(f: Native, x: Value, _: Value) -> Value:
    """Emit the float that is this whole number."""
    _ask_unless(f, (x <= _EXACT) & (x >= -_EXACT))
    return x.to(F64).bits(I64)


def _whole(up: bool, down: bool) -> Callable[[Native, Value, Value], Value]:
    """Emit the whole number next to a float: towards 0, or up or down."""

    def emit(f: Native, x: Value, _: Value) -> Value:
        _ask_unless(f, (x < _WHOLE) & (x > -_WHOLE))  # which a NaN is not, either
        whole = x.to(I64)
        if up:
            return whole + (whole.to(F64) < x).to(I64)
        return whole - (whole.to(F64) > x).to(I64) if down else whole

    return _of_floats(emit)


_PLAIN: Mapping[str, Callable[[Native, Value, Value], Value]] = {
    "copy": lambda f, x, y: x,
    "+": _checked("add"),
    "-": _checked("sub"),
    "*": _checked("mul"),
    "//": _quotient,
    # Python's functions return the first of equal ones.
    "max": lambda f, x, y: f.select(y > x, y, x),
    "min": lambda f, x, y: f.select(y < x, y, x),
    "==": lambda f, x, y: x.equals(y).to(I64),
    "<": lambda f, x, y: (x < y).to(I64),
    "<=": lambda f, x, y: (x <= y).to(I64),
    "float": lambda f, x, y: x.to(F64).bits(I64),
    "exact float": _exact,
    "float +": _of_floats(lambda f, x, y: x + y),
    "float -": _of_floats(lambda f, x, y: x - y),
    "float *": _of_floats(lambda f, x, y: x * y),
    "float /": _of_floats(_float_quotient),
    "float neg": _of_floats(lambda f, x, y: -x),
    "float max": _of_floats(lambda f, x, y: f.select(y > x, y, x)),
    "float min": _of_floats(lambda f, x, y: f.select(y < x, y, x)),
    "float ==": _of_floats(lambda f, x, y: x.equals(y)),
    "float <": _of_floats(lambda f, x, y: x < y),
    "float <=": _of_floats(lambda f, x, y: x <= y),
    "floor": _whole(up=False, down=True),
    "ceil": _whole(up=True, down=False),
    "trunc": _whole(up=False, down=False),
}


# ---- tables ---------------------------------------------------------------------------------------------------------


@native
def taps(f: Native, row: Words, axes: Int64, length: Int64, tables: Words, room: Int64) -> Int32:
    """Write a table of offsets (`kernels.tables.tap_table`). The row has its place among the tables, the origin, the
    channels, the step from one to the next, and of each axis of the window the extent and the step."""
    ask = f.constant(I32, ASK)
    f.return_if(~((axes >= 0) & (axes <= 8) & (axes * 2 + 4 <= length)), ask)
    place, origin, channels, channel_step = (row.load(index) for index in range(4))
    is_small = (channels >= 0) & (channels < _MOST_OFFSET) & (place >= 0) & (place <= room)
    f.return_if(~is_small, ask)
    _return_unless_small(f, origin, ask)
    _return_unless_small(f, channel_step, ask)
    count, last = f.variable(channels), f.variable((channels - 1) * channel_step)
    for axis in f.range(0, axes):
        extent, step = row.load(axis * 2 + 4), row.load(axis * 2 + 5)
        f.return_if(~((extent >= 1) & (extent < 1 << 15)), ask)
        _return_unless_small(f, step, ask)
        count.value = count.value * extent
        last.value = last.value + (extent - 1) * step
        f.return_if(~((count.value <= room - place) & (last.value < _MOST_OFFSET)), ask)
    f.return_if(~((count.value <= room - place) & (last.value < _MOST_OFFSET)), ask)
    to = tables.cast(I32)
    for index in f.range(0, count.value):
        # The tap's number among the window's, last axis first, then the channel.
        left, offset = f.variable(index), f.variable(f.integer(0) - origin)
        for axis in f.range(0, axes):
            reverse = axes - 1 - axis
            extent, step = row.load(reverse * 2 + 4), row.load(reverse * 2 + 5)
            quotient = left.value // extent
            offset.value = offset.value + (left.value - quotient * extent) * step
            left.value = quotient
        to.store((offset.value + left.value * channel_step).to(I32), place + index)
    return f.constant(I32, DONE)


def _return_unless_small(f: Native, number: Value, answer: Value) -> None:
    """Emit a return unless a number is at least 0 and fits a table."""
    f.return_if(~((number >= 0) & (number < _MOST_OFFSET)), answer)
