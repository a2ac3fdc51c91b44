"""One kernel called on the arrays of a caller, by the native driver."""

from __future__ import annotations

from cenote.codegen.native import Bytes, Int32, Native, Words, native
from cenote.codegen.values import I32, U8, Pointer, Value
from cenote.kernels.driver.modes import enter_mode, leave_mode
from cenote.kernels.driver.records import WordsByName
from cenote.kernels.driver.run import KernelWork, stretch
from cenote.kernels.driver.waiting import SLICE, now
from cenote.runtime.layouts import CALL, CALL_ARRAYS, PATCH
from cenote.runtime.memory import DATA_FIELD


@native
def cenote_call(f: Native, record: Words, a: Bytes, b: Bytes, c: Bytes, d: Bytes) -> Int32:
    """Call a kernel with the data of some arrays. Return 1 where the time was up: call again for the rest."""
    arrays = f.array(CALL_ARRAYS)
    for place, array in enumerate((a, b, c, d)):
        f.store_pointer(array, arrays + place)
    return call_on(f, record, arrays)


@native
def call_on(f: Native, record: Words, arrays: Words) -> Int32:
    """Call a kernel with the data of arrays whose addresses lie in a row; the result is that of `cenote_call`."""
    call = WordsByName(CALL, record)
    work = KernelWork.of(f, call, call.begin.load(), f.load_pointer(call.scratch, U8))
    _set_addresses(f, work.words, arrays, record + CALL.size, call.patches.load())
    mode = enter_mode(f, call.flush.load())
    clock, start = f.array(1), now(f)
    clock.store(start)
    end = stretch(f, work, clock, start + SLICE)
    leave_mode(f, mode)
    is_left = end < work.items
    call.begin.store(f.select(is_left, end, f.integer(0)))
    return is_left.to(I32)


def _set_addresses(f: Native, words: Pointer, arrays: Pointer, patches: Pointer, count: Value) -> None:
    """Emit the addresses of the arrays' data into the words of the argument record."""
    index = f.variable(f.integer(0))
    with f.loop() as loop:
        loop.leave_if(index.value >= count)
        patch = WordsByName(PATCH, patches, index.value)
        place = patch.word.load()
        array = f.load_pointer(arrays + patch.array.load(), U8)
        data = f.load_pointer(array + (DATA_FIELD or 0), U8)
        f.store_pointer(data.offset_unchecked(patch.offset.load()), words + place)
        index.value += 1
