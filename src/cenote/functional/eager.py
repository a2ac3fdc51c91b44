"""One operator on arrays, without a graph: the dispatch behind `cenote.functional`.

`prepare` does once, for given types, what does not depend on the arrays' content: it picks a lowering, generates the
kernels and makes a small program. The runner that it returns does the rest. Callers keep runners, one per signature:
`run` for those who have none. An operator without a lowering for plain memory runs its reference.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

from cenote.codegen import jit
from cenote.core import settings
from cenote.core.errors import ArgumentError
from cenote.core.types import PLAIN, Array, TensorType
from cenote.kernels.base import View, dense_strides
from cenote.kernels.driver import CALL_ARRAYS, direct_call, driver_abi
from cenote.kernels.launch import Launcher, with_constants
from cenote.ops.base import Arrays, Lowering, Op, Types
from cenote.runtime.memory import address_of, aligned_bytes, aligned_copy
from cenote.runtime.program import HostStep, KernelStep, Program, Slot, Step
from cenote.runtime.threads import resolve_threads

Runner = Callable[[Sequence[Array | None], Sequence[Array] | None], Arrays]
"""Takes the inputs and, or None, the outputs to fill; returns the outputs.

Arrays are row-major and in native byte order, outputs writable and apart from the inputs. Only their memory counts:
a runner reads each as the type it was prepared for, whatever shape the array has. Outputs that it makes have the
shapes that `prepare` was given.
"""

_WORTH_THREADS = 40e-6  # seconds of work below which a second thread costs more than it brings


def prepare(
    op: Op,
    inputs: Sequence[TensorType | None],
    threads: int | None = None,
    shapes: Sequence[tuple[int, ...]] = (),
) -> Runner:
    """A runner for inputs of these types. `shapes` of as many elements may replace those of the outputs.

    Raises what `op.infer` raises, and ArgumentError for a number of threads out of range.
    """
    types = op.infer(*inputs)
    shown = tuple(shapes) or tuple(y.shape for y in types)
    count = resolve_threads(threads)
    best = _best_lowering(op, inputs)
    if best is None or not all(y.size for y in types):
        return _reference_runner(op, tuple(inputs), types, shown)
    return _Native(best, inputs, types, shown, count).runner()


def _best_lowering(op: Op, inputs: Sequence[TensorType | None]) -> Lowering | None:
    """The quickest lowering that works on the caller's memory as it is."""
    options = [
        option
        for option in op.lowerings(inputs, jit.host_target())
        if all(layout == PLAIN or x is None for layout, x in zip(option.inputs, inputs, strict=True))
        and all(layout == PLAIN for layout in option.outputs)
    ]
    return min(options, key=lambda option: option.seconds, default=None)


class _Native:
    """A lowering bound to the caller's arrays, as a program whose inputs and outputs are they."""

    def __init__(
        self, option: Lowering, inputs: Sequence[TensorType | None], outputs: Types,
        shapes: Sequence[tuple[int, ...]], threads: int,
    ) -> None:  # fmt: skip
        self.outputs, self.shapes = outputs, shapes
        self.inputs = [x for x in inputs if x is not None]
        self.constants: list[Array] = []
        offset, temporaries = 0, []
        for type in option.temporaries:
            temporaries.append(View(type, PLAIN, dense_strides(type.shape), Slot("arena", 0, offset)))
            offset += -(-type.nbytes // 64) * 64
        self.arena_bytes = offset
        self.alone = threads == 1 or option.seconds < _WORTH_THREADS
        self.threads = 1 if self.alone else threads
        self.flush = settings.DENORMALS.choice() == "flush"
        made = [_view(y, "output", index) for index, y in enumerate(outputs)]
        places = iter(range(len(self.inputs)))
        given = [None if x is None else _view(x, "input", next(places)) for x in inputs]
        calls = [with_constants(call, self._constant) for call in option.bind(given, [*made, *temporaries])]
        launcher = Launcher(calls, jit.host_target())
        self.steps = tuple(launcher.step(call) for call in calls)
        self.checks: tuple[Step, ...] = ()
        if option.check is not None:
            noted = (temporaries[-1].slot, temporaries[-1].type)
            self.checks = (HostStep("check", option.check, (noted,), ()),)

    def _constant(self, array: Array) -> Slot:
        self.constants.append(aligned_copy(array, "a constant of an operator"))
        return Slot("constant", len(self.constants) - 1)

    def runner(self) -> Runner:
        if self.alone and len(self.steps) == 1 and not self.arena_bytes:
            short = _single_runner(
                self.steps[0], self.constants, len(self.inputs), self.outputs, self.shapes, self.flush
            )
            if short is not None:
                return short
        program = Program(
            (*self.steps, *self.checks), tuple(self.inputs), self.outputs, tuple(self.constants), self.arena_bytes,
            driver_abi(), self.threads, self.alone, self.flush,
        )  # fmt: skip
        shapes = self.shapes

        def run(arrays: Sequence[Array | None], out: Sequence[Array] | None) -> Arrays:
            present = [x for x in arrays if x is not None]
            results = program.run(present, out)
            if out is not None:
                return tuple(out)
            return tuple(y.reshape(shape) for y, shape in zip(results, shapes, strict=True))

        return run


def _view(type: TensorType, kind: str, index: int) -> View:
    return View(type, PLAIN, dense_strides(type.shape), Slot(kind, index))


class _Record:
    """Memory of one call in progress: the argument record, scratch, and the block that cenote_call reads."""

    def __init__(
        self, step: KernelStep, values: Sequence[int], patches: Sequence[tuple[int, int, int]], flush: bool
    ) -> None:
        self.words = (ctypes.c_int64 * max(1, len(values)))(*values)
        self.scratch = aligned_bytes(step.scratch, "scratch memory")
        head = (
            step.address,
            ctypes.addressof(self.words),
            step.items,
            address_of(self.scratch),
            len(patches),
            0,
            step.grain,
            int(flush),
        )
        flat = [*head, *(number for patch in patches for number in patch)]
        self.block = (ctypes.c_int64 * len(flat))(*flat)
        self.address = ctypes.addressof(self.block)


def _single_runner(
    step: KernelStep,
    constants: Sequence[Array],
    inputs: int,
    outputs: Types,
    shapes: Sequence[tuple[int, ...]],
    flush: bool,
) -> Runner | None:
    """The short way for small work: one kernel, called directly, with a record per call in progress."""
    native = direct_call()
    if native is None or inputs + len(outputs) > CALL_ARRAYS:
        return None
    values, patches = [], []
    for position, word in enumerate(step.words):
        if isinstance(word, int):
            values.append(word)
        elif word.kind == "constant":
            values.append(address_of(constants[word.index]) + word.offset)
        else:
            values.append(0)
            patches.append((position, word.index + (inputs if word.kind == "output" else 0), word.offset))
    made = tuple((shape, y.dtype) for shape, y in zip(shapes, outputs, strict=True))
    absent = (None,) * (CALL_ARRAYS - inputs - len(outputs))
    free: list[_Record] = []
    empty = np.empty

    def run(
        arrays: Sequence[Array | None], out: Sequence[Array] | None, kept: Sequence[Array] = tuple(constants)
    ) -> Arrays:
        if out is not None:
            results = tuple(out)
        elif len(made) == 1:  # spelled out for one and two: 0.2 us less than a comprehension
            results = (empty(*made[0]),)
        else:
            results = (empty(*made[0]), *[empty(*item) for item in made[1:]])
        try:
            record = free.pop()
        except IndexError:
            record = _Record(step, values, patches, flush)
        if len(arrays) != inputs:
            arrays = [x for x in arrays if x is not None]
        while native(record.address, *arrays, *results, *absent):
            pass  # Python handles signals here
        free.append(record)
        return results

    return run


def _reference_runner(
    op: Op, inputs: tuple[TensorType | None, ...], outputs: Types, shapes: Sequence[tuple[int, ...]]
) -> Runner:
    def runner(arrays: Sequence[Array | None], out: Sequence[Array] | None) -> Arrays:
        shaped = [
            None if x is None or t is None else x.reshape(t.shape)
            for x, t in zip(arrays, inputs, strict=True)
        ]
        results = op.reference(*shaped)
        if out is None:
            return tuple(y.reshape(shape) for y, shape in zip(results, shapes, strict=True))
        for target, y in zip(out, results, strict=True):
            target[...] = y.reshape(target.shape)
        return tuple(out)

    return runner


def run(
    op: Op, arrays: Sequence[Array | None], out: Sequence[Array] | None = None, threads: int | None = None
) -> Arrays:
    """The outputs of an operator for row-major arrays; `out`: arrays to fill, of the outputs' types.

    Raises what `op.infer` raises, and ArgumentError where `out` does not fit.
    """
    types = [None if x is None else TensorType.known(x) for x in arrays]
    if out is not None:
        for index, (target, wanted) in enumerate(zip(out, op.infer(*types), strict=True)):
            if target.shape != wanted.shape or target.dtype != wanted.dtype:
                raise ArgumentError(
                    f"{op.name}: out {index} must be {wanted}, got {target.dtype} {list(target.shape)}"
                )
    return prepare(op, types, threads)(arrays, out)


__all__ = ["Runner", "prepare", "run"]
