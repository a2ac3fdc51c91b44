"""What the processor says of itself, against what LLVM and the system say of it."""

from __future__ import annotations

import pytest

from cenote.codegen import llvm
from cenote.core import cpuid
from cenote.core.errors import ArgumentError, CapacityError
from cenote.core.target import BFLOAT_EXTENSIONS, EMULATED, EXTENSIONS, LEVELS, TABLES, choose_target
from tests.targets import TARGETS, anywhere

pytestmark = pytest.mark.skipif(not cpuid.can_ask(), reason="asks x86-64 processors only")

TRIPLE = "x86_64-unknown-linux-gnu"
ALL = [0xFFFFFFFF] * 4


def test_it_agrees_with_llvm() -> None:
    _, known, triple = llvm.host()
    assert triple == TRIPLE
    assert {name: name in cpuid.features() for name in cpuid._BITS} == {
        name: known[name] for name in cpuid._BITS
    }


def test_every_feature_of_a_level_and_every_extension_is_asked_for() -> None:
    features = {feature for level in LEVELS.values() for feature in level}
    features |= {*EXTENSIONS.values(), *TABLES.values(), *BFLOAT_EXTENSIONS.values()}
    assert features == {name for name in cpuid._BITS if not name.startswith("amx")}


def test_registers_that_the_system_does_not_save_do_not_count() -> None:
    answers = dict.fromkeys((1, 7, cpuid.SEVEN_ONE, 2147483649), ALL)
    assert cpuid.supported(answers, lambda: 0x600E7) == cpuid._BITS.keys()
    assert not any(name.startswith("amx") for name in cpuid.supported(answers, lambda: 0x400E7))
    without_zmm = cpuid.supported(answers, lambda: 0x7)
    assert choose_target(without_zmm, TRIPLE).name == "avx2"
    assert choose_target(cpuid.supported(answers, lambda: 0x3), TRIPLE).name == "generic"
    no_osxsave = answers | {1: [0, 0, 0xFFFFFFFF & ~(1 << 27), 0]}
    assert "avx" not in cpuid.supported(no_osxsave, lambda: pytest.fail("XGETBV would fault"))


def test_an_old_processor_has_fewer_leaves() -> None:
    found = cpuid.supported({1: ALL}, lambda: 0xE7)
    assert "avx" in found
    assert not found & {"avx2", "avx512f", "lzcnt"}


def test_code_for_a_level_is_the_same_everywhere() -> None:
    """What the wheel carries is made from a target that is described; here it is found by one that was asked."""
    for target in TARGETS:
        assert anywhere(target.name).of_level() == target.of_level()


@pytest.mark.parametrize("level", LEVELS)
def test_a_processor_that_lacks_one_feature_of_a_level_is_below_it(level: str) -> None:
    name = {"x86-64-v3": "avx2", "x86-64-v4": "avx512"}[level]
    assert choose_target(LEVELS[level], TRIPLE).name == name
    for missing in LEVELS[level]:
        features = set(LEVELS[level]) - {missing}
        assert choose_target(features, TRIPLE).name != name
        with pytest.raises(ArgumentError, match="this CPU cannot run it"):
            choose_target(features, TRIPLE, name)


def test_bfloat16_is_found_or_emulated_by_name() -> None:
    level = set(LEVELS["x86-64-v4"])
    has = level | {"avx512bf16"}
    assert (
        choose_target(has, TRIPLE).bfloat == choose_target(has, TRIPLE, "avx512+bf16").bfloat == "avx512bf16"
    )
    assert choose_target(level, TRIPLE).bfloat == choose_target(has, TRIPLE, "avx2").bfloat == ""
    for name in ("avx512", "avx2", "generic"):
        emulating = choose_target(level, TRIPLE, f"{name}+bf16")
        assert (emulating.name, emulating.bfloat) == (name, EMULATED)
        assert emulating.of_level() == choose_target(level, TRIPLE, name).of_level()
        assert emulating.text != choose_target(level, TRIPLE, name).text  # of which keys of plans are made
    for wrong in ("+bf16", "avx512+bf32", "avx1024+bf16", "avx512+bf16+bf16"):
        with pytest.raises(ArgumentError, match="CENOTE_TARGET"):
            choose_target(has, TRIPLE, wrong)


def test_memory_that_may_not_be_executed_means_no_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forbids:
        def mprotect(self, *given: object) -> int:
            return -1

    monkeypatch.setattr(cpuid.ctypes, "CDLL", lambda name: Forbids())
    assert cpuid.features.__wrapped__() == frozenset()


def test_no_memory_is_an_error_and_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answered with no feature, it gave every later kernel of the process a lower level."""
    cpuid.features.cache_clear()

    def full(*given: object, **named: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    with monkeypatch.context() as patch:
        patch.setattr(cpuid.mmap, "mmap", full)
        with pytest.raises(CapacityError, match="what the processor can do"):
            cpuid.features()
    assert cpuid.features() or not cpuid.can_ask()
