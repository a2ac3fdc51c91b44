"""File of a shared library: its headers, its table of functions and what its loader reads, around two parts that the
linker fills."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from cenote.export.elf.objects import (
    ALLOCATED,
    HEADER_BYTES,
    PROGBITS,
    SHARED,
    STRTAB,
    SYMBOL_BYTES,
    SYMTAB,
    Section,
    Strings,
    aligned,
    file_header,
)
from cenote.export.elf.reader import EXECUTABLE

# The largest pages that a system of the machine may have: segments with other rights lie on pages of their own.
_PAGES = {"x86_64": 4 << 10, "aarch64": 64 << 10, "riscv64": 4 << 10}
_HASH, _DYNAMIC, _DYNSYM = 5, 6, 11  # types of sections
_WRITABLE = 1  # flag of sections
_LOAD, _DYNAMIC_PLACE, _STACK, _SEALED = 1, 2, 0x6474_E551, 0x6474_E552  # types of segments
_X, _W, _R = 1, 2, 4  # rights of segments
_SONAME, _AT_HASH, _AT_STRINGS, _AT_SYMBOLS, _STRING_BYTES, _SYMBOL_SIZE = 14, 4, 5, 6, 10, 11
_FUNCTION, _GLOBAL = 2, 1 << 4
_SEGMENT_BYTES, _TAG_BYTES, _TAGS = 56, 16, 7
_TEXT = 4  # number of the section
_LINE = 64


class SharedFunction(NamedTuple):
    """Function of a library, at an offset in its code."""

    name: str
    offset: int
    nbytes: int
    is_exported: bool = False


class SharedFile:
    """File with code and constants of so many bytes (`parts`). `functions`: those that stay inside first."""

    def __init__(
        self, machine: str, soname: str, functions: Sequence[SharedFunction], parts: Sequence[int]
    ) -> None:
        self.machine, self.functions = machine, functions
        self.exported = [each for each in functions if each.is_exported]
        self._strings = Strings()
        self._soname = self._strings.add(soname)
        self._names = [self._strings.add(each.name) for each in self.exported]
        self._page = _PAGES[machine]
        self._place(*parts)

    def _place(self, text_bytes: int, rodata_bytes: int) -> None:
        """Place all sections: offsets in the file run on, addresses skip to another page where rights change."""
        count = len(self.exported)
        hash_bytes, symbol_bytes = 4 * (2 + max(1, count) + count + 1), SYMBOL_BYTES * (count + 1)
        code, written = ALLOCATED | EXECUTABLE, ALLOCATED | _WRITABLE
        self._sections = [
            Section("", 0, alignment=0),
            Section(".hash", _HASH, ALLOCATED, link=2, alignment=8, entry=4, nbytes=hash_bytes),
            Section(".dynsym", _DYNSYM, ALLOCATED, link=3, info=1, alignment=8, entry=SYMBOL_BYTES),
            Section(".dynstr", STRTAB, ALLOCATED, nbytes=len(self._strings.content)),
            Section(".text", PROGBITS, code, alignment=_LINE, nbytes=text_bytes),
            Section(
                ".dynamic",
                _DYNAMIC,
                written,
                link=3,
                alignment=8,
                entry=_TAG_BYTES,
                nbytes=_TAG_BYTES * _TAGS,
            ),
        ]
        self._sections[2].nbytes = symbol_bytes
        if rodata_bytes:
            self._sections.append(
                Section(".rodata", PROGBITS, ALLOCATED, alignment=_LINE, nbytes=rodata_bytes)
            )
        segments = 7 if rodata_bytes else 6
        offset, address = (HEADER_BYTES + segments * _SEGMENT_BYTES,) * 2
        for section in self._sections[1:]:
            if section.name in (".text", ".dynamic", ".rodata"):
                offset = aligned(offset, section.alignment)
                address = aligned(address, self._page) + offset % self._page
            step = aligned(offset, section.alignment) - offset
            section.offset, section.address = offset + step, address + step
            offset, address = offset + step + section.nbytes, address + step + section.nbytes
        self._loaded_end = offset
        by_name = {section.name: section for section in self._sections}
        self._text, self._dynamic = by_name[".text"], by_name[".dynamic"]
        self._rodata = by_name.get(".rodata")
        self.text_address = self._text.address
        self.rodata_address = self._rodata.address if self._rodata else 0
        self._segments = segments
        self._describe_functions()

    def _describe_functions(self) -> None:
        """Add the sections that tools read: symbols of all functions, and names."""
        strings = Strings()
        self._symbols = bytearray(SYMBOL_BYTES)
        for each in self.functions:
            self._symbols += self._symbol(strings.add(each.name), each)
        self._symbol_names = bytes(strings.content)
        names, at = Strings(), aligned(self._loaded_end, 8)
        first = 1 + len(self.functions) - len(self.exported)
        table = Section(".symtab", SYMTAB, alignment=8, entry=SYMBOL_BYTES, nbytes=len(self._symbols))
        table.link, table.info, table.offset = len(self._sections) + 1, first, at
        at += table.nbytes
        text = Section(".strtab", STRTAB, nbytes=len(self._symbol_names), offset=at)
        last = Section(".shstrtab", STRTAB, offset=at + text.nbytes)
        self._sections += [table, text, last]
        self._name_places = [names.add(each.name) if each.name else 0 for each in self._sections]
        self._section_names = bytes(names.content)
        last.nbytes = len(self._section_names)
        self._headers_at = aligned(last.offset + last.nbytes, 8)

    def _symbol(self, name_at: int, function: SharedFunction) -> bytes:
        binding = _GLOBAL if function.is_exported else 0
        address = self.text_address + function.offset
        return struct.pack("<IBBHQQ", name_at, binding | _FUNCTION, 0, _TEXT, address, function.nbytes)

    def head(self) -> bytes:
        """Return what lies before the code."""
        content = bytearray(
            file_header(self.machine, SHARED, self._headers_at, len(self._sections), self._segments)
        )
        content += self._segment_headers()
        symbols = bytes(SYMBOL_BYTES) + b"".join(
            self._symbol(name, each) for name, each in zip(self._names, self.exported, strict=True)
        )
        parts = (self._hash(), symbols, bytes(self._strings.content))
        for section, part in zip(self._sections[1:4], parts, strict=True):
            content += bytes(section.offset - len(content)) + part
        return bytes(content) + bytes(self._text.offset - len(content))

    def between(self) -> bytes:
        """Return what lies between the code and the constants."""
        place = {section.name: section.address for section in self._sections}
        tags = (
            (_SONAME, self._soname),
            (_AT_HASH, place[".hash"]),
            (_AT_STRINGS, place[".dynstr"]),
            (_AT_SYMBOLS, place[".dynsym"]),
            (_STRING_BYTES, len(self._strings.content)),
            (_SYMBOL_SIZE, SYMBOL_BYTES),
            (0, 0),
        )
        dynamic = b"".join(struct.pack("<QQ", *tag) for tag in tags)
        end = self._dynamic.offset + len(dynamic)
        gap = bytes(self._rodata.offset - end) if self._rodata else b""
        return bytes(self._dynamic.offset - self._text.offset - self._text.nbytes) + dynamic + gap

    def tail(self) -> bytes:
        """Return what lies behind the constants."""
        content = (
            bytes(-self._loaded_end % 8) + bytes(self._symbols) + self._symbol_names + self._section_names
        )
        content += bytes(self._headers_at - self._loaded_end - len(content))
        return content + b"".join(
            section.header(place) for section, place in zip(self._sections, self._name_places, strict=True)
        )

    def _segment_headers(self) -> bytes:
        start = self._sections[3]
        head_bytes = start.offset + start.nbytes
        dynamic = self._dynamic
        # The loader writes to the page of .dynamic and seals it then: it is the segment's alone, to its end.
        sealed = aligned(dynamic.address + dynamic.nbytes, self._page) - dynamic.address
        segments = [
            (_LOAD, _R, 0, 0, head_bytes, head_bytes, self._page),
            (_LOAD, _R | _X, *_extent(self._text), self._page),
            (_LOAD, _R | _W, dynamic.offset, dynamic.address, dynamic.nbytes, sealed, self._page),
        ]
        if self._rodata:
            segments.append((_LOAD, _R, *_extent(self._rodata), self._page))
        segments += [
            (_DYNAMIC_PLACE, _R | _W, *_extent(dynamic), 8),
            (_SEALED, _R, dynamic.offset, dynamic.address, dynamic.nbytes, sealed, 1),
            (_STACK, _R | _W, 0, 0, 0, 0, 16),
        ]
        return b"".join(
            struct.pack("<IIQQQQQQ", kind, rights, offset, address, address, in_file, in_memory, alignment)
            for kind, rights, offset, address, in_file, in_memory, alignment in segments
        )

    def _hash(self) -> bytes:
        """Return the table by which a loader finds a function: chains of those whose hashes are equal modulo the
        number of buckets."""
        count = len(self.exported)
        buckets, chains = [0] * max(1, count), [0] * (count + 1)
        for number, each in enumerate(self.exported, 1):
            bucket = _hash_of(each.name) % len(buckets)
            chains[number], buckets[bucket] = buckets[bucket], number
        words = (len(buckets), len(chains), *buckets, *chains)
        return struct.pack(f"<{len(words)}I", *words)


def _extent(section: Section) -> tuple[int, int, int, int]:
    return section.offset, section.address, section.nbytes, section.nbytes


def _hash_of(name: str) -> int:
    """Return the hash of the System V ABI."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF000_0000
        value = (value ^ high >> 24) & ~high
    return value & 0xFFFF_FFFF
