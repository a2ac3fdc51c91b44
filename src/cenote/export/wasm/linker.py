"""Linker of WebAssembly: objects and raw data to one module, whose only import is its memory, and only with threads.

Memory: the stack first, which grows down to 0; then data with content; then what starts as zeros. With threads each has
a stack, and the memory is shared and made by the page. No stack overflows: nothing recurs, so the frames of the
functions are known, and their sum is compared with the stack's size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import chain

from cenote.core.deferred import dataclass
from cenote.core.errors import CapacityError, CodegenError
from cenote.export.wasm import binary
from cenote.export.wasm.objects import (
    ADDRESS_LEB,
    ADDRESS_SLEB,
    CODE,
    DATA,
    EXPORT,
    FUNCTION,
    FUNCTION_INDEX,
    GLOBAL,
    GLOBAL_INDEX,
    IMPORT,
    MAGIC,
    MEMORY,
    OF_DATA,
    OF_FUNCTION,
    TYPE,
    Relocation,
    WasmObject,
)

PAGE = 65536
_LARGEST = 1 << 32
_I32, _MUTABLE, _CONST, _END = b"\x7f", b"\1", b"\x41", b"\x0b"
_STACK_POINTER = "__stack_pointer"
_OPERAND = 5  # bytes that an object keeps for an index or address
_CALLS = 3  # functions on the stack at most: a run, a kernel, a copy


@dataclass(frozen=True)
class RawData:
    """Symbol of raw data at a cache line's start: its content, or how many zeros it starts with."""

    name: str
    content: bytes | int

    @property
    def nbytes(self) -> int:
        return self.content if isinstance(self.content, int) else len(self.content)


@dataclass
class Module:
    """Module in the making. `threads`: stacks that its memory has; 0 for a module with a memory of its own."""

    objects: Sequence[WasmObject]
    data: Sequence[RawData]
    threads: int = 0
    addresses: dict[str, int] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)  # of functions
    segments: list[tuple[int, bytes]] = field(default_factory=list)
    nbytes: int = 0  # of memory

    def __post_init__(self) -> None:
        self._check_stack()
        self._place()
        self._number()

    @property
    def stack(self) -> int:
        """Bytes of all stacks."""
        return PAGE * max(1, self.threads)

    @property
    def pages(self) -> int:
        return -(-self.nbytes // PAGE)

    def _check_stack(self) -> None:
        """Raise CodegenError where a function's frame could overflow a stack."""
        for each in self.objects:
            largest = max(each.frames(), default=0)
            if largest * _CALLS > PAGE:
                names = [
                    symbol.name for symbol in each.symbols if symbol.is_defined and symbol.kind == OF_FUNCTION
                ]
                raise CodegenError(
                    f"{', '.join(names)}: a frame of {largest:,} bytes on a stack of {PAGE:,}, "
                    f"which {_CALLS} functions share"
                )

    # ---- memory ---------------------------------------------------------------------------------------------------

    def _place(self) -> None:
        """Give everything in memory its address. Raises CapacityError beyond 4 GB."""
        at = self.stack
        for segment in chain.from_iterable(each.segments for each in self.objects):
            at = segment.address = -(-at // segment.alignment) * segment.alignment
            if any(segment.content):
                self.segments.append((at, segment.content))
            at += len(segment.content)
        for raw in sorted(self.data, key=lambda raw: isinstance(raw.content, int)):
            at = self.addresses[raw.name] = -(-at // 64) * 64
            if isinstance(raw.content, bytes):
                self.segments.append((at, raw.content))
            at += raw.nbytes
        if at > _LARGEST - PAGE:
            raise CapacityError(f"the module would need {at:,} bytes of memory; WebAssembly addresses 4 GB")
        self.nbytes = at
        for each in self.objects:
            if each.relocations.get("reloc.DATA"):
                raise CodegenError("an address in the data of a WebAssembly object")
            for symbol in each.symbols:
                if symbol.kind == OF_DATA and symbol.is_defined:
                    _check_new(self.addresses, symbol.name)
                    self.addresses[symbol.name] = each.segments[symbol.index].address + symbol.offset

    # ---- functions ------------------------------------------------------------------------------------------------

    def _number(self) -> None:
        count = 0
        for each in self.objects:
            imported = len(each.imported_functions)
            for symbol in each.symbols:
                if symbol.kind == OF_FUNCTION and symbol.is_defined:
                    _check_new(self.numbers, symbol.name)
                    self.numbers[symbol.name] = count + symbol.index - imported
            count += len(each.bodies)

    def _relocated(self, each: WasmObject, start: int, content: bytes) -> bytes:
        """Return a function's body with the indices and addresses that it names, in as few bytes as they need in place
        of the five that objects keep for each: branches have no distances that this could change."""
        made, done = bytearray(), 0
        for relocation in each.relocations.get("reloc.CODE", ()):
            at = relocation.place - start
            if 0 <= at < len(content):
                made += content[done:at] + self._operand(each, relocation)
                done = at + _OPERAND
        return bytes(made + content[done:])

    def _operand(self, each: WasmObject, relocation: Relocation) -> bytes:
        """Return the index or address that a relocation asks for."""
        symbol, kind = each.symbols[relocation.symbol], relocation.kind
        if kind == FUNCTION_INDEX:
            return binary.unsigned(_known(self.numbers, symbol.name))
        if kind == ADDRESS_LEB:
            return binary.unsigned(_known(self.addresses, symbol.name) + relocation.addend)
        if kind == ADDRESS_SLEB:
            return binary.address(_known(self.addresses, symbol.name) + relocation.addend)
        if kind == GLOBAL_INDEX and symbol.name == _STACK_POINTER:
            return binary.unsigned(0)
        raise CodegenError(f"relocation {kind} of {symbol.name or 'a symbol'} in a WebAssembly object")

    # ---- text -----------------------------------------------------------------------------------------------------

    def encoded(self, functions: Sequence[str], places: Sequence[str]) -> bytes:
        """Return the module, which exports its memory, these functions, and the addresses of these places as globals;
        with threads also the stack pointer `stack`, for each instance to set."""
        types: dict[bytes, int] = {}
        declared, code = [], []
        for each in self.objects:
            for type, (start, content) in zip(each.functions, each.bodies, strict=True):
                declared.append(binary.unsigned(types.setdefault(each.types[type], len(types))))
                body = self._relocated(each, start, content)
                code.append(binary.unsigned(len(body)) + body)
        limits = binary.unsigned(self.pages)
        memory = binary.name("env") + binary.name("memory") + b"\2\3" + limits + limits
        exports = [binary.name("stack") + b"\3\0" if self.threads else binary.name("memory") + b"\2\0"]
        exports += [binary.name(each) + b"\0" + binary.unsigned(self.numbers[each]) for each in functions]
        exports += [binary.name(each) + b"\3" + binary.unsigned(1 + i) for i, each in enumerate(places)]
        constants = [_I32 + b"\0" + _CONST + binary.address(self.addresses[each]) + _END for each in places]
        pointer = _I32 + _MUTABLE + _CONST + binary.address(self.stack) + _END
        sections = [
            (TYPE, [*types]),
            *([(IMPORT, [memory])] if self.threads else []),
            (FUNCTION, declared),
            *([] if self.threads else [(MEMORY, [b"\0" + limits])]),
            (GLOBAL, [pointer, *constants]),
            (EXPORT, exports),
            (CODE, code),
            (DATA, [_segment(at, content) for at, content in self.segments]),
        ]
        return MAGIC + b"".join(binary.section(kind, binary.vector(items)) for kind, items in sections)


def _segment(at: int, content: bytes) -> bytes:
    return b"\0" + _CONST + binary.address(at) + _END + binary.unsigned(len(content)) + content


def _check_new(found: Mapping[str, int], name: str) -> None:
    """Raise CodegenError for a name that another object has given: names are the module's, not an object's."""
    if name in found:
        raise CodegenError(f"two WebAssembly objects define {name}")


def _known(found: Mapping[str, int], name: str) -> int:
    if name not in found:
        raise CodegenError(f"the code calls or reads {name}, which the module does not have")
    return found[name]
