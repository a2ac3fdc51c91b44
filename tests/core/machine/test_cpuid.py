"""What the processor says of itself, against what LLVM and the system say of it."""

from __future__ import annotations

import ctypes

import pytest

from cenote.codegen import llvm
from cenote.core.errors import ArgumentError, CapacityError
from cenote.core.machine import cpuid
from cenote.core.target import (
    BFLOAT_EXTENSIONS,
    EMULATED,
    EXTENSIONS,
    LEVELS,
    TABLES,
    TILE,
    TILE_EXTENSIONS,
    TileWays,
    choose_target,
)
from cenote.kernels.cost_model import peak_seconds
from tests.targets import TARGETS, anywhere

pytestmark = pytest.mark.skipif(not cpuid.can_ask(), reason="asks x86-64 processors only")

TRIPLE = "x86_64-unknown-linux-gnu"
ALL = [0xFFFFFFFF] * 4


def test_it_agrees_with_llvm() -> None:
    _, known, triple = llvm.host()
    assert triple == TRIPLE
    permitted = TILE in cpuid.features()  # of which LLVM knows nothing
    assert {name: name in cpuid.features() for name in cpuid._BITS} == {
        name: known[name] and (permitted or not name.startswith("amx")) for name in cpuid._BITS
    }


def test_every_feature_of_a_level_and_every_extension_is_asked_for() -> None:
    features = {feature for level in LEVELS.values() for feature in level}
    features |= {*EXTENSIONS.values(), *TABLES.values(), *BFLOAT_EXTENSIONS.values()}
    features |= {TILE, *(extension for ways in TILE_EXTENSIONS.values() for extension in ways)}
    assert features == cpuid._BITS.keys()


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


def test_zen_4_multiplies_wide_vectors_in_halves() -> None:
    """Its family is 25: 15 in the field of four bits, and 10 in the one that is added then."""
    answers = dict.fromkeys((1, 7, cpuid.SEVEN_ONE, 2147483649), ALL)
    every = 0x600E7

    def found(signature: int, saved: int = every) -> frozenset[str]:
        return cpuid.supported(answers | {1: [signature, *ALL[1:]]}, lambda: saved)

    assert found(0x00A10F11) == cpuid._BITS.keys() | {cpuid.HALVED}
    assert cpuid.HALVED not in found(0x00A10F11, 0x7)  # no registers to halve
    for other in (
        0x000806F8,
        0x00B40F40,
        0x00000910,
    ):  # Sapphire Rapids, Zen 5, a field of 9 that is not full
        assert cpuid.HALVED not in found(other)
    halved, full, narrow = (
        choose_target(found(signature), TRIPLE, name)
        for signature, name in ((0x00A10F11, "avx512"), (0x000806F8, "avx512"), (0x00A10F11, "avx2"))
    )
    assert halved.of_level() == full.of_level()
    assert halved.text != full.text  # of which keys of plans are made
    times = [peak_seconds(1e9, target, 1.0) for target in (halved, full, narrow)]
    assert times == [times[0], times[0] / 2, times[0]]


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


def test_tiles_are_found_or_emulated_by_name() -> None:
    level = {*LEVELS["x86-64-v4"], TILE, "amx-bf16", "amx-int8"}
    found = TileWays(int8="amx-int8", bf16="amx-bf16")
    assert choose_target(level, TRIPLE).tiles == choose_target(level, TRIPLE, "avx512").tiles == found
    assert choose_target(level, TRIPLE, "avx512+tiles").tiles == found._replace(f16=EMULATED)
    assert (
        choose_target(level - {TILE}, TRIPLE).tiles
        == choose_target(level, TRIPLE, "avx2").tiles
        == TileWays()
    )
    for name in ("avx512", "avx2", "generic"):
        emulating = choose_target(LEVELS["x86-64-v4"], TRIPLE, f"{name}+tiles")
        assert (emulating.name, emulating.tiles) == (name, TileWays(EMULATED, EMULATED, EMULATED))
        plain = choose_target(level, TRIPLE, name)
        assert emulating.of_level() == plain.of_level()
        assert emulating.text != plain.text  # of which keys of plans are made
    assert choose_target(level, TRIPLE, "avx2+bf16+tiles").bfloat == EMULATED
    for wrong in ("+tiles", "avx2+tiles+tiles", "avx2+tile", "avx2+"):
        with pytest.raises(ArgumentError, match="CENOTE_TARGET"):
            choose_target(level, TRIPLE, wrong)


@pytest.mark.parametrize("answer", [0, -1])
def test_tiles_need_the_permission_of_the_system(monkeypatch: pytest.MonkeyPatch, answer: int) -> None:
    asked = []

    class System:
        def syscall(self, *words: ctypes.c_long) -> int:
            asked.append([word.value for word in words])
            return answer

    monkeypatch.setattr(cpuid.ctypes, "CDLL", lambda name: System())
    assert cpuid._permitted(frozenset({"avx2"})) == {"avx2"}
    assert not asked
    every = frozenset({"avx2", TILE, "amx-int8"})
    assert cpuid._permitted(every) == ({"avx2"} if answer else every)
    assert asked == [[158, 0x1023, 18]]


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
