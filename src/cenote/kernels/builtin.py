"""Functions of the interpreter made of generated code: known calls of a function on arrays, each a record of words.

`kernels.driver.known` says what the native side does with it. Python adds known calls and takes them away again; both
it and the native code hold the GIL meanwhile.
"""

from __future__ import annotations

import ctypes
import marshal
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from cenote.codegen import jit
from cenote.core.types import native_dtype
from cenote.kernels.base import dense_strides
from cenote.kernels.driver import FUNCTION_ON_ARRAYS
from cenote.kernels.launch import DirectRunner
from cenote.runtime.layouts import ARRAY, FUNCTION, KNOWN
from cenote.runtime.memory import address_of
from cenote.runtime.objects import natives_take_objects

# Estimated seconds of a kernel that keeps the GIL: other threads would hardly gain by having it for so long.
_SHORT = 10e-6
# Most known calls of a function. One that does not fit takes 4 ns; the layers of a network are some twenty.
MOST_KNOWN = 32
_FASTCALL = 0x80  # METH_FASTCALL
_CONSTANT = (type(None), bool, int, float, str)


class _MethodDefinition(ctypes.Structure):
    """PyMethodDef of CPython."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@cache
def _definition() -> _MethodDefinition:
    """Definition of all builtins, which differ in what they are bound to. The cache keeps it for good."""
    address = jit.addresses([FUNCTION_ON_ARRAYS], jit.host_target())[FUNCTION_ON_ARRAYS.symbol]
    return _MethodDefinition(b"cenote_function", address, _FASTCALL, None)


class Builtin:
    """Builtin function whose arguments are those of `slow`: arrays and other arguments as tuples, `out`, `threads`.

    It runs known calls itself, and gives all others to `slow`.
    """

    def __init__(self, slow: Callable[[tuple[Any, ...], tuple[Any, ...], Any, Any], Any]) -> None:
        self._memory = np.zeros(FUNCTION.size, np.int64)
        self._known: list[KnownCall] = []
        self._memory[FUNCTION.slow] = id(slow)
        self._memory[FUNCTION.array], self._memory[FUNCTION.tuple] = id(np.ndarray), id(tuple)
        self._memory[FUNCTION.none] = id(None)
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
        bound = (self._memory, slow, self._known)
        self.function: Callable[..., Any] = make(ctypes.addressof(_definition()), bound, "cenote")

    @staticmethod
    def is_possible() -> bool:
        """Whether this interpreter takes them."""
        return natives_take_objects()

    def add(self, call: KnownCall) -> None:
        """Add a known call, which is looked for first."""
        self._known.append(call)
        call.memory[KNOWN.next] = self._memory[FUNCTION.first]
        self._memory[FUNCTION.first] = address_of(call.memory)

    def forget(self) -> None:
        """Forget all known calls; those in progress end normally."""
        self._memory[FUNCTION.first] = 0
        self._known.clear()


class KnownCall:
    """A call that has been prepared, for inputs like those that are given: arrays, and other objects, which must then
    be the same ones."""

    def __init__(
        self,
        runner: DirectRunner,
        given: Sequence[Any],
        arguments: tuple[Any, ...],
        threads: object,
        in_place: Collection[int],
    ) -> None:
        record, key = runner.record(), list[Any]((arguments, threads))
        said = marshal.dumps(tuple(key), 2)
        count, results = len(given), len(runner.results)
        self.memory = np.zeros(KNOWN.size + ARRAY.size * (count + results), np.int64)
        # What the addresses belong to; native code holds this object while it uses them.
        self._kept: list[Any] = [runner, record, arguments, threads, said]
        words = {
            KNOWN.owner: id(self),
            KNOWN.record: record.address,
            KNOWN.short: int(runner.seconds < _SHORT),
            KNOWN.given: count,
            KNOWN.inputs: runner.inputs,
            KNOWN.results: results,
            KNOWN.arguments: id(arguments) if _is_constant(arguments) else 0,
            KNOWN.threads: id(threads),
            KNOWN.said: id(said),
            KNOWN.empty: id(np.empty),
        }
        for word, value in words.items():
            self.memory[word] = value
        for place, x in enumerate(given):
            if isinstance(x, np.ndarray):
                self._describe(place, x.shape, x.dtype, x.strides, place in in_place)
            else:
                self._write(place, {ARRAY.shape: id(x), ARRAY.axes: -1})
                self._kept.append(x)
        for place, (shape, dtype) in enumerate(runner.results):
            strides = tuple(step * dtype.itemsize for step in dense_strides(shape))
            self._describe(count + place, shape, native_dtype(dtype), strides)

    def _describe(
        self,
        place: int,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        strides: tuple[int, ...],
        in_place: bool = False,
    ) -> None:
        numbers = np.array([*shape, *strides], np.int64)
        self._kept += [shape, dtype, numbers]
        fields = {
            ARRAY.shape: id(shape),
            ARRAY.dtype: id(dtype),
            ARRAY.axes: len(shape),
            ARRAY.extents: address_of(numbers),
            ARRAY.nbytes: math.prod(shape) * dtype.itemsize,
            ARRAY.in_place: int(in_place),
        }
        self._write(place, fields)

    def _write(self, place: int, fields: Mapping[int, int]) -> None:
        for word, value in fields.items():
            self.memory[KNOWN.size + ARRAY.size * place + word] = value


def _is_constant(value: object) -> bool:
    """Whether a value cannot change: the same object then is the same value."""
    if type(value) is tuple:
        return all(map(_is_constant, value))
    return type(value) in _CONSTANT
