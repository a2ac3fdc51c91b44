"""Programs that run for seconds, and code that is tried in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from cenote.codegen import jit
from cenote.codegen.builder import F32, Kernel, Parameter
from cenote.core.types import TensorType
from cenote.kernels.driver import driver_abi
from cenote.runtime.program import Program
from cenote.runtime.steps import KernelStep, Slot, SlotKind

ROOT = Path(__file__).resolve().parents[2]
SIZE = 64
TYPE = TensorType.of(np.float32, (SIZE,))
HANGS = 120  # seconds after which a process is taken to hang


def repeat_kernel() -> Kernel:
    """y = x + 1, all of it again for each item: some 30 ns."""
    target = jit.named_target("generic")
    pointers = [Parameter(name, F32, pointer=True, may_alias=True) for name in ("x", "y")]
    k = Kernel("test_repeat", target, pointers)
    for _ in k.range(k.begin, k.end):
        for i in k.range(0, SIZE // 4):
            k.pointer("y").store(k.pointer("x").load(i * 4, 4) + 1.0, i * 4)
    return k


def repeating(items: int, threads: int, steps: int = 2) -> Program:
    """x + steps, each step done over `items` times."""
    address = jit.addresses([repeat_kernel()], jit.named_target("generic"))["test_repeat"]
    places = [
        Slot(SlotKind.INPUT, 0),
        *[Slot(SlotKind.ARENA, 0, 256 * i) for i in range(steps - 1)],
        Slot(SlotKind.OUTPUT, 0),
    ]
    made = tuple(
        KernelStep(str(i), "test_repeat", address, (places[i], places[i + 1]), items, 4096, 0)
        for i in range(steps)
    )
    return Program(made, (TYPE,), (TYPE,), (), 256 * steps, driver_abi(), threads)


# Python 3.12 and newer warn of a fork in a process with threads, which is what these tests are about.
_FORKS = "ignore:This process:DeprecationWarning"


def in_a_process(code: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a Python of its own, from the root of the repository."""
    import os

    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, timeout=HANGS,
        check=False, env={**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": _FORKS, **environment},
    )  # fmt: skip
