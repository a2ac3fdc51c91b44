"""Linker of shared libraries: object files as LLVM writes them, in one file that a system's loader takes.

The library has code, constants and the table of what it exports. It needs no other library and nothing is written when
it is loaded: no address in it depends on where it lies, so all processes share its pages.

    segment 1, read          headers, .hash, .dynsym, .dynstr
    segment 2, execute       .text
    segment 3, read-only once loaded   .dynamic
    segment 4, read          .rodata, the constants of the model last: only its start has to be within the code's reach

Format: System V ABI, "Program Loading and Dynamic Linking", and the supplements of the machines.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from cenote.codegen.relocations import MACHINES as CODE_MACHINES
from cenote.codegen.relocations import CodeMemory
from cenote.core.errors import ArgumentError, CodegenError
from cenote.export.elf import riscv
from cenote.export.elf.objects import MACHINES, aligned
from cenote.export.elf.reader import CodeRelocation, LinkedSection, ObjectFile, read_object
from cenote.export.elf.shared import SharedFile, SharedFunction

# Relocations that would hold the address itself: a library at any address cannot have one without writing its pages.
_ABSOLUTE = {"x86_64": (1, 10, 11), "aarch64": (257, 258), "riscv64": (1, 2)}
_TRAPS = {"x86_64": b"\xcc", "aarch64": b"\0", "riscv64": b"\0"}  # between functions
_CODE_ALIGNMENT = 16


class DataBlock(NamedTuple):
    """Constants under a name that code refers to: pieces of the content, which have so many bytes in all."""

    symbol: str
    content: Iterable[bytes]
    nbytes: int


class _Place(NamedTuple):
    """Start of a section or block in its part of the file: .text or .rodata."""

    is_code: bool
    offset: int


def shared_object(
    objects: Mapping[str, bytes],
    exported: Sequence[str],
    soname: str,
    machine: str,
    block: DataBlock | None = None,
) -> Iterator[bytes]:
    """Yield a shared library piece by piece. The same arguments give the same bytes.

    objects    object files by name
    exported   functions that the library offers; others stay inside
    soname     the library's own name, "libnet.so"
    machine    "x86_64", "aarch64" or "riscv64"
    block      constants, which may be large: they are passed through

    Raises CodegenError, with the object's name, for objects that are damaged or use what is not defined, and where
    parts lie too far apart.
    """
    if machine not in MACHINES:
        raise ArgumentError(f"machine: '{machine}' is none of {', '.join(MACHINES)}")
    files = [read_object(name, content, machine) for name, content in objects.items()]
    linked = _Linked(files, machine, block)
    functions = linked.functions(exported)
    file = SharedFile(machine, soname, functions, [len(linked.text), linked.rodata_bytes])
    linked.relocate(file.text_address, file.rodata_address)
    yield file.head()
    yield bytes(linked.text)
    yield file.between()
    yield bytes(linked.rodata)
    if block is not None:
        yield bytes(linked.block_offset - len(linked.rodata))
        yield from block.content
    yield file.tail()


class _Memory:
    """Part of the file while it is filled, at its address."""

    def __init__(self, content: bytearray, address: int) -> None:
        self.content, self.address = content, address

    def stub(self, address: int) -> int:
        raise AssertionError("all functions are inside")

    def entry(self, address: int) -> int:
        raise CodegenError("an address by a table (GOT) is not supported")

    def read(self, place: int) -> int:
        at = place - self.address
        return int.from_bytes(self.content[at : at + 4], "little")

    def write(self, place: int, form: str, value: int) -> None:
        struct.pack_into(form, self.content, place - self.address, value)


class _Linked:
    """Sections of all objects in two parts, code and constants."""

    def __init__(self, files: Sequence[ObjectFile], machine: str, block: DataBlock | None) -> None:
        self.files, self.machine, self.block = files, machine, block
        self.text, self.rodata = bytearray(), bytearray()
        self.places: dict[tuple[int, int], _Place] = {}
        for number, file in enumerate(files):
            for section in file.sections:
                self.places[number, section.number] = self._put(section)
        self.block_offset = aligned(len(self.rodata), 64)
        self.rodata_bytes = self.block_offset + block.nbytes if block else len(self.rodata)
        self.defined = self._defined()

    def _put(self, section: LinkedSection) -> _Place:
        part = self.text if section.is_code else self.rodata
        alignment = max(section.alignment, _CODE_ALIGNMENT if section.is_code else 1)
        filler = _TRAPS[self.machine] if section.is_code else b"\0"
        part += filler * (aligned(len(part), alignment) - len(part))
        offset = len(part)
        part += section.content
        return _Place(section.is_code, offset)

    def _defined(self) -> dict[str, tuple[int, int]]:
        """Return the object and number of each symbol that other objects can refer to."""
        found: dict[str, tuple[int, int]] = {}
        for number, file in enumerate(self.files):
            for place, symbol in enumerate(file.symbols):
                if symbol.is_local or not symbol.section:
                    continue
                own = self.block is not None and symbol.name == self.block.symbol
                if symbol.name in found or own:
                    other = "the constants" if own else self.files[found[symbol.name][0]].name
                    raise CodegenError(f"{file.name}: {symbol.name} is defined in {other} too")
                found[symbol.name] = number, place
        return found

    def functions(self, exported: Sequence[str]) -> list[SharedFunction]:
        """Return all functions, those that stay inside first; `exported` ones in their order."""
        if missing := [name for name in exported if name not in self.defined]:
            raise CodegenError(f"no object defines {', '.join(missing)}")
        inside: list[SharedFunction] = []
        offered: dict[str, SharedFunction] = {}
        for number, file in enumerate(self.files):
            for symbol in file.symbols:
                place = self.places.get((number, symbol.section))
                if place is None or not place.is_code or not symbol.is_function:
                    continue
                found = SharedFunction(symbol.name, place.offset + symbol.value, symbol.nbytes)
                if not symbol.is_local and symbol.name in exported:
                    offered[symbol.name] = SharedFunction(*found[:3], is_exported=True)
                else:
                    inside.append(found)
        if missing := [name for name in exported if name not in offered]:
            raise CodegenError(f"{', '.join(missing)}: no function")
        return [*inside, *(offered[name] for name in exported)]

    def relocate(self, text_address: int, rodata_address: int) -> None:
        """Fill all places that depend on others, for parts that lie at these addresses."""
        self.addresses = {True: text_address, False: rodata_address}
        memories = {
            True: _Memory(self.text, text_address),
            False: _Memory(self.rodata, rodata_address),
        }
        fill = riscv.relocator() if self.machine == "riscv64" else CODE_MACHINES[self.machine].relocate
        for number, file in enumerate(self.files):
            pages_first = sorted(file.relocations, key=lambda each: each.kind != riscv.PAGE)
            for each in pages_first if self.machine == "riscv64" else file.relocations:
                place = self.places[number, each.section]
                self._fill(fill, memories[place.is_code], number, each)

    def _fill(
        self,
        fill: Callable[[CodeMemory, int, int, int, int, bool], None],
        memory: _Memory,
        number: int,
        each: CodeRelocation,
    ) -> None:
        file, start = self.files[number], self.places[number, each.section]
        symbol = file.symbols[each.symbol].name
        try:
            if each.kind in _ABSOLUTE[self.machine]:
                raise CodegenError(f"an absolute address (relocation of type {each.kind}) is not supported")
            target = self._address(number, each.symbol) if each.symbol else 0
            place = self.addresses[start.is_code] + start.offset + each.offset
            fill(memory, each.kind, place, target, each.addend, True)
        except CodegenError as error:
            far = ": keep the weights beside it (weights='beside')" if "too far" in str(error) else ""
            raise CodegenError(
                f"{file.name}: {symbol or 'a place'} at {each.offset:#x}: {error}{far}"
            ) from None
        except (struct.error, LookupError) as error:
            raise CodegenError(
                f"{file.name}: {symbol or 'a place'} at {each.offset:#x}: damaged relocation of type {each.kind} "
                f"({error!r:.100})"
            ) from error

    def _address(self, number: int, place: int) -> int:
        """Return the address of a symbol of an object."""
        symbol = self.files[number].symbols[place]
        if not symbol.section:
            if self.block is not None and symbol.name == self.block.symbol:
                return self.addresses[False] + self.block_offset
            if symbol.name not in self.defined:
                raise CodegenError("no object defines it")
            number, place = self.defined[symbol.name]
            symbol = self.files[number].symbols[place]
        start = self.places.get((number, symbol.section))
        if start is None:
            raise CodegenError("its section is not loaded")
        return self.addresses[start.is_code] + start.offset + symbol.value
