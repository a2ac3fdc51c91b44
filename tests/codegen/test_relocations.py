"""Relocations of object code for Arm, on any machine: a disassembler reads the instructions that were filled."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from cenote.codegen import relocations
from cenote.codegen.relocations import AARCH64
from cenote.core.errors import CodegenError

capstone = pytest.importorskip("capstone")
START = 0x7F12_3456_7000  # address of the memory
CALL, ADRP, ADD, LOAD_16_BYTES, LOAD_8_BYTES, LOAD_BYTE = (
    0x94000000,
    0x90000003,
    0x91000063,
    0x3DC00060,
    0xF9400063,
    0x39400063,
)


class Memory:
    """Memory as the loader fills it: stubs and words lie behind what is there."""

    def __init__(self, *instructions: int) -> None:
        self.bytes = bytearray(struct.pack(f"<{len(instructions)}I", *instructions))
        self.stubs: list[int] = []
        self.entries: list[int] = []

    def stub(self, address: int) -> int:
        self.stubs.append(address)
        return START + 0x100

    def entry(self, address: int) -> int:
        self.entries.append(address)
        return START + 0x2348

    def read(self, place: int) -> int:
        word: int = struct.unpack_from("<I", self.bytes, place - START)[0]
        return word

    def write(self, place: int, form: str, value: int) -> None:
        struct.pack_into(form, self.bytes, place - START, value)

    def fill(self, kind: int, at: int, target: int, addend: int = 0, inside: bool = True) -> None:
        AARCH64.relocate(self, kind, START + at, target, addend, inside)

    def shown(self) -> list[str]:
        """The instructions as text."""
        code: Any = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
        return [f"{each.mnemonic} {each.op_str}" for each in code.disasm(bytes(self.bytes), START)]


@pytest.mark.parametrize("distance", [0x20, -0x4000, (1 << 27) - 4, -(1 << 27)])
def test_a_call_reaches_128_megabytes(distance: int) -> None:
    memory = Memory(CALL)
    memory.fill(283, 0, START + distance - 8, addend=8)
    assert memory.shown() == [f"bl #{START + distance:#x}"]


@pytest.mark.parametrize("distance", [1 << 27, -(1 << 27) - 4, 2])
def test_what_a_call_does_not_reach_is_refused(distance: int) -> None:
    with pytest.raises(CodegenError, match="too far apart"):
        Memory(CALL).fill(283, 0, START + distance)


def test_calls_outside_go_by_a_jump() -> None:
    memory = Memory(CALL)
    memory.fill(282, 0, 0x5555_0000, inside=False)
    assert memory.shown() == [f"bl #{START + 0x100:#x}"]
    assert memory.stubs == [0x5555_0000]


def test_the_jump_goes_to_the_address_behind_it() -> None:
    memory = Memory(*struct.unpack("<2I", AARCH64.jump))
    load, jump = memory.shown()
    assert load == f"ldr x16, #{START + len(AARCH64.jump):#x}"
    assert jump == "br x16"


@pytest.mark.parametrize("distance", [0x5F8, 0xFFF8, -0x7FFF_F008, 0x7FFF_F5F8])
def test_an_address_is_a_page_and_what_is_within_it(distance: int) -> None:
    target = START + distance
    memory = Memory(ADRP, ADD, LOAD_8_BYTES, LOAD_BYTE)
    for at, kind in ((0, 275), (4, 277), (8, 286), (12, 278)):
        memory.fill(kind, at, target - 24, addend=24)
    page, within = target & ~0xFFF, target & 0xFFF
    assert memory.shown() == [
        f"adrp x3, #{page:#x}",
        f"add x3, x3, #{within:#x}",
        f"ldr x3, [x3, #{within:#x}]",
        f"ldrb w3, [x3, #{within:#x}]",
    ]


def test_a_load_of_a_vector_counts_in_vectors() -> None:
    memory = Memory(LOAD_16_BYTES)
    memory.fill(299, 0, START + 0x7F0)
    assert memory.shown() == ["ldr q0, [x3, #0x7f0]"]
    with pytest.raises(CodegenError, match="too far apart"):
        memory.fill(299, 0, START + 0x7F8)


def test_an_address_outside_is_read_from_a_word() -> None:
    memory = Memory(ADRP, LOAD_8_BYTES)
    memory.fill(311, 0, 0x5555_0000, inside=False)
    memory.fill(312, 4, 0x5555_0000, inside=False)
    assert memory.shown() == [f"adrp x3, #{START + 0x2000:#x}", "ldr x3, [x3, #0x348]"]
    assert memory.entries == [0x5555_0000] * 2


def test_what_is_farther_than_4_gigabytes_is_refused() -> None:
    with pytest.raises(CodegenError, match="too far apart"):
        Memory(ADRP).fill(275, 0, START + (1 << 32))


@pytest.mark.parametrize(
    ("kind", "form", "number"),
    [(257, "<Q", START + 0x50), (260, "<q", 0x50 - 8), (261, "<i", 0x50 - 8)],
    ids=["address", "distance", "short distance"],
)
def test_words_hold_addresses_and_distances(kind: int, form: str, number: int) -> None:
    memory = Memory(0, 0, 0, 0, 0)
    memory.fill(kind, 8, START + 0x40, addend=0x10)
    assert struct.unpack_from(form, memory.bytes, 8) == (number,)


@pytest.mark.parametrize("machine", relocations.MACHINES.values(), ids=relocations.MACHINES)
def test_unknown_types_are_refused(machine: relocations.CodeMachine) -> None:
    with pytest.raises(CodegenError, match="unknown type 999"):
        machine.relocate(Memory(0, 0), 999, START, START, 0, True)
