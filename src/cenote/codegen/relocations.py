"""Relocations of object code: places that the loader fills with addresses, by the machine whose code it is.

The types and their numbers are those of the ABIs: System V for AMD64, and ELF for the Arm 64-bit architecture
(AAELF64). On Arm an address takes two instructions, one for its page of 4 KiB, which lies at most 4 GiB away, whatever
the pages of the system are, and one for the 12 bits within it. A call reaches 128 MB.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Protocol

from cenote.core.deferred import dataclass
from cenote.core.errors import CodegenError

_PAGE_BITS = 12
_FAR = "the object code's parts lie too far apart"


class CodeMemory(Protocol):
    """Memory that is being filled."""

    def stub(self, address: int) -> int:
        """Return the address of a jump to an address that may be too far away for a call."""

    def entry(self, address: int) -> int:
        """Return the address of a word that holds an address."""

    def read(self, place: int) -> int:
        """Return 32 bits."""

    def write(self, place: int, form: str, value: int) -> None:
        """Write a number, in a form of `struct`."""


@dataclass(frozen=True)
class CodeMachine:
    """Machine of object files. `number`: its number in ELF; `jump`: a jump to the address behind it; `relocate(memory,
    kind, place, target, addend, inside)`: fill a place; `inside`: the target is part of what is loaded;
    `clears_caches`: code that was written must be told to the cache of instructions."""

    name: str
    number: int
    jump: bytes
    relocate: Callable[[CodeMemory, int, int, int, int, bool], None]
    clears_caches: bool = False


def _unknown(kind: int) -> CodegenError:
    return CodegenError(f"the object code has a relocation of unknown type {kind}")


# ---- x86-64 ---------------------------------------------------------------------------------------------------------

_X86_ABSOLUTE_64, _X86_PC_32, _X86_PLT_32 = 1, 2, 4
_X86_VIA_TABLE = (9, 41, 42)  # GOTPCREL and its relaxable forms
_X86_REACH = 1 << 31


def _relocate_x86(memory: CodeMemory, kind: int, place: int, target: int, addend: int, inside: bool) -> None:
    if kind == _X86_ABSOLUTE_64:
        memory.write(place, "<Q", target + addend)
        return
    if kind in _X86_VIA_TABLE:
        target = memory.entry(target)
    elif kind in (_X86_PC_32, _X86_PLT_32):
        target = target if inside else memory.stub(target)
    else:
        raise _unknown(kind)
    distance = target + addend - place
    if not -_X86_REACH <= distance < _X86_REACH:
        raise CodegenError(_FAR)
    memory.write(place, "<i", distance)


# ---- aarch64 --------------------------------------------------------------------------------------------------------

_ARM_ABSOLUTE_64, _ARM_DISTANCE_64, _ARM_DISTANCE_32 = 257, 260, 261
_ARM_PAGE, _ARM_TABLE_PAGE = 275, 311  # ADRP: of the address, of the word that holds it
_ARM_CALLS = (282, 283)  # B, BL
_ARM_CALL_REACH = 1 << 27
# The 12 bits of ADD and of loads and stores, which count in elements: bits that are left out, by type.
_ARM_WITHIN_PAGE = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4}
_ARM_TABLE_WITHIN_PAGE = 312


def _relocate_arm(memory: CodeMemory, kind: int, place: int, target: int, addend: int, inside: bool) -> None:
    value = target + addend
    if kind == _ARM_ABSOLUTE_64:
        memory.write(place, "<Q", value)
    elif kind == _ARM_DISTANCE_64:
        memory.write(place, "<q", value - place)
    elif kind == _ARM_DISTANCE_32:
        memory.write(place, "<i", value - place)
    elif kind in _ARM_CALLS:
        distance = (value if inside else memory.stub(value)) - place
        _set_field(memory, place, 0, 26, _shifted(distance, 2, _ARM_CALL_REACH))
    elif kind in (_ARM_PAGE, _ARM_TABLE_PAGE):
        value = memory.entry(target) + addend if kind == _ARM_TABLE_PAGE else value
        pages = (value >> _PAGE_BITS) - (place >> _PAGE_BITS)
        _shifted(pages, 0, 1 << 20)
        _set_field(memory, place, 29, 2, pages)
        _set_field(memory, place, 5, 19, pages >> 2)
    elif kind in _ARM_WITHIN_PAGE:
        _set_within_page(memory, place, value, _ARM_WITHIN_PAGE[kind])
    elif kind == _ARM_TABLE_WITHIN_PAGE:
        _set_within_page(memory, place, memory.entry(target) + addend, 3)
    else:
        raise _unknown(kind)


def _set_within_page(memory: CodeMemory, place: int, address: int, left_out: int) -> None:
    within = address & ((1 << _PAGE_BITS) - 1)
    _set_field(memory, place, 10, 12, _shifted(within, left_out, 1 << _PAGE_BITS))


def _shifted(number: int, left_out: int, reach: int) -> int:
    """Return a signed number without its lowest bits, which have to be 0. Raises CodegenError beyond the reach."""
    if number & ((1 << left_out) - 1) or not -reach <= number < reach:
        raise CodegenError(_FAR)
    return number >> left_out


def _set_field(memory: CodeMemory, place: int, first: int, bits: int, value: int) -> None:
    """Set a field of an instruction; what is above its bits is left out."""
    mask = (1 << bits) - 1
    memory.write(place, "<I", memory.read(place) & ~(mask << first) | (value & mask) << first)


# jmp [rip+0]
X86_64 = CodeMachine("x86-64", 62, bytes.fromhex("ff2500000000"), _relocate_x86)
# ldr x16, #8; br x16: the register that the ABI leaves to jumps between calls
AARCH64 = CodeMachine("aarch64", 183, struct.pack("<II", 0x58000050, 0xD61F0200), _relocate_arm, True)
MACHINES = {"x86_64": X86_64, "aarch64": AARCH64}  # by uname's names
