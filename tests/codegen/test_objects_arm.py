"""Object code for Arm, made on any machine: what it calls, and the register that macOS keeps for itself (x18).

Cenote refuses macOS (`core.check_platform`); its kernels would run there, its driver's way of waiting (Linux's futex)
would not, and these tests say which is which.
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

from cenote.codegen import objects
from cenote.codegen.emission import KernelSource
from cenote.core.target import Target, choose_target
from cenote.kernels.driver import CALL_ON_ARRAYS, DRIVER
from cenote.kernels.layout.memcpy import MemcpySpec
from cenote.ops.table import operators
from tests.harness import calls_of, input_types, lowerings_of

LINUX, DARWIN = "aarch64-unknown-linux-gnu", "arm64-apple-darwin"
OPERATORS = ("conv", "max_pool", "matmul", "softmax", "cast", "gelu", "quantize_linear")
SAMPLES, LOWERINGS = 3, 2  # of each


def target(triple: str) -> Target:
    return choose_target((), triple).of_level()


@cache
def kernels() -> tuple[KernelSource, ...]:
    """Kernels of a few operators."""
    found = dict[str, KernelSource]()
    for op in (op for op in operators() if op.name in OPERATORS):
        with np.errstate(all="ignore"):
            samples = [*op.samples()][:SAMPLES]
        for sample in samples:
            for lowering in lowerings_of(sample.op, sample.inputs, target(DARWIN), True)[:LOWERINGS]:
                for call in calls_of(sample.op, lowering, input_types(sample.inputs, True)):
                    found[call.spec.symbol] = call.spec
    assert len(found) > 2 * len(OPERATORS)
    return MemcpySpec(), *found.values()


@cache
def assembly(source: KernelSource, triple: str) -> str:
    return objects.assembly(source.emit(target(triple)).module(), target(triple))


def outside(text: str) -> set[str]:
    """Functions that code calls and does not define, without the underline that names have on macOS."""
    called = set(re.findall(r"^\s+bl?\s+(_?[A-Za-z]\w*)$", text, re.M))
    defined = set(re.findall(r"^([\w.]+):", text, re.M))
    return {name.removeprefix("_") for name in called - defined}


def test_kernels_call_nothing_but_copies_of_memory() -> None:
    for triple in (LINUX, DARWIN):
        called = set[str]().union(*(outside(assembly(source, triple)) for source in kernels()))
        assert called <= {"memcpy", "memset", "memmove"}, triple


def test_macos_keeps_a_register_for_itself() -> None:
    for source in (*kernels(), *DRIVER, CALL_ON_ARRAYS):
        assert not re.search(r"\b[xw]18\b", assembly(source, DARWIN)), source


def test_code_for_linux_takes_that_register() -> None:
    """So object code for Linux must not be loaded on macOS; and the test above can fail."""
    assert any(re.search(r"\b[xw]18\b", assembly(source, LINUX)) for source in (*kernels(), *DRIVER))


@pytest.mark.parametrize("triple", [LINUX, DARWIN], ids=["linux", "macos"])
def test_the_driver_waits_by_a_system_call_of_linux(triple: str) -> None:
    """Number 98 is Linux's futex, on macOS another call: while it is used, macOS must be refused."""
    called = outside(assembly(DRIVER[1], triple))
    assert {"syscall", "clock_gettime"} <= called
    linux_alone = {"sched_getaffinity", "sched_setaffinity", "sched_getcpu"}
    assert called & linux_alone == (linux_alone if triple == LINUX else set())
    assert called <= {"syscall", "clock_gettime", "memcpy", "memset", *linux_alone}
