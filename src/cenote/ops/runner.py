"""A lowering as something to call: its kernels bound to the caller's arrays, in a program of their own."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from cenote.codegen import jit
from cenote.core import settings
from cenote.core.types import PLAIN, Array, TensorType
from cenote.kernels.base import Call, View, dense_strides
from cenote.kernels.cost_model import WORTH_THREADS
from cenote.kernels.driver import CALL_ON_ARRAYS, driver_abi
from cenote.kernels.launch import DirectRunner, Launcher, Runner, with_constants
from cenote.ops.base import Arrays, Lowering, Types
from cenote.runtime.memory import aligned_copy
from cenote.runtime.program import Program
from cenote.runtime.steps import HostStep, Slot, SlotKind, Step
from cenote.runtime.threads import resolve_threads


def lowering_runner(
    lowering: Lowering, inputs: Sequence[TensorType], outputs: Types, threads: int | None = None
) -> Runner:
    """A runner of calls that belong to no operator: those whose results' sizes are only known when they are made. What
    it fills may be smaller than the types `outputs` say, where the kernels see to it that they stay within."""
    shapes = tuple(y.shape for y in outputs)
    call = NativeCall(lowering, inputs, outputs, shapes, resolve_threads(threads))
    jit.note_of_host_steps([CALL_ON_ARRAYS.symbol, *(step.symbol for step in call.steps)])
    return call.runner()


def bound_calls(
    option: Lowering, inputs: Sequence[TensorType | None], outputs: Types
) -> tuple[Sequence[Call], list[View], int]:
    """The calls of a lowering on the caller's arrays, its temporaries, and the bytes that these take."""
    offset, temporaries = 0, []
    for type in option.temporaries:
        temporaries.append(View(type, PLAIN, dense_strides(type.shape), Slot(SlotKind.ARENA, 0, offset)))
        offset += -(-type.nbytes // 64) * 64
    made = [_view(y, SlotKind.OUTPUT, index) for index, y in enumerate(outputs)]
    places = itertools.count()
    given = [None if x is None else _view(x, SlotKind.INPUT, next(places)) for x in inputs]
    return option.bind(given, [*made, *temporaries]), temporaries, offset


class NativeCall:
    """A lowering bound to the caller's arrays, as a program whose inputs and outputs are they."""

    def __init__(
        self,
        option: Lowering,
        inputs: Sequence[TensorType | None],
        outputs: Types,
        shapes: Sequence[tuple[int, ...]],
        threads: int,
    ) -> None:
        self.outputs, self.shapes = outputs, shapes
        self.inputs = [x for x in inputs if x is not None]
        self.constants: list[Array] = []
        bound, temporaries, self.arena_bytes = bound_calls(option, inputs, outputs)
        self.seconds = option.seconds
        self.alone = threads == 1 or option.seconds < WORTH_THREADS
        self.threads = 1 if self.alone else threads
        self.flush = settings.DENORMALS.choice() == "flush"
        calls = [with_constants(call, self._constant) for call in bound]
        launcher = Launcher(calls, jit.host_target())
        self.steps = tuple(launcher.step(call) for call in calls)
        self.checks: tuple[Step, ...] = ()
        if option.check is not None:
            noted = (temporaries[-1].slot, temporaries[-1].type)
            self.checks = (HostStep("check", option.check, (noted,), ()),)

    def _constant(self, array: Array) -> Slot:
        self.constants.append(aligned_copy(array, "a constant of an operator"))
        return Slot(SlotKind.CONSTANT, len(self.constants) - 1)

    def runner(self) -> Runner:
        is_one = self.alone and len(self.steps) == 1 and not self.arena_bytes
        if is_one and DirectRunner.is_possible(len(self.inputs) + len(self.outputs)):
            return DirectRunner(
                self.steps[0],
                self.constants,
                len(self.inputs),
                self.outputs,
                self.shapes,
                self.flush,
                self.seconds,
            )
        program = Program(
            (*self.steps, *self.checks),
            tuple(self.inputs),
            self.outputs,
            tuple(self.constants),
            self.arena_bytes,
            driver_abi(),
            self.threads,
            self.alone,
            self.flush,
        )
        return program_runner(program, self.shapes)


def program_runner(program: Program, shapes: Sequence[tuple[int, ...]]) -> Runner:
    def run(arrays: Sequence[Array | None], out: Sequence[Array] | None) -> Arrays:
        results = program.run([x for x in arrays if x is not None], out)
        if out is not None:
            return tuple(out)
        return tuple(y.reshape(shape) for y, shape in zip(results, shapes, strict=True))

    return run


def _view(type: TensorType, kind: SlotKind, index: int) -> View:
    return View(type, PLAIN, dense_strides(type.shape), Slot(kind, index))
