"""Relocations of object code for RISC-V, by its ELF psABI. No code is made shorter: marks for that are passed over."""

from __future__ import annotations

from collections.abc import Callable

from cenote.codegen.relocations import CodeMemory
from cenote.core.errors import CodegenError

PAGE = 23  # AUIPC: the upper 20 bits of a distance; types 24 and 25 name its place for the lower 12
_BRANCH, _JUMP, _CALL, _CALL_PLT, _LOW_LOAD, _LOW_STORE = 16, 17, 18, 19, 24, 25
_NONE, _ALIGN, _SHORT_BRANCH, _SHORT_JUMP, _RELAX, _DISTANCE_32 = 0, 43, 44, 45, 51, 57
_SIGNS = {
    33: (8, 1),
    34: (16, 1),
    35: (32, 1),
    36: (64, 1),
    37: (8, -1),
    38: (16, -1),
    39: (32, -1),
    40: (64, -1),
}
_FORMS = {8: "<B", 16: "<H", 32: "<I", 64: "<Q"}
# Where the bits of a distance go in an instruction: (first bit of the distance, bits, first bit of the field).
_Fields = tuple[tuple[int, int, int], ...]
_OF_BRANCH: _Fields = ((12, 1, 31), (5, 6, 25), (1, 4, 8), (11, 1, 7))
_OF_JUMP: _Fields = ((20, 1, 31), (1, 10, 21), (11, 1, 20), (12, 8, 12))
_OF_SHORT_BRANCH: _Fields = ((8, 1, 12), (3, 2, 10), (6, 2, 5), (1, 2, 3), (5, 1, 2))
_OF_SHORT_JUMP: _Fields = (
    (11, 1, 12),
    (4, 1, 11),
    (8, 2, 9),
    (10, 1, 8),
    (6, 1, 7),
    (7, 1, 6),
    (1, 3, 3),
    (5, 1, 2),
)
_OF_UPPER: _Fields = ((12, 20, 12),)
_OF_LOAD: _Fields = ((0, 12, 20),)
_OF_STORE: _Fields = ((5, 7, 25), (0, 5, 7))
# Instructions with a distance of their own: fields, bytes, and the reach to either side.
_PLAIN = {
    _BRANCH: (_OF_BRANCH, 4, 1 << 12),
    _JUMP: (_OF_JUMP, 4, 1 << 20),
    _SHORT_BRANCH: (_OF_SHORT_BRANCH, 2, 1 << 8),
    _SHORT_JUMP: (_OF_SHORT_JUMP, 2, 1 << 11),
}


def relocator() -> Callable[[CodeMemory, int, int, int, int, bool], None]:
    """Return the function that fills places of a library, which are given with all `PAGE`s first."""
    pages: dict[int, int] = {}

    def relocate(memory: CodeMemory, kind: int, place: int, target: int, addend: int, inside: bool) -> None:
        distance = target + addend - place
        if kind == PAGE:
            pages[place] = _within(distance + 0x800, 1 << 31) - 0x800
            _set(memory, place, distance + 0x800, _OF_UPPER)
        elif kind in (_LOW_LOAD, _LOW_STORE):
            _set(memory, place, pages[target], _OF_LOAD if kind == _LOW_LOAD else _OF_STORE)
        elif kind in (_CALL, _CALL_PLT):
            _set(memory, place, _within(distance + 0x800, 1 << 31), _OF_UPPER)
            _set(memory, place + 4, distance, _OF_LOAD)
        elif kind in _PLAIN:
            fields, nbytes, reach = _PLAIN[kind]
            _set(memory, place, _within(distance, reach), fields, nbytes)
        elif kind == _DISTANCE_32:
            memory.write(place, "<i", _within(distance, 1 << 31))
        elif kind in _SIGNS:
            _add(memory, place, target + addend, *_SIGNS[kind])
        elif kind == _ALIGN:
            _check_aligned(place, addend)
        elif kind not in (_NONE, _RELAX):
            raise CodegenError(f"the object code has a relocation of unknown type {kind}")

    return relocate


def _within(distance: int, reach: int) -> int:
    if not -reach <= distance < reach:
        raise CodegenError("the object code's parts lie too far apart")
    return distance


def _set(memory: CodeMemory, place: int, value: int, fields: _Fields, nbytes: int = 4) -> None:
    """Set the fields of an instruction."""
    word = memory.read(place)
    for first, bits, at in fields:
        mask = (1 << bits) - 1
        word = word & ~(mask << at) | (value >> first & mask) << at
    memory.write(place, *(("<I", word) if nbytes == 4 else ("<H", word & 0xFFFF)))


def _add(memory: CodeMemory, place: int, value: int, bits: int, sign: int) -> None:
    """Add to a number, or take away from it: differences of two labels come as two relocations."""
    low = memory.read(place)
    high = memory.read(place + 4) << 32 if bits == 64 else 0
    memory.write(place, _FORMS[bits], (high + low + sign * value) & ((1 << bits) - 1))


def _check_aligned(place: int, padding: int) -> None:
    """Raise CodegenError where padding would have to become shorter for the code behind it to be aligned."""
    alignment = 1 << padding.bit_length()
    if (place + padding) % alignment:
        raise CodegenError(f"code that is to lie at a multiple of {alignment} needs a linker that relaxes")
