"""Programs of steps in a row, each of which adds one."""

from __future__ import annotations

import numpy as np

from cenote.codegen import jit
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32
from cenote.core.types import Array, TensorType
from cenote.kernels.driver import driver_abi
from cenote.runtime.program import Program
from cenote.runtime.steps import HostStep, KernelStep, Slot, SlotKind

SIZE = 1024
TYPE = TensorType.of(np.float32, (SIZE,))


def add_one_kernel() -> Kernel:
    target = jit.named_target("generic")
    pointers = [Parameter(name, F32, pointer=True, may_alias=True) for name in ("x", "y")]
    k = Kernel("test_add_one", target, pointers)
    for i in k.range(k.begin, k.end):
        k.pointer("y").store(k.pointer("x").load(i * 4, 4) + 1.0, i * 4)
    return k


class Double:
    """What runs as Python between kernels."""

    looks = False

    def reference(self, *inputs: Array | None) -> tuple[Array, ...]:
        (x,) = inputs
        assert x is not None
        return (x * 2,)


def chain(length: int, threads: int, host: bool = False) -> Program:
    """x + length, one kernel a step, through the arena; with a host step that doubles in the middle."""
    address = jit.addresses([add_one_kernel()], jit.named_target("generic"))["test_add_one"]
    arena = Slot(SlotKind.ARENA, 0)
    steps: list[KernelStep | HostStep] = []
    for index in range(length):
        source = Slot(SlotKind.INPUT, 0) if index == 0 else arena
        result = Slot(SlotKind.OUTPUT, 0) if index == length - 1 else arena
        steps.append(KernelStep(str(index), "test_add_one", address, (source, result), SIZE // 4, 16, 0))
    if host:
        double = HostStep("double", Double(), ((arena, TYPE),), ((arena, TYPE),))
        steps.insert(length // 2, double)
    return Program(tuple(steps), (TYPE,), (TYPE,), (), SIZE * 4, driver_abi(), threads)
