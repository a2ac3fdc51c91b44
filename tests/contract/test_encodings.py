"""Code for a target holds no instruction of a wider one: the kernels of all operators' samples, disassembled.

They need not run here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

import pytest

from cenote.codegen import jit, llvm
from cenote.core.target import Target
from cenote.kernels.base import KernelSpec
from cenote.kernels.driver import CALL_ON_ARRAYS, DRIVER, FUNCTION_ON_ARRAYS
from cenote.ops.base import Op, Sample
from cenote.ops.elementwise.activation import Relu
from tests.contract.samples import Trial, each_operator, has_types, listed, trials
from tests.disassembly import encodings
from tests.harness import calls_of, input_types, lowerings_of
from tests.targets import anywhere

pytestmark = pytest.mark.skipif(
    not jit.host_target().triple.startswith("x86_64"), reason="reads x86-64 code only"
)

NARROWER = 1  # the place of AVX2 among targets on a CPU with AVX-512


def specs_of(samples: Iterable[Sample], target: Target) -> Iterator[KernelSpec]:
    """The kernels of all lowerings of these samples, each once."""
    every = (
        Trial(sample, constants, lowerings_of(sample.op, sample.inputs, target, constants))
        for sample in samples
        for constants in (True, False)
        if has_types(sample, constants)
    )
    yield from kernels_of(every)


def kernels_of(tried: Iterable[Trial]) -> Iterator[KernelSpec]:
    """The kernels of some lowerings, each once."""
    seen = set()
    for sample, constants, lowerings in tried:
        types = input_types(sample.inputs, constants)
        for lowering in lowerings:
            for call in calls_of(sample.op, lowering, types):
                if call.spec.symbol not in seen:
                    seen.add(call.spec.symbol)
                    yield call.spec


def encodings_of(specs: Iterable[KernelSpec], target: Target) -> dict[str, set[str]]:
    return {spec.symbol: encodings(llvm.object_code(spec.emit(target))) for spec in specs}


@each_operator
def test_avx2_holds_nothing_wider(op: type[Op]) -> None:
    """The kernels that narrower targets run, which are compiled anyway: the others' differ in shapes alone."""
    specs = kernels_of(trials(op, anywhere("avx2"), NARROWER))
    for symbol, found in encodings_of(specs, anywhere("avx2")).items():
        assert found <= {"legacy", "VEX"}, f"{symbol}: {found}"


@each_operator
def test_generic_holds_nothing_wider(op: type[Op]) -> None:
    found = encodings_of(specs_of(listed(op)[:1], anywhere("generic")), anywhere("generic"))
    assert all(each == {"legacy"} for each in found.values()), found


class WithoutCaches(Target):
    """A target that nobody may ask for the sizes of its caches and the number of threads."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("l1_bytes", "l2_bytes", "l3_bytes", "threads"):
            raise AssertionError(f"code depends on {name}")
        return super().__getattribute__(name)


@each_operator
def test_code_depends_on_no_cache(op: type[Op]) -> None:
    """Object code serves a whole level: what depends on caches or threads is an argument, or a field of the spec."""
    target = anywhere("avx512")
    bare = WithoutCaches(**{field.name: getattr(target, field.name) for field in fields(target)})
    for spec in specs_of(listed(op)[:2], target):
        assert spec.emit(bare).module()


@pytest.mark.parametrize(("name", "allowed"), [("generic", {"legacy"}), ("avx2", {"legacy", "VEX"})])
def test_the_driver_holds_nothing_wider(name: str, allowed: set[str]) -> None:
    target = anywhere(name)
    for source in (*DRIVER, CALL_ON_ARRAYS, FUNCTION_ON_ARRAYS):
        assert encodings(llvm.object_code(source.emit(target))) <= allowed


def test_each_encoding_is_found() -> None:
    """The tests above would pass if the disassembly showed nothing."""
    for name, wanted in (("generic", "legacy"), ("avx2", "VEX"), ("avx512", "EVEX")):
        target = anywhere(name)
        found = encodings_of(specs_of(listed(Relu)[:1], target), target)
        assert found
        assert all(wanted in each for each in found.values()), found
