"""Reader of relocatable object files, as LLVM writes them. Every place in a file is checked before it is read.

Format: System V ABI, "Object Files" (ELF-64, little endian).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from cenote.core.deferred import dataclass
from cenote.core.errors import CodegenError
from cenote.export.elf.objects import (
    ALLOCATED,
    HEADER_BYTES,
    MACHINES,
    PROGBITS,
    RELOCATABLE,
    SECTION_BYTES,
    SYMBOL_BYTES,
    SYMTAB,
)

EXECUTABLE = 4  # flag of sections
FUNCTION = 2  # type of symbols
_WRITABLE, _THREAD_LOCAL, _COMPRESSED = 1, 0x400, 0x800  # flags of sections
_RELA, _NOTE, _REL, _GROUP, _UNWIND = 4, 7, 9, 17, 0x7000_0001  # types of sections
_LOCAL, _RESERVED = 0, 0xFF00  # binding of symbols; the first number that is no section's
_RELA_BYTES = 24


@dataclass(frozen=True)
class LinkedSection:
    """Section that goes into a library: `number`: its place in the object file."""

    number: int
    name: str
    is_code: bool
    content: memoryview
    alignment: int


@dataclass(frozen=True)
class LinkedSymbol:
    """Symbol of an object file; `section` is 0 where another file defines it."""

    name: str
    is_function: bool
    is_local: bool
    section: int
    value: int
    nbytes: int


@dataclass(frozen=True)
class CodeRelocation:
    """Place in a section (its number) that is to be filled with the address of a symbol (its number)."""

    section: int
    offset: int
    kind: int
    symbol: int
    addend: int


@dataclass(frozen=True)
class ObjectFile:
    """Object file, parsed: the sections that are loaded, all symbols, and the relocations of these sections."""

    name: str
    sections: Sequence[LinkedSection]
    symbols: Sequence[LinkedSymbol]
    relocations: Sequence[CodeRelocation]


def read_object(name: str, content: bytes, machine: str) -> ObjectFile:
    """Parse an object file. Raises CodegenError, with the file's name, for one that is damaged, of another machine, or
    that has what a library without state cannot have: data that is written, constructors, groups."""
    try:
        return _Reader(content, machine).read(name)
    except CodegenError as error:
        raise error.located(name) from None
    except (struct.error, LookupError, ValueError) as error:
        raise CodegenError(f"{name}: the object file is damaged ({error!r:.100})") from error


class _Reader:
    def __init__(self, content: bytes, machine: str) -> None:
        self.content = memoryview(content)
        if content[:7] != b"\x7fELF\x02\x01\x01":
            raise CodegenError("no ELF file of 64 bits")
        kind, number = struct.unpack_from("<HH", content, 16)
        if kind != RELOCATABLE or number != MACHINES[machine]:
            raise CodegenError(f"no object file for {machine} (type {kind}, machine {number})")
        (table,) = struct.unpack_from("<Q", content, 40)
        size, count, names = struct.unpack_from("<HHH", content, 58)
        if size != SECTION_BYTES or not count or table < HEADER_BYTES:
            raise CodegenError(f"the object file is damaged ({count} sections of {size} bytes at {table})")
        self.headers = [struct.unpack_from("<IIQQQQIIQQ", content, table + i * size) for i in range(count)]
        self.names = self._part(names)

    def read(self, name: str) -> ObjectFile:
        sections = [found for i in range(len(self.headers)) if (found := self._section(i)) is not None]
        tables = [i for i, header in enumerate(self.headers) if header[1] == SYMTAB]
        if len(tables) != 1:
            raise CodegenError(f"{len(tables)} tables of symbols")
        symbols = self._symbols(tables[0])
        return ObjectFile(
            name, sections, symbols, self._relocations({s.number: s for s in sections}, symbols)
        )

    def _part(self, number: int) -> memoryview:
        """Content of a section of the file."""
        *_, offset, nbytes, _, _, _, _ = self.headers[number]
        if offset + nbytes > len(self.content):
            end = len(self.content)
            raise CodegenError(f"cut off: section {number} ends at {offset + nbytes}, the file at {end}")
        return self.content[offset : offset + nbytes]

    def _section(self, number: int) -> LinkedSection | None:
        """A section that is loaded; None for others, and for tables of unwinding: kernels throw nothing."""
        name_at, kind, flags, _, _, nbytes, _, _, alignment, _ = self.headers[number]
        name = _text(self.names, name_at)
        if kind == _GROUP:
            raise CodegenError(f"section {name}: groups of sections are not supported")
        if not flags & ALLOCATED or kind in (_NOTE, _UNWIND) or name == ".eh_frame":
            return None
        if kind == PROGBITS and not nbytes:
            return None
        if kind != PROGBITS or flags & (_WRITABLE | _THREAD_LOCAL | _COMPRESSED):
            raise CodegenError(
                f"section {name} (type {kind}, flags {flags:#x}): a library has code and constants only"
            )
        if alignment & (alignment - 1) or alignment > 4096:
            raise CodegenError(f"section {name}: alignment {alignment} is no power of two up to 4096")
        return LinkedSection(number, name, bool(flags & EXECUTABLE), self._part(number), max(1, alignment))

    def _symbols(self, number: int) -> list[LinkedSymbol]:
        part, names = self._part(number), self._part(self.headers[number][6])
        symbols: list[LinkedSymbol] = []
        for at in range(0, len(part), SYMBOL_BYTES):
            name_at, info, _, section, value, nbytes = struct.unpack_from("<IBBHQQ", part, at)
            name, binding, kind = _text(names, name_at), info >> 4, info & 15
            if section < _RESERVED:
                if section >= len(self.headers) or (section and value + nbytes > self.headers[section][5]):
                    raise CodegenError(f"symbol {name} lies outside its section")
            elif binding != _LOCAL:
                raise CodegenError(f"symbol {name} has no section ({section:#x})")
            symbols.append(LinkedSymbol(name, kind == FUNCTION, binding == _LOCAL, section, value, nbytes))
        return symbols

    def _relocations(
        self, sections: dict[int, LinkedSection], symbols: Sequence[LinkedSymbol]
    ) -> list[CodeRelocation]:
        found: list[CodeRelocation] = []
        for number, (_, kind, *_, info, _, _) in enumerate(self.headers):
            if kind not in (_RELA, _REL) or info not in sections:
                continue
            if kind == _REL:
                raise CodegenError(f"relocations of {sections[info].name} have no addends")
            part = self._part(number)
            for at in range(0, len(part), _RELA_BYTES):
                offset, what, addend = struct.unpack_from("<QQq", part, at)
                if offset >= len(sections[info].content) or what >> 32 >= len(symbols):
                    raise CodegenError(f"a relocation of {sections[info].name} lies outside of it ({offset})")
                found.append(CodeRelocation(info, offset, what & 0xFFFF_FFFF, what >> 32, addend))
        return found


def _text(table: memoryview, at: int) -> str:
    """Name in a table of names."""
    content = bytes(table[at : at + 1000])
    return content[: content.index(b"\0")].decode()
