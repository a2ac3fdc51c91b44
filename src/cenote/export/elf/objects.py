"""Object files of raw data. Format: System V ABI, "Object Files" (ELF-64, little endian)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import field

from cenote.core.deferred import dataclass
from cenote.core.errors import CodegenError

# Numbers of machines, and the flags of their files: RISC-V's say that floats of 64 bits are passed in registers, and
# that instructions may be compressed.
MACHINES = {"x86_64": 62, "aarch64": 183, "riscv64": 243}
FLAGS = {"riscv64": 5}
RELOCATABLE, SHARED = 1, 3
PROGBITS, SYMTAB, STRTAB = 1, 2, 3
ALLOCATED = 2  # flag of sections that are loaded
HEADER_BYTES, SECTION_BYTES, SYMBOL_BYTES = 64, 64, 24
_GLOBAL_OBJECT, _HIDDEN = 0x11, 2


@dataclass
class Section:
    """Section of a file: fields of its header, and where its content lies."""

    name: str
    kind: int
    flags: int = 0
    address: int = 0
    offset: int = 0
    nbytes: int = 0
    link: int = 0
    info: int = 0
    alignment: int = 1
    entry: int = 0

    def header(self, name_at: int) -> bytes:
        return struct.pack(
            "<IIQQQQIIQQ",
            name_at,
            self.kind,
            self.flags,
            self.address,
            self.offset,
            self.nbytes,
            self.link,
            self.info,
            self.alignment,
            self.entry,
        )


@dataclass
class Strings:
    """Table of names, each ended by a zero byte."""

    content: bytearray = field(default_factory=lambda: bytearray(b"\0"))

    def add(self, name: str) -> int:
        """Add a name and return its place."""
        place = len(self.content)
        self.content += name.encode() + b"\0"
        return place


def file_header(machine: str, kind: int, sections_at: int, sections: int, programs: int = 0) -> bytes:
    """Return the header of a file whose last section holds the sections' names. `programs`: headers of segments that
    follow at once."""
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    programs_at, size = (HEADER_BYTES, 56) if programs else (0, 0)
    fields = (kind, MACHINES[machine], 1, 0, programs_at, sections_at, FLAGS.get(machine, 0), HEADER_BYTES)
    return ident + struct.pack(
        "<HHIQQQIHHHHHH", *fields, size, programs, SECTION_BYTES, sections, sections - 1
    )


def aligned(place: int, alignment: int) -> int:
    """Return the next multiple of an alignment."""
    return -(-place // alignment) * alignment


def data_object(symbol: str, content: Iterable[bytes], nbytes: int, machine: str) -> Iterator[bytes]:
    """Yield an object file with one hidden symbol, at a cache line's start, of read-only data: pieces of its content
    that have so many bytes in all."""
    names, strings = Strings(), Strings()
    symbols = bytes(SYMBOL_BYTES) + struct.pack(
        "<IBBHQQ", strings.add(symbol), _GLOBAL_OBJECT, _HIDDEN, 1, 0, nbytes
    )
    sections = [
        Section("", 0, alignment=0),
        Section(".rodata", PROGBITS, ALLOCATED, alignment=64, nbytes=nbytes),
    ]
    sections.append(
        Section(".symtab", SYMTAB, link=3, info=1, alignment=8, entry=SYMBOL_BYTES, nbytes=len(symbols))
    )
    sections.append(Section(".strtab", STRTAB, nbytes=len(strings.content)))
    sections += [Section(".note.GNU-stack", PROGBITS), Section(".shstrtab", STRTAB)]
    places = [names.add(section.name) if section.name else 0 for section in sections]
    sections[-1].nbytes = len(names.content)
    end = HEADER_BYTES
    for section in sections[1:]:
        section.offset = aligned(end, section.alignment)
        end = section.offset + section.nbytes
    headers_at = aligned(end, 8)
    yield file_header(machine, RELOCATABLE, headers_at, len(sections))
    yield bytes(sections[1].offset - HEADER_BYTES)
    yield from content
    yield bytes(sections[2].offset - sections[1].offset - nbytes)
    yield symbols + bytes(strings.content) + bytes(names.content) + bytes(headers_at - end)
    yield b"".join(section.header(place) for section, place in zip(sections, places, strict=True))


def undefined_symbols(code: bytes) -> set[str]:
    """Return the names of symbols that an object file uses and does not define. Raises CodegenError for no ELF file."""
    if code[:6] != b"\x7fELF\x02\x01":
        raise CodegenError("the object code is no ELF file of 64 bits")
    (table,) = struct.unpack_from("<Q", code, 40)
    _, count, _ = struct.unpack_from("<HHH", code, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", code, table + i * SECTION_BYTES) for i in range(count)]
    found: set[str] = set()
    for _, kind, _, _, offset, nbytes, link, *_ in headers:
        if kind != SYMTAB:
            continue
        names = headers[link][4]
        for at in range(offset + SYMBOL_BYTES, offset + nbytes, SYMBOL_BYTES):
            name, _, _, section = struct.unpack_from("<IBBH", code, at)
            if section == 0:
                found.add(code[names + name : code.index(b"\0", names + name)].decode())
    return found
