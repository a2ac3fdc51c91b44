"""NativeFunction functions beside kernels: what they do when they run, and what cannot be written."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Thread
from typing import Any

import numpy as np
import pytest

from cenote.codegen import jit
from cenote.codegen.native import (
    ACQUIRE,
    Bool,
    Bytes,
    Int32,
    Int64,
    Native,
    NativeFunction,
    NativeModule,
    Words,
    native,
)
from cenote.codegen.values import BOOL, I32, I64
from cenote.core.target import Target


@dataclass(frozen=True)
class Source:
    """A native function, as a thing to compile."""

    function: NativeFunction[..., Any]

    @property
    def symbol(self) -> str:
        return self.function.name

    def emit(self, target: Target) -> NativeModule:
        return NativeModule(self.function, target)


def loaded(
    function: NativeFunction[..., Any], result: Any = ctypes.c_int64, arguments: int = 1
) -> Callable[..., Any]:
    """A native function, to be called with addresses and numbers."""
    target = jit.host_target()
    source = Source(function)
    address = jit.addresses([source], target)[source.symbol]
    return ctypes.CFUNCTYPE(result, *[ctypes.c_int64] * arguments)(address)


def words(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@native
def native_is_below(f: Native, a: Int64, b: Int64) -> Bool:
    return a < b


@native
def native_count(f: Native, data: Words, count: Int64, limit: Int64) -> Int64:
    """How many of the numbers are below the limit; odd indices are looked past; -1 when a zero is met."""
    index, found = f.variable(f.integer(-1)), f.variable(f.integer(0))
    with f.loop() as loop:
        index.value += 1
        loop.leave_if(index.value >= count)
        loop.again_if((index.value & 1).differs(0))
        f.return_if(data.load(index.value).equals(0), f.integer(-1))
        with f.when(native_is_below(f, data.load(index.value), limit)):
            found.value += 1
    return found.value


def test_loops_are_left_and_begun_anew_and_functions_return_early() -> None:
    count = loaded(native_count, arguments=3)
    for values in ([5, 0, 7, 0, 1, 0], [], [9], [1, 1, 0, 1], [3, 9, 2]):
        data = words(*values)
        even = values[::2]
        want = -1 if 0 in even else sum(value < 6 for value in even)
        assert count(data.ctypes.data, len(values), 6) == want


@native
def native_either(f: Native, data: Words, flag: Int64) -> Int64:
    total = f.variable(f.integer(0))
    for holds in f.either(flag.differs(0)):
        total.value = data.load() + (100 if holds else 200)
        with f.loop() as loop:
            loop.leave()
            total.value = f.integer(-1)
    return total.value


def test_either_emits_both() -> None:
    either, data = loaded(native_either, arguments=2), words(7)
    assert (either(data.ctypes.data, 1), either(data.ctypes.data, 0)) == (107, 207)


@native
def native_shared(f: Native, data: Words, turns: Int64) -> None:
    """Add 1 to a word and 3 to another so many times, one way each; a narrow one is counted down."""
    for _ in f.range(0, turns):
        f.fetch_add(data, 1)
        f.fetch_add((data + 2).cast(I32), -1)
        seen = f.variable(f.load_atomic(data + 1))
        with f.loop() as loop:
            there, won = f.compare_exchange(data + 1, seen.value, seen.value + 3)
            loop.leave_if(won)
            seen.value = there
            f.pause()
    f.fence()
    f.store_atomic(f.load_atomic(data, ACQUIRE), data + 3)


def test_threads_lose_no_count() -> None:
    shared, data = loaded(native_shared, None, 2), words(0, 0, 2**40 + 100_000, 0)
    threads = [Thread(target=shared, args=(data.ctypes.data, 20_000)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert data.tolist() == [80_000, 240_000, 2**40 + 20_000, 80_000]


@native
def native_addresses(f: Native, text: Bytes, places: Words) -> Int64:
    """The length of a text by the C library, by way of addresses in memory; stack words are set and copied."""
    f.store_pointer(f.select_pointer(f.is_null(text), f.null(), text.cast(I64)), places)
    room = f.array(2)
    f.clear(room, 2)
    room.store(f.integer(5), 1)
    f.copy(room, places + 1, 2)
    return f.external("strlen", f.load_pointer(places), result=I64)


def test_addresses_are_kept_and_followed() -> None:
    places, text = words(1, 1, 1, 1), ctypes.create_string_buffer(b"hello you")
    measure = loaded(native_addresses, arguments=2)
    assert measure(ctypes.addressof(text), places.ctypes.data) == 9
    assert places.tolist() == [ctypes.addressof(text), 0, 5, 1]


@native
def native_printed(f: Native, text: Bytes, number: Int32) -> Int32:
    """Print a number in hexadecimal into a text, by a function of any number of arguments."""
    shape = f.array(1)
    shape.store(f.integer(int.from_bytes(b"%x\0", "little")))
    return f.external("sprintf", text, shape, number, result=I32, fixed=2)


def test_functions_of_any_number_of_arguments_are_called() -> None:
    text = ctypes.create_string_buffer(9)
    assert loaded(native_printed, ctypes.c_int32, 2)(ctypes.addressof(text), 48879) == 4
    assert text.value == b"beef"


@dataclass(frozen=True)
class Part:
    """Words from one index to another."""

    data: Words
    begin: Int64
    end: Int64


@native
def native_sum(f: Native, factor: Int64, part: Part, initial: Int64) -> Int64:
    total = f.variable(initial)
    for index in f.range(part.begin, part.end):
        total.value += part.data.load(index) * factor
    return total.value


@native
def native_two_sums(f: Native, data: Words, middle: Int64, end: Int64) -> Int64:
    first = native_sum(f, f.integer(1), Part(data, f.integer(0), middle), f.integer(0))
    return native_sum(f, f.integer(10), Part(data, middle, end), first)


def test_operands_are_passed_together() -> None:
    assert loaded(native_two_sums, arguments=3)(words(1, 2, 3, 4).ctypes.data, 1, 4) == 1 + 90


def test_a_call_takes_what_the_function_declares() -> None:
    @native
    def wrong(f: Native, a: Int32) -> Bool:
        return native_is_below(f, a, a)

    with pytest.raises(AssertionError, match="native_is_below"):
        NativeModule(wrong, jit.host_target())


@native
def native_twice(f: Native, a: Int64) -> Bool:
    return native_is_below(f, a, a) & native_is_below(f, a, f.integer(3)) & f.constant(BOOL, 1)


@pytest.mark.parametrize("triple", ["x86_64-linux-gnu", "aarch64-linux-gnu", "riscv64-linux-gnu"])
def test_what_is_called_twice_is_defined_once_and_hidden(triple: str) -> None:
    text = NativeModule(native_twice, replace(jit.host_target(), triple=triple)).module()
    assert text.count("call i1 @native_is_below(") == 2
    assert text.count("define internal i1 @native_is_below(") == 1
    assert text.count("define ") == 2


@native
def native_case(f: Native, number: Int64, a: Int64, b: Int64) -> Int64:
    """The sum, the difference or the product; -1 where it does not fit, -2 for another number."""
    result = f.variable(f.integer(-2))
    for case in f.cases(number, 3):
        value, overflows = f.checked(("add", "sub", "mul")[case], a, b)
        result.value = f.select(overflows, f.integer(-1), value)
    return result.value


def test_one_case_of_many_is_carried_out_and_overflows_are_told() -> None:
    case = loaded(native_case, arguments=3)
    assert [case(number, 7, 5) for number in (-1, 0, 1, 2, 3)] == [-2, 12, 2, 35, -2]
    largest = (1 << 63) - 1
    assert [case(0, largest, each) for each in (0, 1)] == [largest, -1]
    assert [case(1, -largest, each) for each in (1, 2)] == [-largest - 1, -1]
    assert [case(2, 1 << 32, each) for each in ((1 << 31) - 1, 1 << 31)] == [(1 << 63) - (1 << 32), -1]
