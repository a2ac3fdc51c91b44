"""Relocatable WebAssembly objects as LLVM writes them: types, functions, data, symbols and relocations.

Format: "WebAssembly Object File Linking" of WebAssembly's tool conventions, version 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from cenote.core.deferred import dataclass
from cenote.core.errors import CodegenError
from cenote.export.wasm.binary import Reader

MAGIC = b"\0asm\1\0\0\0"
CUSTOM, TYPE, IMPORT, FUNCTION, MEMORY, GLOBAL, EXPORT, CODE, DATA = 0, 1, 2, 3, 5, 6, 7, 10, 11
_DATA_COUNT = 12
OF_FUNCTION, OF_DATA, OF_GLOBAL, _OF_SECTION, _OF_TABLE = 0, 1, 2, 3, 5  # kinds of symbols
_SYMBOLS, _SEGMENTS = 8, 5  # subsections of "linking"
_UNDEFINED, _EXPLICIT_NAME = 0x10, 0x40
# Relocations: of the index of a function, of an address in code, and of the stack pointer's global.
FUNCTION_INDEX, ADDRESS_LEB, ADDRESS_SLEB, ADDRESS_I32, GLOBAL_INDEX = 0, 3, 4, 5, 7
_WITH_ADDEND = (ADDRESS_LEB, ADDRESS_SLEB, ADDRESS_I32)


@dataclass
class WasmSymbol:
    """Symbol: `index` is that of its function or global among the object's, or of the data segment that it lies in."""

    kind: int
    is_defined: bool
    name: str
    index: int = 0
    offset: int = 0


@dataclass
class DataSegment:
    """Stretch of memory with content; `start` is its place in the object's data section, `address` that in memory."""

    content: bytes
    start: int
    alignment: int = 1
    address: int = 0


@dataclass(frozen=True)
class Relocation:
    """Place in a section that holds the index or the address of a symbol."""

    kind: int
    place: int
    symbol: int
    addend: int


_GLOBAL_GET, _I32_CONST = 0x23, 0x41
_LARGEST_ALIGNMENT = 16  # as a power of two: of a page


@dataclass
class WasmObject:
    """A parsed object. `bodies`: place in the code section and content of each function."""

    types: list[bytes] = field(default_factory=list)
    imported_functions: list[str] = field(default_factory=list)
    imported_globals: list[str] = field(default_factory=list)
    functions: list[int] = field(default_factory=list)
    bodies: list[tuple[int, bytes]] = field(default_factory=list)
    segments: list[DataSegment] = field(default_factory=list)
    symbols: list[WasmSymbol] = field(default_factory=list)
    relocations: dict[str, list[Relocation]] = field(default_factory=dict)

    @staticmethod
    def parsed(data: bytes) -> WasmObject:
        """Parse an object. Raises CodegenError for what is none, is cut off or holds what code here never has."""
        if data[:8] != MAGIC:
            raise CodegenError("the object code is no WebAssembly")
        made, reader = WasmObject(), Reader(data, 8)
        try:
            while reader.more:
                kind = reader.byte()
                made._take(kind, reader.part())
        except (IndexError, UnicodeDecodeError) as error:
            raise CodegenError(f"the WebAssembly object is damaged: {error}") from None
        return made

    def frames(self) -> Iterator[int]:
        """Yield the bytes of the stack that functions take: what LLVM subtracts where it reads the stack pointer
        (global.get, i32.const BYTES, i32.sub)."""
        for relocation in self.relocations.get("reloc.CODE", ()):
            if relocation.kind == GLOBAL_INDEX:
                for start, body in self.bodies:
                    at = relocation.place - start
                    if 0 < at < len(body) - 6 and body[at - 1] == _GLOBAL_GET and body[at + 5] == _I32_CONST:
                        reader = Reader(body, at + 6)
                        yield reader.signed()

    def _take(self, kind: int, section: Reader) -> None:
        if kind == CUSTOM:
            self._take_custom(section)
        elif kind == TYPE:
            self._take_types(section)
        elif kind == IMPORT:
            for _ in range(section.unsigned()):
                self._take_import(section)
        elif kind == FUNCTION:
            self.functions = [section.unsigned() for _ in range(section.unsigned())]
        elif kind == CODE:
            start = section.at
            for _ in range(section.unsigned()):
                size = section.unsigned()
                self.bodies.append((section.at - start, section.bytes(size)))
        elif kind == DATA:
            self._take_data(section)
        elif kind != _DATA_COUNT:
            raise CodegenError(f"section {kind} in a WebAssembly object")

    def _take_types(self, section: Reader) -> None:
        for _ in range(section.unsigned()):
            begin = section.at
            if section.byte() != 0x60:
                raise CodegenError("a type that is no function's in a WebAssembly object")
            for _ in range(2):
                section.bytes(section.unsigned())  # a byte each
            self.types.append(section.data[begin : section.at])

    def _take_import(self, section: Reader) -> None:
        section.name()
        name, kind = section.name(), section.byte()
        if kind == 0:
            section.unsigned()
            self.imported_functions.append(name)
        elif kind == 1:
            section.byte()
            _limits(section)
        elif kind == 2:
            _limits(section)
        elif kind == 3:
            section.bytes(2)
            self.imported_globals.append(name)
        else:
            raise CodegenError(f"import of kind {kind} in a WebAssembly object")

    def _take_data(self, section: Reader) -> None:
        begin = section.at
        for _ in range(section.unsigned()):
            if section.unsigned() != 0:
                raise CodegenError("a data segment that is not active in a WebAssembly object")
            section.byte()
            section.signed()
            section.byte()  # i32.const PLACE end
            size = section.unsigned()
            self.segments.append(DataSegment(section.bytes(size), section.at - size - begin))

    def _take_custom(self, section: Reader) -> None:
        name = section.name()
        if name == "linking":
            if (version := section.unsigned()) != 2:
                raise CodegenError(f"version {version} of the linking section of a WebAssembly object")
            while section.more:
                kind = section.byte()
                self._take_linking(kind, section.part())
        elif name.startswith("reloc."):
            section.unsigned()
            self.relocations[name] = [_relocation(section) for _ in range(section.unsigned())]

    def _take_linking(self, kind: int, part: Reader) -> None:
        if kind == _SYMBOLS:
            self.symbols = [self._symbol(part) for _ in range(part.unsigned())]
        elif kind == _SEGMENTS:
            for segment in self.segments[: part.unsigned()]:
                part.name()
                segment.alignment = 1 << min(part.unsigned(), _LARGEST_ALIGNMENT)
                part.unsigned()

    def _symbol(self, part: Reader) -> WasmSymbol:
        kind, flags = part.byte(), part.unsigned()
        symbol = WasmSymbol(kind, not flags & _UNDEFINED, "")
        if kind in (OF_FUNCTION, OF_GLOBAL, _OF_TABLE):
            symbol.index = part.unsigned()
            imported = self.imported_functions if kind == OF_FUNCTION else self.imported_globals
            if symbol.is_defined or flags & _EXPLICIT_NAME:
                symbol.name = part.name()
            elif kind != _OF_TABLE:
                symbol.name = imported[symbol.index]
        elif kind == OF_DATA:
            symbol.name = part.name()
            if symbol.is_defined:
                symbol.index, symbol.offset = part.unsigned(), part.unsigned()
                part.unsigned()
        elif kind == _OF_SECTION:
            symbol.index = part.unsigned()
        else:
            raise CodegenError(f"symbol of kind {kind} in a WebAssembly object")
        return symbol


def _relocation(section: Reader) -> Relocation:
    kind, place, symbol = section.byte(), section.unsigned(), section.unsigned()
    return Relocation(kind, place, symbol, section.signed() if kind in _WITH_ADDEND else 0)


def _limits(section: Reader) -> None:
    for _ in range(2 if section.byte() & 1 else 1):
        section.unsigned()
