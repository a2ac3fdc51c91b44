"""Steps of a program made from calls of kernels: kernels get addresses, and arguments become words. Also the short
path of a single step that is called alone, without a program."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from cenote.codegen import jit
from cenote.codegen.emission import KernelSource
from cenote.core.sizes import plain
from cenote.core.target import Target
from cenote.core.types import PLAIN, Array, TensorType
from cenote.kernels.base import Argument, Call, KernelSpec, Packed, View, word_of
from cenote.kernels.driver import DRIVER, direct_call
from cenote.runtime.layouts import CALL, CALL_ARRAYS, PATCH
from cenote.runtime.memory import address_of, aligned_bytes
from cenote.runtime.steps import KernelStep, Slot, SlotKind

_CONTENTS = np.ndarray, Packed


def with_constants(
    call: Call, constant: Callable[[Array], Slot], later: Callable[[Packed], Slot] | None = None
) -> Call:
    """Return the call with its arrays in the program's constants.

    `constant` puts an array there, `later` one that is packed later (without it, it is packed now).
    """

    def placed(argument: Argument) -> Argument:
        if not isinstance(argument, _CONTENTS):
            return argument
        if isinstance(argument, Packed):
            slot = constant(argument.make()) if later is None else later(argument)
        else:
            slot = constant(argument)
        return View(TensorType(argument.dtype, argument.shape), PLAIN, (), slot)

    if not any(isinstance(argument, _CONTENTS) for argument in call.arguments):
        return call
    return replace(call, arguments=tuple(map(placed, call.arguments)))


class Launcher:
    """Kernels of some calls, and the driver, compiled and loaded together. Where a call may be of several kernels,
    those that the sizes at hand do not need are compiled afterwards, while others may run."""

    def __init__(self, calls: Iterable[Call], target: Target, loads: bool = True) -> None:
        """`loads`: whether this process will run the kernels; else none is compiled, and addresses are 0."""
        calls = {id(call): call for call in calls}.values()
        chosen = dict.fromkeys(chosen_spec(call) for call in calls)
        others = dict.fromkeys(spec for call in calls for spec in call.specs if spec not in chosen)
        sources: list[KernelSource] = [*chosen, *DRIVER]
        addresses = jit.addresses(sources, target, others) if loads else {}
        self._others, self._target = tuple(others), target
        # Many steps share a kernel, and making a symbol takes 10 us.
        self._kernels = {
            spec: (symbol := spec.symbol, addresses.get(symbol, 0)) for spec in (*chosen, *others)
        }

    def kernels(self, call: Call) -> list[tuple[str, int]]:
        """Return symbols and addresses of the kernels that a call may be of; the address is 0 where `rest` will give
        it."""
        return [self._kernels[spec] for spec in call.specs]

    def rest(self) -> dict[str, int]:
        """Wait until the kernels that the sizes at hand do not need are compiled, and return their addresses by
        symbol."""
        return jit.addresses(self._others, self._target)

    def step(
        self,
        call: Call,
        label: str = "",
        barrier: bool = True,
        words: tuple[int | Slot, ...] | None = None,
    ) -> KernelStep:
        """Return the step of a call whose arguments are numbers and places, unless its `words` are given. The symbol
        is the label if there is no other."""
        symbol, address = self._kernels[chosen_spec(call)]
        if words is None:
            words = tuple(word_of(argument) for argument in call.arguments)
        return KernelStep(
            label or symbol, symbol, address, words, call.items, call.grain, call.scratch, barrier
        )


def chosen_spec(call: Call) -> KernelSpec:
    """Return the kernel of a call for the sizes at hand."""
    return call.specs[int(plain(call.chosen))]


Runner = Callable[[Sequence[Array | None], Sequence[Array] | None], tuple[Array, ...]]
"""Function that takes the inputs and the outputs to fill (or None), and returns the outputs.

Arrays are row-major and in native byte order, outputs writable and apart from the inputs. Only their memory counts: a
runner reads each as the type it was prepared for, whatever shape the array has.
"""


class CallRecord:
    """Memory of one call in progress: the argument record, scratch, and the block that cenote_call reads."""

    def __init__(
        self, step: KernelStep, values: Sequence[int], patches: Sequence[tuple[int, int, int]], flush: bool
    ) -> None:
        self.words = (ctypes.c_int64 * max(1, len(values)))(*values)
        self.scratch = aligned_bytes(step.scratch, "scratch memory")
        block = (ctypes.c_int64 * (CALL.size + PATCH.size * len(patches)))()
        block[CALL.kernel], block[CALL.words] = step.address, ctypes.addressof(self.words)
        block[CALL.items], block[CALL.scratch] = step.items, address_of(self.scratch)
        block[CALL.patches], block[CALL.stride], block[CALL.flush] = len(patches), step.grain, int(flush)
        for row, (word, array, offset) in enumerate(patches):
            place = CALL.size + PATCH.size * row
            block[place + PATCH.word], block[place + PATCH.array] = word, array
            block[place + PATCH.offset] = offset
        self.block = block
        self.address = ctypes.addressof(self.block)


class DirectRunner:
    """Runner of one kernel that is called directly, without a program: the short path of small work. Each call in
    progress has a record of its own.

    Raises ValueError where that is not possible (`is_possible`).
    """

    def __init__(
        self,
        step: KernelStep,
        constants: Sequence[Array],
        inputs: int,
        outputs: Sequence[TensorType],
        shapes: Sequence[tuple[int, ...]],
        flush: bool,
        seconds: float,
    ) -> None:
        native = direct_call()
        if native is None:
            raise ValueError("native code does not find the data of arrays")
        self._native, self._step, self._constants, self._flush = native, step, tuple(constants), flush
        self.inputs, self.seconds = inputs, seconds
        self.results = tuple((shape, y.dtype) for shape, y in zip(shapes, outputs, strict=True))
        self._absent = (None,) * (CALL_ARRAYS - inputs - len(outputs))
        self._free: list[CallRecord] = []
        self._values, self._patches = list[int](), list[tuple[int, int, int]]()
        for position, word in enumerate(step.words):
            if isinstance(word, int):
                self._values.append(word)
            elif word.kind is SlotKind.CONSTANT:
                self._values.append(address_of(constants[word.index]) + word.offset)
            else:
                array = word.index + (inputs if word.kind is SlotKind.OUTPUT else 0)
                self._values.append(0)
                self._patches.append((position, array, word.offset))

    @staticmethod
    def is_possible(arrays: int) -> bool:
        """Whether a kernel can be called directly on so many arrays."""
        return arrays <= CALL_ARRAYS and direct_call() is not None

    def record(self) -> CallRecord:
        """Return a record for one call at a time. The kernel's constants live as long as this runner."""
        return CallRecord(self._step, self._values, self._patches, self._flush)

    def __call__(self, arrays: Sequence[Array | None], out: Sequence[Array] | None) -> tuple[Array, ...]:
        if out is not None:
            results = tuple(out)
        elif len(self.results) == 1:  # one result is spelled out: 0.2 us less than a comprehension
            results = (np.empty(*self.results[0]),)
        else:
            results = tuple([np.empty(*each) for each in self.results])
        try:
            record = self._free.pop()
        except IndexError:
            record = self.record()
        if len(arrays) != self.inputs:
            arrays = [x for x in arrays if x is not None]
        while self._native(record.address, *arrays, *results, *self._absent):
            pass  # Python handles signals here
        self._free.append(record)
        return results
